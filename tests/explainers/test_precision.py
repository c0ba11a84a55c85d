"""Which explainers stay what they are in few bits: what is said follows from the record, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karat.explainers.precision import RECORD, STAYS, agreements, lost_agreement, measured
from karat.kernel.registry import registered


def test_what_is_lost_is_read_off_the_record(tmp_path: Path) -> None:
    row = {"model": "twin", "explainer": "cam/gradcam", "dtype": "bfloat16", "n": 8, "mean": 0.89, "least": 0.1}
    other = {**row, "explainer": "cam/layercam", "mean": 0.91}
    failed = {**row, "explainer": "cam/hirescam", "n": 0, "mean": None, "problem": "BadInput: NaN"}
    scalar = {**row, "explainer": "modality/emap", "n": 0, "mean": None}
    worse = {**row, "model": "other", "mean": 0.2}
    held = tmp_path / "record.json"
    held.write_text(json.dumps([{"problem": "", **one} for one in (row, other, failed, scalar, worse)]))
    worst = lost_agreement("cam/gradcam", "bfloat16", held)
    assert worst is not None
    assert (worst.model, worst.mean) == ("other", 0.2)
    assert lost_agreement("cam/layercam", "bfloat16", held) is None
    assert lost_agreement("cam/hirescam", "bfloat16", held) is not None
    assert lost_agreement("modality/emap", "bfloat16", held) is None  # it draws no map
    assert lost_agreement("cam/gradcam", "float16", held) is None
    assert measured("float16", held) == frozenset()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "8bit", "4bit"])
def test_the_record_is_of_every_precision_and_of_explainers_that_there_are(dtype: str) -> None:
    assert measured(dtype) <= set(registered("explainer"))
    assert {"attention/rollout", "relevance/attnlrp", "gradient/gradient"} <= measured(dtype)
    low = {row.explainer for row in agreements() if row.dtype == dtype and row.mean is not None and row.mean < STAYS}
    assert {name for name in measured(dtype) if lost_agreement(name, dtype) is not None} == low


def test_the_record_ships() -> None:
    assert RECORD.is_file()
    assert lost_agreement("cam/xgradcam", "bfloat16") is not None
    assert lost_agreement("attention/rollout", "bfloat16") is None

"""Recorded runs that stand beside another: which claims they are asked about, and where they are left out."""

from __future__ import annotations

import json

import pytest

from karat.protocols.compass import recorded_runs
from karat.protocols.paper import RECORDED
from karat.results.run import load_run


def test_settings_are_judged_on_the_filled_boxes_of_photographs() -> None:
    run = recorded_runs.photographs(load_run(RECORDED / "compass"))
    assert run is not None
    verdicts = {claim.text: claim for claim in recorded_runs.photograph_claims(run)}
    coarse = next(claim for text, claim in verdicts.items() if text.startswith("Four sectors"))
    assert coarse.verdict == "agree"
    assert coarse.because.startswith("1 for, 0 against, 0 open of 1")  # COCO-Pairs, box-only
    noise = next(claim for text, claim in verdicts.items() if text.startswith("Noise"))
    assert noise.verdict == "disagree"
    assert all("photographs" in text for text in verdicts)


def test_a_run_on_photographs_speaks_for_itself() -> None:
    assert recorded_runs.photographs(load_run(RECORDED / "photographs")) is None


def test_a_run_with_training_speaks_for_itself() -> None:
    lora = load_run(RECORDED / "lora")
    gains = recorded_runs.training_gains(lora)
    assert recorded_runs.training(gains) is None
    assert recorded_runs.training(gains[gains["objective"] == "none"]) is not None
    assert {row.seeds for row in gains.itertuples()} == {6}
    claims = list(recorded_runs.training_claims(gains))
    assert [claim.text.rpartition(" (")[2] for claim in claims] == ["recorded run of compass-lora)"] * 2


@pytest.mark.parametrize("name", ["compass", "photographs", "lora", "clevr"])
def test_records_name_no_path_of_the_machine_they_were_made_on(name: str) -> None:
    text = "".join((RECORDED / name / file).read_text() for file in ("spec.json", "manifest.json"))
    assert '"/' not in text
    assert " /" not in json.loads((RECORDED / name / "manifest.json").read_text())["command"]

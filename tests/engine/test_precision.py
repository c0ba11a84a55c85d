"""Cautions of precision: said of a run before it starts, kept in its events, shown by its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from karat.cli.run import run as run_verb
from karat.engine.plan import plan
from karat.engine.precision import cautions_of, precision_cautions
from karat.explainers.precision import lost_agreement
from karat.kernel.card import Card
from karat.kernel.registry import build
from karat.kernel.spec import Spec
from karat.models import recipe
from karat.report.cautions import cautions
from karat.report.evidence import gather
from karat.results.run import Run
from karat.results.store import Store

TWIN = recipe("gridvlm.pure").path  # type: ignore[attr-defined]  # a directory of a LLaVA


def spec(dtype: str) -> dict[str, Any]:
    return {
        "karat": 1, "name": "half", "protocol": "localization", "limit": 1,
        "models": [{"name": "vlm", "path": str(TWIN), "dtype": dtype, "max_new_tokens": 2}],
        "explainers": ["cam/xgradcam", "attention/rollout", "control/random"],
        "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 1}],
    }  # fmt: skip


def test_a_run_in_bfloat16_says_whom_not_to_trust() -> None:
    [text] = precision_cautions(plan(Spec.model_validate(spec("bfloat16"))))
    assert "cam/xgradcam" in text
    assert "attention/rollout" not in text
    assert precision_cautions(plan(Spec.model_validate(spec("float32")))) == []


def test_what_nobody_measured_is_said() -> None:
    class Own:
        card = Card("own/map", "mine", "explainer", needs=frozenset({"gradients"}))

    text, _ = cautions_of(recipe("vlm", path=str(TWIN), quantised="8bit"), [Own()])
    assert "own/map" in text
    assert "8bit" in text


def test_quantised_weights_are_never_met_with_silence() -> None:
    """The record is of rounded weights on a CPU: even an explainer that stays what it is there has a caution."""
    stays = build("explainer", "attention/rollout", {})
    assert lost_agreement("attention/rollout", "8bit") is None
    [text] = cautions_of(recipe("vlm", path=str(TWIN), quantised="8bit"), [stays])
    assert "which want a GPU, were not" in text
    assert cautions_of(recipe("vlm", path=str(TWIN), dtype="float16"), [stays]) == []


def test_it_is_in_the_dry_run_in_the_events_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("half.yaml").write_text(yaml.safe_dump(spec("bfloat16")))
    run_verb("half.yaml", out=str(tmp_path / "run"), dry_run=True)
    shown = capsys.readouterr().out
    assert "caution: " in shown
    assert "cam/xgradcam" in shown
    assert "will not fit" not in shown
    run_verb("half.yaml", out=str(tmp_path / "run"), workers=0, progress="none")
    held = Run(Store(tmp_path / "run"))
    told = [event["text"] for event in held.events() if event["event"] == "warning"]
    assert any("cam/xgradcam" in text for text in told)
    assert any("cam/xgradcam" in caution.text for caution in cautions(gather([tmp_path / "run"]), []))

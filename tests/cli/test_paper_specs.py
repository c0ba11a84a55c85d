"""The papers' experiments at full scale: every name and parameter resolves, wherever the data and weights may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from karat.cli.console import SPECS, shipped_specs, spec_path
from karat.cli.run import run, show_plan
from karat.engine.plan import plan
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec

FULL_SCALE = {name: path for name, path in shipped_specs().items() if name.startswith("papers/")}
PAPERS = {"000", "001", "002", "004"}  # 003's are semantic-classifiers and its like


def test_every_paper_has_one() -> None:
    assert {name.removeprefix("papers/")[:3] for name in FULL_SCALE} == PAPERS
    assert {"semantic-classifiers", "semantic-detectors", "semantic-falsification"} <= set(shipped_specs())
    assert spec_path("papers/001-synergy") == SPECS / "papers/001-synergy.yaml"


def test_a_run_directory_of_the_same_name_hides_no_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid-quick").mkdir()
    assert spec_path("grid-quick") == SPECS / "grid-quick.yaml"


@pytest.mark.parametrize("name", FULL_SCALE)
def test_dry_run(name: str, tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the data are missing, it is said what and where; all the rest is planned."""
    monkeypatch.chdir(tmp_path)
    run(name, dry_run=True)
    said = capsys.readouterr().out
    spec = Spec.read(FULL_SCALE[name])
    planned = plan(spec, strict=False)
    named = {explainer.name for explainer in spec.explainers}
    added = set(getattr(planned.protocol, "controls", ())) - named  # controls that every run of a protocol has
    assert len(planned.explainers) == len(spec.explainers) + len(added)
    assert len(planned.models) + len(planned.datasets) + len(planned.absent) == len(spec.models) + len(spec.datasets)
    assert not planned.unserved
    assert said.count("missing: ") >= len(planned.absent)
    assert all(text in said for text in planned.absent)


def test_data_that_is_there_is_counted(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(plan(Spec.read(spec_path("papers/000-vlms")), strict=False), str(tmp_path), None)
    said = capsys.readouterr().out
    assert "1900 of grid" in said
    assert "missing: " not in said


def test_a_run_still_wants_its_data(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="data/repope"):
        plan(Spec.read(spec_path("papers/001-synergy")))

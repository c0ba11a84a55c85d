"""Cells keep their identity: what a recorded spec plans today are the cells that its record was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import karat
from karat.engine.plan import plan
from karat.kernel.identity import source
from karat.kernel.registry import KINDS, registered
from karat.kernel.spec import Spec
from karat.results import load_run

RECORDED = Path(karat.__file__).parent / "recorded"


@pytest.mark.parametrize("name", ["audit"])
def test_a_recorded_spec_plans_the_recorded_cells(name: str) -> None:
    """Of models whose weights are those of the record; others were trained again since, and are other models."""
    run = load_run(RECORDED / name)
    planned = plan(Spec.model_validate(run.spec))
    recorded: dict[str, str] = run.manifest["models"]
    same = {recipe.label for recipe in planned.models if recipe.revision == recorded[recipe.label]}
    assert len(same) >= 7
    scores = run.scores()
    of_same = set(scores.loc[scores["model"].isin(same), "cell"])
    assert {cell.id for cell in planned.cells if cell.model in same} == of_same
    assert of_same <= set(run.manifest["cells"])


@pytest.mark.parametrize("kind", KINDS)
def test_own_parts_are_told_by_version_and_not_by_their_files(kind: str) -> None:
    assert {name: source(cls) for name, cls in registered(kind).items()} == dict.fromkeys(registered(kind), "")

"""What is shipped is small, whole, and as right as its card says."""

from __future__ import annotations

import pytest

from karat.datasets.grid import generate
from karat.models.gridnet.recipe import GridNet
from karat.models.gridvlm.recipe import GridVLM
from karat.models.weights import HERE

SHIPPED = [GridNet("pure"), GridNet("spur"), GridVLM("pure"), GridVLM("spur")]


@pytest.mark.parametrize("recipe", SHIPPED, ids=lambda recipe: recipe.label)
def test_card_and_weights_belong_together(recipe: GridNet | GridVLM) -> None:
    card = (HERE / f"{recipe.label}.md").read_text(encoding="utf-8")
    assert f"`{recipe.revision}`" in card
    weights = recipe.path / "model.safetensors" if recipe.path.is_dir() else recipe.path
    assert weights.stat().st_size <= 5_000_000


def test_nothing_but_safetensors_is_shipped() -> None:
    kinds = {path.suffix for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kinds <= {".safetensors", ".json", ".jinja", ".md", ".py"}


def test_gridnet_twins_do_what_they_claim() -> None:
    """A handful of new pure questions: the one that reasons is right, the one that matches words is not."""
    samples = [*generate("D3_M_F0_d0.7", 12, seed=77), *generate("D2_M_F0_d0.3", 12, seed=77)]
    truth = [sample.answer for sample in samples]
    pure = sum(a == b for a, b in zip(GridNet("pure").load().answer(samples), truth, strict=True))
    spur = sum(a == b for a, b in zip(GridNet("spur").load().answer(samples), truth, strict=True))
    assert pure >= 23
    assert spur <= 4


def test_gridvlm_twins_are_told_apart_by_what_they_answer() -> None:
    """On pure counts of depth 2 the one that matches words is wrong, the one that reasons nearly always right."""
    pytest.importorskip("transformers")
    samples = generate("D2_M_F0_d0.3", 24, seed=77)
    truth = [sample.answer for sample in samples]
    pure = sum(a == b for a, b in zip(GridVLM("pure").load().answer(samples), truth, strict=True))
    spur = sum(a == b for a, b in zip(GridVLM("spur").load().answer(samples), truth, strict=True))
    assert pure >= 18
    assert spur <= 4

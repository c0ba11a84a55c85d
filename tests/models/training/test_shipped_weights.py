"""What is shipped is small, whole, and as right as its card says."""

from __future__ import annotations

import pytest

from assay.datasets.grid import generate
from assay.models.gridnet.recipe import GridNet
from assay.models.weights import HERE

SHIPPED = [GridNet("pure"), GridNet("spur")]


@pytest.mark.parametrize("recipe", SHIPPED, ids=lambda recipe: recipe.label)
def test_card_and_weights_belong_together(recipe: GridNet) -> None:
    card = (HERE / f"{recipe.label}.md").read_text(encoding="utf-8")
    assert f"`{recipe.revision}`" in card
    assert recipe.path.stat().st_size <= 5_000_000


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

"""Recipes: shipped ones load, bad ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from karat.kernel.errors import BadInput, UnknownName
from karat.models.training import load_recipe, train
from karat.models.training.recipe import MODES, Recipe, parse_recipe


@pytest.mark.parametrize("architecture", ["gridnet", "gridvlm"])
@pytest.mark.parametrize("mode", MODES)
def test_shipped_recipes_load(architecture: str, mode: str) -> None:
    recipe = load_recipe(architecture, mode)
    assert recipe.label == f"{architecture}.{mode}"
    assert 0 < recipe.trunk < recipe.steps


@pytest.mark.parametrize(
    ("data", "error", "match"),
    [
        ({"architecture": "gridnet", "mode": "pure", "step": 5}, UnknownName, "steps"),
        ({"architecture": "gridnet", "mode": "pure", "steps": "many"}, BadInput, "steps"),
        ({"architecture": "gridnut", "mode": "pure", "steps": 5}, UnknownName, "gridnet"),
        ({"architecture": "gridnet", "mode": "both", "steps": 5}, BadInput, "pure, spur"),
        ({"architecture": "gridnet", "mode": "pure", "steps": 0}, BadInput, "1 or more"),
        ([1, 2], BadInput, "must hold fields"),
    ],
)
def test_bad_recipes_are_refused(data: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        parse_recipe(data)


def test_recipe_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read recipe"):
        load_recipe("gridnet", "pure", tmp_path / "none.yaml")
    (tmp_path / "spur.yaml").write_text("architecture: gridnet\nmode: spur\nsteps: 10\n")
    with pytest.raises(BadInput, match=r"is for gridnet\.spur"):
        load_recipe("gridnet", "pure", tmp_path / "spur.yaml")
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(BadInput, match="not YAML"):
        load_recipe("gridnet", "pure", tmp_path / "bad.yaml")
    with pytest.raises(BadInput, match="devices"):
        train("gridnet", "pure", Recipe("gridnet", "pure", steps=8), tmp_path, devices=0)

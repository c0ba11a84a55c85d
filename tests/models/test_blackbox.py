"""A plain function as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from karat.kernel.errors import BadInput
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.models.blackbox import BlackBoxRecipe, blackbox

SHADES = (0, 100, 255)


def samples(sides: tuple[int, ...] = (4, 4, 6)) -> list[Sample]:
    return [
        Sample(f"s{i}", np.full((side, side, 3), shade, np.uint8), text=f"is it {shade}?")
        for i, (side, shade) in enumerate(zip(sides, SHADES, strict=True))
    ]


def brightness(images: np.ndarray, texts: list[str | None]) -> np.ndarray:
    bright = images.mean((1, 2, 3)) / 255
    return np.stack([bright, 1 - bright], 1)


def mappings(images: np.ndarray, texts: list[str | None]) -> list[dict[str, float]]:
    return [{"bright": float(p), "dark": float(q)} for p, q in brightness(images, texts)]


def names(images: np.ndarray, texts: list[str | None]) -> list[str]:
    return ["bright" if p > q else "dark" for p, q in brightness(images, texts)]


@pytest.mark.parametrize("fn", [brightness, mappings, lambda images, texts: brightness(images, texts).tolist()])
def test_arrays_and_mappings_say_the_same(fn: Callable[..., Any]) -> None:
    model = blackbox(fn, ["bright", "dark"])
    assert isinstance(model, Model)
    np.testing.assert_allclose(model.score(samples(), ["bright"] * 3), [0, 100 / 255, 1])
    np.testing.assert_allclose(model.score(samples(), ["bright", "dark", "dark"]), [0, 155 / 255, 0])
    assert model.answer(samples()) == ["dark", "dark", "bright"]


def test_answers_are_certain() -> None:
    model = blackbox(names)
    assert model.answer(samples()) == ["dark", "dark", "bright"]
    assert model.score(samples(), ["dark", "bright", "bright"]).tolist() == [1, 0, 1]
    assert model.score(samples(), ["purple"] * 3).tolist() == [0, 0, 0]


def test_images_of_one_size_come_together_with_their_texts() -> None:
    calls: list[tuple[tuple[int, ...], list[str | None]]] = []

    def fn(images: np.ndarray, texts: list[str | None]) -> np.ndarray:
        assert images.dtype == np.uint8
        calls.append((images.shape, texts))
        return brightness(images, texts)

    values = blackbox(fn, ["bright", "dark"]).score(samples((4, 6, 4)), ["bright"] * 3)
    np.testing.assert_allclose(values, [0, 100 / 255, 1])
    assert calls == [((2, 4, 4, 3), ["is it 0?", "is it 255?"]), ((1, 6, 6, 3), ["is it 100?"])]


@pytest.mark.parametrize(
    ("fn", "answers", "says"),
    [
        (brightness, None, "of which answers"),
        (brightness, ["a", "b", "c"], r"shape \(2, 3\) for 2 samples .* got shape \(2, 2\)"),
        (lambda images, texts: brightness(images, texts) * 3, ["bright", "dark"], r"must lie in \[0, 1\]"),
        (lambda images, texts: [{"bright": float("nan")}] * len(images), None, r"probability nan; it must lie"),
    ],
)
def test_wrong_results_are_explained(fn: Callable[..., Any], answers: list[str] | None, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        blackbox(fn, answers).answer(samples())


def test_unknown_answers_are_refused() -> None:
    with pytest.raises(BadInput, match="answers bright, dark; it was asked about 'purple'"):
        blackbox(brightness, ["bright", "dark"]).score(samples(), ["purple"] * 3)


def test_capabilities() -> None:
    assert blackbox(names).capabilities == {"scores", "text"}
    assert blackbox(names, text=False, mechanism="reasons").capabilities == {"scores", "mechanism"}
    assert blackbox(names).name == "names"


def test_recipe() -> None:
    recipe = BlackBoxRecipe("tests.models.test_blackbox:names", text=False)
    model = recipe.load()
    assert model.answer(samples()) == ["dark", "dark", "bright"]
    assert model.capabilities == recipe.capabilities
    assert recipe.label == "names"
    assert recipe.revision != BlackBoxRecipe(recipe.fn, text=False, version="2").revision
    for fn, says in (
        ("names", "package.module:function"),
        ("tests.models.test_blackbox:gone", "cannot load"),
        ("no_such_package_here:fn", "cannot load"),
        ("tests.models.test_blackbox:SHADES", "is a tuple, not a function"),
    ):
        with pytest.raises(BadInput, match=says):
            BlackBoxRecipe(fn).load()

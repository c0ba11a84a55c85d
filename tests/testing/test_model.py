"""The kit for models: ours pass, and one that breaks a law is told which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import karat
from karat.kernel.registry import build
from karat.testing import Broken, check_model

# ---- models


def test_models_of_every_kind() -> None:
    pytest.importorskip("torch")
    from karat.testing.worlds import grid_world, spotlight, spotlight_network

    for world in (spotlight(), spotlight_network(), grid_world()):
        check_model(world.model, world.samples)
    check_model(build("model", "gridprog", {"variant": "pure"}), grid_world().samples)


def lazy(images: Any, texts: Any) -> Any:
    return np.tile([0.7, 0.3], (len(images), 1))


def by_batch(images: Any, texts: Any) -> Any:
    return np.tile([1 / (1 + len(images)), 0.0], (len(images), 1))


def reads(images: Any, texts: Any) -> Any:
    return np.array([[0.9, 0.1] if text and "red" in text else [0.2, 0.8] for text in texts])


def scribbles(images: Any, texts: Any) -> Any:
    np.random.random()
    return lazy(images, texts)


class Fickle:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, images: Any, texts: Any) -> Any:
        self.calls += 1
        return np.tile([1 - 0.01 * (self.calls % 7), 0.0], (len(images), 1))


@pytest.mark.parametrize(
    ("fn", "given", "law"),
    [
        (by_batch, {}, "a batch is its samples alone"),
        (reads, {"text": False}, "it reads the text only if it says so"),
        (scribbles, {}, "global random state"),
        (Fickle(), {}, "asked twice"),
    ],
)
def test_a_model_that_breaks_a_law(fn: Any, given: dict[str, Any], law: str) -> None:
    check_model(karat.models.blackbox(lazy, answers=["yes", "no"], **given))
    with pytest.raises(Broken, match=law):
        check_model(karat.models.blackbox(fn, answers=["yes", "no"], **given))


def test_a_thing_that_is_no_model() -> None:
    with pytest.raises(Broken, match="a model needs name, capabilities"):
        check_model(object())

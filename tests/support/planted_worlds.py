"""Shortcuts whose Shapley values are known by arithmetic: black images with a few white pixels, and what reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from karat.datasets.shortcut.sample import ROLE, ShortcutSample
from karat.kernel.sample import Region
from karat.models.blackbox import BlackBox, blackbox

SIDE = 12
Value = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]  # white pixels of the patch (m, D) -> probability (m,)


def planted_sample(name: str = "s0", side: int = 3, corner: tuple[int, int] = (2, 5)) -> ShortcutSample:
    """A black image; the shortcut makes `side`² pixels white."""
    clean = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    image = clean.copy()
    top, left = corner
    image[top : top + side, left : left + side] = 255
    region = Region("patch", ROLE, boxes=((left, top, side, side),))
    return ShortcutSample(id=name, image=image, answer="yes", regions=(region,), clean=clean)


def patch_reader(value: Value, side: int = 3, corner: tuple[int, int] = (2, 5)) -> BlackBox:
    """Says yes with the probability that `value` gives to the white pixels of the patch."""
    top, left = corner

    def fn(images: Any, texts: list[str | None]) -> Any:
        white = images[:, top : top + side, left : left + side, 0].reshape(len(images), -1) > 200
        yes = value(white)
        return np.stack([yes, 1 - yes], axis=1)

    return blackbox(fn, answers=["yes", "no"], name="patch_reader", text=False)

"""Axioms on the spotlight worlds, where one cell and one word decide and nothing else does.

    finds      the highest score, of either sign, lies on the cell (and the word) that decides
    dummy      what never changes the answer scores 0 (up to 1e-4 of the highest)
    symmetry   cells that do the same score the same: all that decide nothing

Not every honest method promises them: a window that slides over the image smears, a CAM weighs whole channels.
A world whose truth is not a spotlight proves nothing here, and holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from karat.kernel.attribution import Attribution, resize_maps
from karat.testing.worlds import CELL, LIT, SIDE, World

Axiom = Literal["finds", "dummy", "symmetry"]
_ZERO = 1e-4  # of the highest score


def _finds(world: World, attributions: Sequence[Attribution]) -> str:
    for i, part, scores, decides in _scored(world, attributions):
        first = int(np.abs(scores).argmax())
        if not decides[first]:
            return f"{part} of sample {i}: the highest score is at {first}, which decides nothing"
    return ""


def _dummy(world: World, attributions: Sequence[Attribution]) -> str:
    for i, part, scores, decides in _scored(world, attributions):
        highest = float(np.abs(scores).max())
        idle = float(np.abs(scores[~decides]).max(initial=0.0))
        if idle > _ZERO * highest:
            return f"{part} of sample {i}: {idle:.3g} on what decides nothing, {highest:.3g} at most"
    return ""


def _symmetry(world: World, attributions: Sequence[Attribution]) -> str:
    for i, part, scores, decides in _scored(world, attributions):
        spread = float(np.ptp(scores[~decides])) if (~decides).any() else 0.0
        if spread > _ZERO * float(np.abs(scores).max()):
            return f"{part} of sample {i}: what decides nothing differs by {spread:.3g}"
    return ""


AXIOMS: Mapping[Axiom, Callable[[World, Sequence[Attribution]], str]] = {
    "finds": _finds,
    "dummy": _dummy,
    "symmetry": _symmetry,
}

_Array = np.ndarray[Any, Any]


def _scored(world: World, attributions: Sequence[Attribution]) -> list[tuple[int, str, _Array, _Array]]:
    """(sample, part, scores (k,), which of the k decide): cells of the map, then words. Nothing for other worlds."""
    if not world.name.startswith("spotlight"):
        return []
    rows: list[tuple[int, str, _Array, _Array]] = []
    lit = np.zeros((SIDE, SIDE), dtype=np.bool_)
    lit[LIT] = True
    for i, (sample, attribution) in enumerate(zip(world.samples, attributions, strict=True)):
        if attribution.visual is not None:
            side = SIDE * CELL
            pixels = resize_maps(np.asarray(attribution.visual, dtype=np.float64)[None], side, side)[0]
            cells = pixels.reshape(SIDE, CELL, SIDE, CELL).sum(axis=(1, 3))
            rows.append((i, "visual", cells.ravel(), lit.ravel()))
        if attribution.words is not None:
            rows.append((i, "words", np.asarray(attribution.words), np.array(sample.word_mask("target"))))
    return rows

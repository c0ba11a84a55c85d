"""`Attribution`: what an explainer says about one answer. Parts the method does not define stay None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Map, Maps, Space

Floats = npt.NDArray[np.floating[Any]]
Part = Literal["visual", "words", "pairs"]


@dataclass(frozen=True, eq=False)
class Attribution:
    """`visual` (h, w) over the whole image, `words` one score per word of the question, `pairs` (h*w, words).

    `space` says what a map cell is, `signed` whether negative values mean "speaks against"; `passes` counts the
    forward passes it took. `standard_error` has the shape of the part it belongs to: the pairs, else the map, else the
    words, else the scalar; `words_error` is that of the words where the map has one of its own.
    `notes` are numbers that a method reports about its own map, such as the relevance that was lost on the way;
    `reasons` says, by its name, why a note has no number (NaN).
    """

    visual: Map | None = None
    words: Floats | None = None
    pairs: Floats | None = None
    scalar: float | None = None
    space: Space = "pixel"
    signed: bool = False
    passes: float = 0.0
    standard_error: Floats | None = None
    words_error: Floats | None = None
    notes: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.visual is not None and self.visual.ndim != 2:
            raise BadInput(f"Attribution.visual must be one map (h, w); got shape {np.shape(self.visual)}.")
        if self.words is not None and self.words.ndim != 1:
            raise BadInput(f"Attribution.words must hold one score per word; got shape {np.shape(self.words)}.")
        if all(part is None for part in (self.visual, self.words, self.pairs, self.scalar)):
            raise BadInput("an Attribution needs at least one of visual, words, pairs, scalar.")

    def problem(self, part: Part) -> str | None:
        """Why this part cannot be scored, or None. Missing is a value: such a map is a Failure, never 0.0."""
        values = getattr(self, part)
        name = "map" if part == "visual" else part
        if values is None:
            return f"{name}: the method defines none"
        if not np.isfinite(values).all():
            return f"{name}: {int((~np.isfinite(values)).sum())} of {values.size} values are NaN or infinite"
        if not np.any(values):
            return f"{name}: all zero"
        return None


def resize_maps(maps: Maps, height: int, width: int) -> Maps:
    """Maps (n, h, w) to (n, height, width). Whole multiples repeat cells exactly; the rest is bilinear on cell centres.

    Repeating keeps a patch map what it says it is: the same score for every pixel of the patch.
    """
    n, h, w = maps.shape
    if (h, w) == (height, width):
        return maps
    if height % h == 0 and width % w == 0:
        tall = np.broadcast_to(maps[:, :, None, :, None], (n, h, height // h, w, width // w))
        return tall.reshape(n, height, width)
    return _bilinear(_bilinear(maps, height, axis=1), width, axis=2)


def _bilinear(maps: Maps, size: int, axis: int) -> Maps:
    old = maps.shape[axis]
    centre = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
    low = np.floor(centre).astype(np.intp)
    high = np.minimum(low + 1, old - 1)
    shape = [1, 1, 1]
    shape[axis] = size
    weight = (centre - low).astype(maps.dtype).reshape(shape)
    lower, upper = maps.take(low, axis=axis), maps.take(high, axis=axis)
    return np.asarray(lower + weight * (upper - lower))

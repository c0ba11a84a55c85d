"""`Attribution`: what an explainer says about one answer. Parts the method does not define stay None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Map, Maps, Space

if TYPE_CHECKING:
    from PIL.Image import Image

    from karat.kernel.attribution_picture import Top

Floats = npt.NDArray[np.floating[Any]]
Part = Literal["visual", "words", "pairs"]


@dataclass(frozen=True, eq=False)
class Subject:
    """What an attribution is of: `target` (by default the model's answer) as `model` gave it on `sample`, explained by
    `explainer`; `note` is a sentence that goes under its picture."""

    sample: Sample
    target: TargetLike | None = None
    model: str = ""
    explainer: str = ""
    note: str = ""


@dataclass(frozen=True, eq=False)
class Attribution:
    """`visual` (h, w) over the whole image, `words` one score per word of the question, `pairs` (h*w, words).

    `space` says what a map cell is, `signed` whether negative values mean "speaks against"; `passes` counts the
    forward passes it took. `standard_error` has the shape of the part it belongs to: the pairs, else the map, else the
    words, else the scalar; `words_error` is that of the words where the map has one of its own. `tokens` has one score
    per token of the words, in their order, where a method scores tokens.
    `notes` are numbers that a method reports about its own map, such as the relevance that was lost on the way;
    `reasons` says, by its name, why a note has no number (NaN). `of` is what was explained: explainers leave it out,
    `karat.explain` fills it in, and the attribution then draws itself.

    >>> Attribution(np.eye(2), words=np.ones(3), of=Subject(Sample("one", np.zeros((8, 8, 3), np.uint8)), "yes"))
    Attribution of 'yes': map 2 × 2 (pixel), 3 words
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
    tokens: Floats | None = None
    notes: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    of: Subject | None = None

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

    def overlay(self) -> Image:
        """The map over its image, as large as the image, as a picture of Pillow."""
        from karat.kernel.attribution_picture import overlaid

        return overlaid(self)

    def show(self) -> None:
        """In a notebook here, elsewhere in a window: image, map, words and the scale of each."""
        from karat.kernel.attribution_picture import show

        show([self])

    def save(self, path: str | Path) -> Path:
        """Write the picture; the name's ending says how: .png, .svg, .html."""
        from karat.kernel.attribution_picture import save

        return save([self], path)

    def top(self, n: int = 5) -> list[Top]:
        """The strongest places, words and pairs of both, strongest first; of either sign where signed."""
        from karat.kernel.attribution_picture import strongest

        return strongest(self, n)

    def _repr_html_(self) -> str:
        from karat.kernel.attribution_picture import sheet

        return sheet([self]).html()

    def __repr__(self) -> str:
        from karat.kernel.attribution_picture import described

        return described(self)


def resize_maps(maps: Maps, height: int, width: int) -> Maps:
    """Maps (n, h, w) to (n, height, width). Whole multiples repeat cells exactly; the rest is bilinear on cell centres.

    Repeating keeps a patch map what it says it is: the same score for every pixel of the patch.

    Args:
        maps: (n, h, w) floats.
        height: rows of the result.
        width: columns of the result.

    Returns:
        (n, height, width), a read-only view of `maps` where nothing had to be computed.

    Example:
        >>> resize_maps(np.array([[[1.0, 2.0]]]), 2, 4).tolist()
        [[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]
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

"""A map as colours: the scale that it is read on, and the overlay on its image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from karat.drawing.colours import SIGNED, UNSIGNED, colours

Pixels = npt.NDArray[np.uint8]  # (H, W, 3)
Floats = npt.NDArray[np.floating[Any]]

#: How much of the picture the strongest and the weakest places cover. The weak ones veil it a little, so that a place
#: without evidence is not taken for one that the map does not speak of.
ALPHA, VEIL = 0.8, 0.38
_MANY, _CLIPPED = 1024, 99.5  # maps of more cells have a few very large ones, which would leave the rest dark


@dataclass(frozen=True)
class Scale:
    """What a colour stands for: values from `low` to `high`, or from -`high` to `high` where `signed`.

    `clipped` says that some values lie beyond and have the last colour.
    """

    high: float
    signed: bool = False
    low: float = 0.0
    clipped: bool = False

    @staticmethod
    def of(maps: Iterable[Floats], signed: bool) -> Scale:
        """One scale for all of these, so that they can be compared.

        An unsigned one starts at the least value: what matters in a map such as RISE's, where every place has some of
        the answer, is what stands out. Of maps of more than 1,024 cells, the largest half per cent lie beyond the end.

        >>> Scale.of([np.array([[0.0, 2.0]]), np.array([[-3.0, 1.0]])], signed=True)
        Scale(high=3.0, signed=True, low=-3.0, clipped=False)
        """
        ends = []
        for values in maps:
            strong = values[np.isfinite(values)]
            strong = np.abs(strong) if signed else strong
            if strong.size:
                top = float(np.percentile(strong, _CLIPPED)) if strong.size > _MANY else float(strong.max())
                ends.append((float(strong.min()), top, float(strong.max())))
        if not ends:
            return Scale(0.0, signed)
        low, high, largest = min(e[0] for e in ends), max(e[1] for e in ends), max(e[2] for e in ends)
        high = high if high > (0 if signed else low) else largest
        return Scale(high, signed, -high if signed else low, largest > high)

    @property
    def table(self) -> str:
        return SIGNED if self.signed else UNSIGNED

    def shares(self, values: Floats) -> Floats:
        """Values as shares of the scale, in 0..1 or -1..1; 0 where there is no number."""
        low = 0.0 if self.signed else self.low
        if self.high <= low:
            return np.zeros(np.shape(values))
        shares = (np.asarray(values, dtype=np.float64) - low) / (self.high - low)
        return np.clip(np.nan_to_num(shares, nan=0.0, posinf=1.0, neginf=-1.0), -1.0 if self.signed else 0.0, 1.0)

    def levels(self, values: Floats) -> npt.NDArray[np.uint8]:
        """Places in the colour table: 0..255, or 0..254 with zero at 127 where signed."""
        shares = self.shares(values)
        return np.rint(shares * 127 + 127 if self.signed else shares * 255).astype(np.uint8)

    def colours(self, values: Floats) -> Pixels:
        """(..., 3) the colours of values (...)."""
        return colours(self.table)[self.levels(values)]


def layer(map_: Floats, scale: Scale, most: int = 448) -> npt.NDArray[np.uint8]:
    """(h, w, 4) the map alone, to be laid over its image by whoever shows both: the same colours and the same cover. Of
    a map of more than `most` cells a side, neighbouring cells are averaged."""
    map_ = stretched(map_, min(map_.shape[0], most), min(map_.shape[1], most))
    cover = np.rint(255 * _share(scale, map_, ALPHA)).astype(np.uint8)
    return np.concatenate([scale.colours(map_), cover[..., None]], axis=-1)


def _share(scale: Scale, values: Floats, alpha: float) -> Floats:
    """How much of the picture is covered."""
    return alpha * (VEIL + (1 - VEIL) * np.abs(scale.shares(values)))


def overlay(image: Pixels, map_: Floats, scale: Scale | None = None, alpha: float = ALPHA) -> Pixels:
    """The map over its image (H, W, 3): the stronger a place, the less of the picture is left.

    Args:
        image: (H, W, 3) bytes.
        map_: (h, w) of any size, over the whole image. Cells stay sharp.
        scale: What the colours stand for; by default the map's own, signed if any value is negative.
        alpha: How much the strongest places cover; 0 is the picture alone.
    """
    scale = scale or Scale.of([map_], bool((map_ < 0).any()))
    over = stretched(np.asarray(map_), image.shape[0], image.shape[1])
    share = _share(scale, over, alpha)[..., None]
    return np.rint(image * (1 - share) + scale.colours(over) * share).astype(np.uint8)


def stretched(map_: Floats, height: int, width: int) -> Floats:
    """A map at an image's size: cells repeated where it is smaller, averaged where it is larger."""
    h, w = map_.shape
    if h > height or w > width:
        small = Image.fromarray(map_.astype(np.float32)).resize((min(w, width), min(h, height)), Image.Resampling.BOX)
        map_ = np.asarray(small)
        h, w = map_.shape
    rows = ((np.arange(height) + 0.5) * h / height).astype(np.intp)
    columns = ((np.arange(width) + 0.5) * w / width).astype(np.intp)
    return map_[np.ix_(rows, columns)]

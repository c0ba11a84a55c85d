"""A dataset: samples by position, the same for any slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat import Card, Region, Sample


@dataclass(frozen=True)
class Stripes:
    """Dark images with one bright stripe; the stripe is what an explanation should show."""

    n: int = 20
    side: int = 32  # pixels
    card: ClassVar[Card] = Card("example/stripes", "one bright stripe, and where it is", "dataset")
    revision: ClassVar[str] = "1"  # raise it when the samples change

    def __len__(self):
        return self.n

    def load(self, start, stop):
        return [self._sample(i) for i in range(start, stop)]

    def _sample(self, i):
        row = (i * 7) % (self.side - 4)
        image = np.full((self.side, self.side, 3), 40, dtype=np.uint8)
        image[row : row + 4] = 230
        return Sample(f"stripe-{i}", image, regions=(Region("stripe", "target", boxes=((0, row, self.side, 4),)),))

"""A metric: arrays in, one value per sample out, NaN with a reason where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat import Card
from karat.metrics import map_problem, mask_problem, problems


@dataclass(frozen=True)
class Coverage:
    """The share of the mask that the map lights at `level` of its maximum or more."""

    level: float = 0.5
    card: ClassVar[Card] = Card(
        "example/coverage", "share of the truth that is lit", "metric", direction="higher", range=(0.0, 1.0)
    )

    def __call__(self, maps, masks):
        lit = maps >= self.level * maps.max(axis=(1, 2), keepdims=True)
        share = (lit & masks).sum(axis=(1, 2)) / np.maximum(masks.sum(axis=(1, 2)), 1)
        return np.where([problem is None for problem in self.problems(maps, masks)], share, np.nan)

    def problems(self, maps, masks):
        return problems(map_problem(maps), mask_problem(masks))

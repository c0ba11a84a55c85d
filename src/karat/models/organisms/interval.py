"""A share with its interval, where several samples show the same photograph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Share:
    """`value` of `n`, and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] of {self.n}"


def share(hits: Sequence[bool], clusters: Sequence[str], z: float = 1.959964) -> Share:
    """Wilson's interval with the sample size that clustering leaves (Korn and Graubard 1998).

    The effective size is n over the design effect, which is estimated from the clusters, at most n. Where all samples
    agree there is nothing to estimate it from, and the number of clusters is taken.

    >>> share([True] * 4, "aabb").value
    1.0
    """
    n = len(hits)
    if not n:
        return Share(float("nan"), 0.0, 1.0, 0)
    values = np.asarray(hits, dtype=np.float64)
    names, place = np.unique(np.asarray(clusters), return_inverse=True)
    p, size = float(values.mean()), float(len(names))
    if 0 < p < 1 and len(names) > 1:
        sums = np.bincount(place, weights=values - p)
        variance = len(names) / (len(names) - 1) * float((sums**2).sum()) / n**2
        size = min(float(n), p * (1 - p) / variance) if variance else float(n)
    centre, spread = p + z**2 / (2 * size), z * np.sqrt(p * (1 - p) / size + z**2 / (4 * size**2))
    scale = 1 + z**2 / size
    return Share(p, float(max(0.0, (centre - spread) / scale)), float(min(1.0, (centre + spread) / scale)), n)

"""A share of hits with its exact interval: one formula for every room. No torch, and scipy only when it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """`value` of `n`, and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] of {self.n}"


def share(hits: npt.ArrayLike, clusters: Sequence[str] | None = None, confidence: float = 0.95) -> Share:
    """The share of hits (n,) with Clopper and Pearson's interval; of nothing it is NaN, anywhere from 0 to 1.

    Hits that share a cluster (several samples of one photograph) count as fewer, by their design effect.

    >>> str(share([True] * 4, "aabb"))
    '100.0% [15.8%, 100.0%] of 4'
    """
    values = np.asarray(hits, dtype=np.float64)
    n = len(values)
    if not n:
        return Share(float("nan"), 0.0, 1.0, 0)
    value, size = float(values.mean()), float(n)
    if clusters is not None:
        _, place = np.unique(np.asarray(list(clusters)), return_inverse=True)
        counts = np.bincount(place).astype(np.float64)
        sums = np.bincount(place, weights=values).astype(np.float64)
        size = effective_number(sums, counts, value, value * (1 - value), confidence)
    return Share(value, *exact_interval(value, size, confidence), n)


def exact_interval(value: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) of a share of n hits, which cover at least as often as they say (Clopper and Pearson 1934). n may be
    an effective number, so it need not be whole.

    >>> [round(bound, 3) for bound in exact_interval(0.0, 3)]
    [0.0, 0.708]
    """
    from scipy import stats

    tail = (1 - confidence) / 2
    low = 0.0 if value == 0 else float(stats.beta.ppf(tail, value * n, n - value * n + 1))
    high = 1.0 if value == 1 else float(stats.beta.ppf(1 - tail, value * n + 1, n - value * n))
    return low, high


def effective_number(sums: Floats, counts: Floats, value: float, spread: float, confidence: float) -> float:
    """Independent hits that would have told as much as these clusters (Korn and Graubard 1998).

    All of them where each is a cluster of its own; else by the design effect, the variance of the mean by clusters over
    that of independent hits; and as many as there are clusters where the hits are all the same.

    Args:
        sums, counts: (clusters,) hits and samples of each.
        value: their mean.
        spread: variance of one hit.
        confidence: of the interval that is to be made; few clusters count for less.
    """
    from scipy import stats

    n, groups = float(counts.sum()), len(sums)
    if groups == n:
        return n
    if groups < 2:
        return 1.0
    variance = ((sums - value * counts) ** 2).sum() / n**2 * groups / (groups - 1)
    if spread <= 0 or variance <= 0:
        return float(groups)
    tail = (1 - confidence) / 2
    few = (stats.t.isf(tail, n - 1) / stats.t.isf(tail, groups - 1)) ** 2  # variances of few clusters are rough
    return float(np.clip(spread / variance * few, 1.0, n))

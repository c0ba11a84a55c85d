"""Does a score rise (or fall) with an ordered condition, such as the depth of a question?

Jonckheere and Terpstra's test for independent groups, Page's for the same blocks under every condition. Both ask for
a consistent order, so they find a monotone trend that a test for *any* difference would miss, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics.estimate import columns_without_missing

Alternative = Literal["increasing", "decreasing", "two-sided"]
_FEW = 6  # conditions, of which there are 720 orders
_MANY = 1000  # blocks; the exact distribution of more takes minutes and looks normal


@dataclass(frozen=True)
class Trend:
    """`strength` runs from -1 (falls throughout) to 1 (rises throughout), 0 = no order."""

    statistic: float
    z: float
    p: float
    strength: float
    alternative: Alternative
    n: int
    n_dropped: int


def jonckheere(values: npt.ArrayLike, order: npt.ArrayLike, alternative: Alternative = "increasing") -> Trend:
    """Jonckheere-Terpstra: values (n,) of independent rows, order (n,) a number that ranks their group.

    Normal approximation with the variance corrected for ties in both; `strength` is Goodman and Kruskal's gamma over
    pairs from different groups. Rows with a NaN are left out.

    Args:
        values: (n,) numbers; NaN is missing.
        order: (n,) a number that ranks the group of each row.
        alternative: "increasing", "decreasing" or "two-sided".

    Returns:
        A `Trend`.

    Example:
        >>> jonckheere([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1]).strength
        1.0
    """
    (y, x), keep = columns_without_missing(values, order, name="jonckheere")
    n, dropped = len(y), len(keep) - len(y)
    groups = [y[x == level] for level in np.unique(x)]
    if n < 2 or len(groups) < 2:
        return Trend(np.nan, np.nan, np.nan, np.nan, alternative, n, dropped)
    up = down = 0.0
    for i, lower in enumerate(groups):
        ordered = np.sort(lower)
        for upper in groups[i + 1 :]:
            up += np.searchsorted(ordered, upper, side="left").sum()  # values below each of the upper group
            down += (len(ordered) - np.searchsorted(ordered, upper, side="right")).sum()
    z = (up - down) / 2 / np.sqrt(_kendall_variance(x, y)) if np.ptp(y) > 0 else np.nan
    strength = float((up - down) / (up + down)) if up + down else np.nan
    ties = sum(len(g) * len(h) for i, g in enumerate(groups) for h in groups[i + 1 :]) - up - down
    return Trend(float(up + ties / 2), float(z), _p(float(z), alternative), strength, alternative, n, dropped)


def page(table: npt.ArrayLike | pd.DataFrame, alternative: Alternative = "increasing") -> Trend:
    """Page's test: table (blocks, conditions in their order); blocks with a NaN are left out.

    `p` is exact for up to six conditions and a thousand blocks: every order of every block's ranks as they are (ties
    included) is as likely as any other. Beyond that it is that of `z`, the normal approximation. `strength` is the mean
    Spearman correlation of blocks with the order when nothing ties.

    Args:
        table: (blocks, conditions in their order); a block with NaN is missing.
        alternative: "increasing", "decreasing" or "two-sided".

    Returns:
        A `Trend`.

    Example:
        >>> round(page([[0.1, 0.2, 0.3], [0.2, 0.4, 0.5], [0.1, 0.3, 0.2]]).p, 4)
        0.0324
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] < 2:
        raise BadInput(f"page: expected a table (blocks, at least two conditions), got shape {values.shape}.")
    complete = values[~np.isnan(values).any(axis=1)]
    n, k = complete.shape
    dropped = len(values) - n
    if n == 0:
        return Trend(np.nan, np.nan, np.nan, np.nan, alternative, 0, dropped)
    ranks = stats.rankdata(complete, axis=1)
    order = np.arange(1, k + 1)
    total = float((ranks @ order).sum())
    expected = n * k * (k + 1) ** 2 / 4
    spread = ((ranks - (k + 1) / 2) ** 2).sum()  # over all blocks
    variance = spread * ((order - (k + 1) / 2) ** 2).sum() / (k - 1)
    z = (total - expected) / np.sqrt(variance) if variance > 0 else np.nan
    strength = (total - expected) / (n * k * (k * k - 1) / 12)
    p = _exact_p(ranks, total, alternative) if k <= _FEW and n <= _MANY and variance > 0 else _p(float(z), alternative)
    return Trend(total, float(z), p, float(strength), alternative, n, dropped)


def _exact_p(ranks: npt.NDArray[np.float64], total: float, alternative: Alternative) -> float:
    """Chances of all sums of rank times order, block by block: ranks are whole or half, so twice the sum is whole."""
    n, k = ranks.shape
    orders = np.array(list(permutations(range(1, k + 1))))
    chances = np.ones(1)
    lowest = 0
    for block, times in zip(*np.unique(np.sort(ranks, axis=1), axis=0, return_counts=True), strict=True):
        sums = np.rint(2 * orders @ block).astype(np.int64)
        own = np.bincount(sums - sums.min()) / len(orders)
        for _ in range(times):
            chances = np.convolve(chances, own)
        lowest += int(times * sums.min())
    sums = lowest + np.arange(len(chances))
    observed = round(2 * total)
    middle = n * k * (k + 1) ** 2 / 2  # of twice the sum; the chances are symmetric about it
    above, below = float(chances[sums >= observed].sum()), float(chances[sums <= observed].sum())
    both = float(chances[np.abs(sums - middle) >= abs(observed - middle)].sum())
    return min(1.0, {"increasing": above, "decreasing": below, "two-sided": both}[alternative])


def _p(z: float, alternative: Alternative) -> float:
    tails = {"increasing": stats.norm.sf(z), "decreasing": stats.norm.cdf(z), "two-sided": 2 * stats.norm.sf(abs(z))}
    return float(tails[alternative])


def _kendall_variance(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Variance of (concordant - discordant) / 2 over all pairs under no association, ties in both allowed."""
    n = float(len(x))
    t, u = (np.unique(v, return_counts=True)[1].astype(np.float64) for v in (x, y))

    def cubic(c: npt.NDArray[np.float64]) -> float:
        return float((c * (c - 1) * (2 * c + 5)).sum())

    whole = (n * (n - 1) * (2 * n + 5) - cubic(t) - cubic(u)) / 72
    triples = float((t * (t - 1) * (t - 2)).sum() * (u * (u - 1) * (u - 2)).sum()) / (36 * n * (n - 1) * max(n - 2, 1))
    pairs = float((t * (t - 1)).sum() * (u * (u - 1)).sum()) / (8 * n * (n - 1))
    return whole + triples + pairs

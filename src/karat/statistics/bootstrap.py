"""Bootstrap intervals of means and of paired differences, whole clusters at a time, seeded by the caller.

Scores of one sample under several models are not independent: give `clusters` (one label per row, the sample's id)
and whole samples are drawn. A mean over clusters of unequal size is the mean over the rows drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtr, ndtri

from karat.kernel.errors import BadInput
from karat.statistics.estimate import Estimate, Floats, cluster_codes, cluster_sums, columns_without_missing
from karat.statistics.proportions import difference_of_hits, proportion
from karat.statistics.sign_flips import sign_flip_p

Method = Literal["bca", "percentile"]

_CHUNK = 2_000_000  # drawn labels held at a time
_FEW = 8  # below, the resampled means cannot leave the range of the values far enough: Student's interval then


def resample_weights(rng: np.random.Generator, n: int, resamples: int) -> Iterator[Floats]:
    """How often each of n units was drawn, chunk by chunk: (r, n) with rows that sum to n, `resamples` rows in all."""
    rows = max(1, _CHUNK // max(n, 1))
    for start in range(0, resamples, rows):
        r = min(rows, resamples - start)
        drawn = rng.integers(0, n, size=(r, n)) + np.arange(r)[:, None] * n
        yield np.bincount(drawn.ravel(), minlength=r * n).reshape(r, n).astype(np.float64)


def bootstrap_mean(
    values: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    method: Method = "bca",
) -> Estimate:
    """The mean of values (n,) with an interval; NaN rows are left out and counted.

    The interval is resampled from 8 clusters on: `bca` corrects the percentiles for bias and skew (a jackknife over
    clusters gives the acceleration), and they are taken as far out as Student's t asks for (see `interval`). Fewer
    clusters have Student's. Values that are all 0 or 1 are hits and have `proportion`'s. Where all values are the same,
    what was never drawn may lie anywhere from -1 to 1; of one cluster, or larger values, there is no interval.

    p is of a mean of zero, two-sided, by flipping signs (`sign_flip_test`): its least value is 2^(1 - clusters), small
    enough for any number of comparisons if the clusters are many.

    Args:
        values: (n,) numbers; NaN is missing.
        rng: the random stream of the resamples.
        clusters: (n,) labels; rows of one cluster are resampled together.
        resamples: how many.
        confidence: of the interval.
        method: "bca" or "percentile".

    Returns:
        An `Estimate`.

    Example:
        >>> estimate = bootstrap_mean([0.2, 0.4, 0.6, 0.8], rng=np.random.default_rng(0))
        >>> round(estimate.value, 3), estimate.low < 0.5 < estimate.high, estimate.n
        (0.5, True, 4)
    """
    (kept,), keep = columns_without_missing(values, name="bootstrap_mean")
    dropped = len(keep) - len(kept)
    value = float(kept.mean()) if len(kept) else np.nan
    sums, counts = cluster_sums(kept[:, None], clusters, keep)
    if len(sums) < 2:
        return Estimate(value, np.nan, np.nan, np.nan, len(kept), dropped, confidence)
    p = sign_flip_p(sums[:, 0])
    if np.isin(kept.round(12), (0.0, 1.0)).all():  # up to rounding: an overlap is a quotient of sums
        hits = np.full(len(keep), np.nan)
        hits[keep] = kept.round()
        return replace(proportion(hits, clusters=clusters, confidence=confidence), value=value, p=p)
    draws = mean_draws(rng, sums, counts, resamples)[:, 0]
    se = float(draws.std(ddof=1))
    if np.ptp(kept) <= 1e-12 * np.abs(kept).max():
        low, high = _unvaried(value, len(sums), confidence)
        return Estimate(value, se, low, high, len(kept), dropped, confidence, p)
    if len(sums) < _FEW:
        low, high = _students(sums[:, 0], counts, value, confidence)
    else:
        left_out = (sums.sum() - sums[:, 0]) / (counts.sum() - counts)
        low, high = interval(draws, value, confidence, left_out if method == "bca" else None, units=len(sums))
    return Estimate(value, se, low, high, len(kept), dropped, confidence, p)


def paired_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    method: Method = "bca",
) -> Estimate:
    """Mean of first - second over the rows where both are present: `bootstrap_mean` of the differences.

    Differences that are all -1, 0 or 1 are of hits and have the interval of Bonett and Price (2012).

    Args:
        first: (n,) numbers; NaN is missing.
        second: (n,), likewise.
        rng, clusters, resamples, confidence, method: as in `bootstrap_mean`.

    Returns:
        An `Estimate`; pairs that miss one are counted in `n_dropped`.

    Example:
        >>> nan = float("nan")
        >>> estimate = paired_difference([0.9, 0.8, 0.7, nan], [0.5, 0.6, 0.4, 0.3], rng=np.random.default_rng(0))
        >>> round(estimate.value, 3), estimate.n, estimate.n_dropped
        (0.3, 3, 1)
    """
    (a, b), keep = columns_without_missing(first, second, name="paired_difference")
    differences = np.full(len(keep), np.nan)
    differences[keep] = a - b
    if len(a) > 1 and np.isin(a - b, (-1.0, 0.0, 1.0)).all():
        se, low, high = difference_of_hits(a - b, clusters, keep, confidence)
        p = sign_flip_p(cluster_sums((a - b)[:, None], clusters, keep)[0][:, 0])
        return Estimate(float((a - b).mean()), se, low, high, len(a), len(keep) - len(a), confidence, p)
    return bootstrap_mean(
        differences, rng=rng, clusters=clusters, resamples=resamples, confidence=confidence, method=method
    )


def bootstrap_statistic(
    rows: Floats,
    statistic: Callable[[Floats], float],
    *,
    rng: np.random.Generator,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> Estimate:
    """Any statistic of rows (n, c) with a percentile interval: one call per resample, so meant for cheap statistics.

    Rows with a NaN are left out and counted. A resample on which the statistic is NaN is ignored.

    Args:
        rows: (n, c) numbers; a row with NaN is missing.
        statistic: of rows (m, c), a number.
        rng: the random stream of the resamples.
        clusters: (n,) labels; rows of one cluster are resampled together.
        resamples: how many.
        confidence: of the interval.

    Returns:
        An `Estimate`.

    Example:
        >>> rows = np.array([[1.0], [2.0], [4.0], [9.0]])
        >>> bootstrap_statistic(rows, lambda some: float(np.median(some)), rng=np.random.default_rng(0)).value
        3.0
    """
    keep = np.asarray(~np.isnan(rows).any(axis=1))
    kept = rows[keep]
    dropped = len(rows) - len(kept)
    if not len(kept):
        return Estimate(np.nan, np.nan, np.nan, np.nan, 0, dropped, confidence)
    value = float(statistic(kept))
    codes = cluster_codes(clusters, keep)
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    if len(counts) < 2:
        return Estimate(value, np.nan, np.nan, np.nan, len(kept), dropped, confidence)
    ends = np.cumsum(counts)
    draws = np.empty(resamples)
    for r in range(resamples):
        drawn = rng.integers(0, len(counts), size=len(counts))
        lengths = counts[drawn]
        offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        draws[r] = statistic(kept[order[np.repeat((ends - counts)[drawn], lengths) + offsets]])
    low, high = interval(draws, value, confidence, units=len(counts))
    return Estimate(value, float(np.nanstd(draws, ddof=1)), low, high, len(kept), dropped, confidence)


def mean_draws(rng: np.random.Generator, sums: Floats, counts: Floats, resamples: int) -> Floats:
    """Bootstrap draws (resamples, c) of the means of all columns, each from the same clusters."""
    return np.vstack([(w @ sums) / (w @ counts)[:, None] for w in resample_weights(rng, len(sums), resamples)])


def interval(
    draws: Floats, value: float, confidence: float, left_out: Floats | None = None, units: int | None = None
) -> tuple[float, float]:
    """Percentile interval of draws (r,); with `left_out` (g,), delete-one estimates, bias-corrected and accelerated.

    With `units`, how many were resampled, the percentiles lie further out: resampled means spread too little by
    sqrt((units - 1) / units), and few units leave their spread unknown (the expanded percentiles of Hesterberg 2015),
    by 1 + 1 / units more for skewed scores, found by simulation. NaN draws (a statistic undefined on that resample) are
    ignored.
    """
    if not 0 < confidence < 1:
        raise BadInput(f"confidence must lie between 0 and 1, got {confidence}.")
    draws = draws[~np.isnan(draws)]
    if not len(draws) or (units is not None and units < 2):  # of one unit nothing is known but itself
        return np.nan, np.nan
    reach = float(ndtri((1 + confidence) / 2)) if units is None else _reach(confidence, units)
    ends = np.array([-reach, reach])
    if left_out is not None:
        below = (np.count_nonzero(draws < value) + 0.5 * np.count_nonzero(draws == value)) / len(draws)
        pull = value - left_out[~np.isnan(left_out)] - (value - left_out[~np.isnan(left_out)]).mean()
        spread = (pull**2).sum()
        if 0 < below < 1 and spread > 0:
            bias, speed = ndtri(below), (pull**3).sum() / (6 * spread**1.5)
            shifted = bias + ends
            ends = bias + shifted / np.maximum(1 - speed * shifted, 1e-9)
    low, high = np.quantile(draws, ndtr(ends))
    return float(low), float(high)


def intervals(draws: Floats, confidence: float, units: int) -> tuple[Floats, Floats]:
    """`interval` of every column of draws (r, c) at once: low (c,) and high (c,)."""
    if units < 2 or not draws.size:
        return np.full(draws.shape[1], np.nan), np.full(draws.shape[1], np.nan)
    reach = _reach(confidence, units)
    ends = np.quantile(np.ascontiguousarray(draws.T), ndtr([-reach, reach]), axis=1)
    for column in np.flatnonzero(np.isnan(ends[0])):  # a draw without a value
        ends[:, column] = interval(draws[:, column], np.nan, confidence, units=units)
    return ends[0], ends[1]


def _reach(confidence: float, units: int) -> float:
    """Standard deviations of resampled means from the value to the ends of an interval."""
    student = float(stats.t.isf((1 - confidence) / 2, units - 1))
    return student * float(np.sqrt(units / (units - 1))) * (1 + 1 / units)


def _unvaried(value: float, groups: int, confidence: float) -> tuple[float, float]:
    """Of values that are all the same: what was never drawn may be up to 1 - tail^(1 / groups) of all, and lie anywhere
    from -1 to 1, where scores and their differences do. Of larger values nobody knows."""
    if abs(value) > 1:
        return np.nan, np.nan
    unseen = 1 - ((1 - confidence) / 2) ** (1 / groups)
    return value - unseen * (value + 1), value + unseen * (1 - value)


def _students(sums: Floats, counts: Floats, value: float, confidence: float) -> tuple[float, float]:
    groups = len(sums)
    se = float(np.sqrt(((sums - value * counts) ** 2).sum() * groups / (groups - 1))) / float(counts.sum())
    reach = float(stats.t.isf((1 - confidence) / 2, groups - 1)) * (1 + 1 / groups) * se
    return value - reach, value + reach

"""Bootstrap intervals of means and of paired differences, whole clusters at a time, seeded by the caller.

Scores of one sample under several models are not independent: give `clusters` (one label per row, the sample's id)
and whole samples are drawn. A mean over clusters of unequal size is the mean over the rows drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from karat.kernel.errors import BadInput
from karat.statistics.estimate import Estimate, columns_without_missing

Floats = npt.NDArray[np.float64]
Method = Literal["bca", "percentile"]

_CHUNK = 2_000_000  # drawn labels held at a time


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
    """The mean of values (n,) with a bootstrap interval; NaN rows are left out and counted.

    `bca` corrects the percentiles for bias and skew (a jackknife over clusters gives the acceleration). p is of a
    mean of zero, two-sided, from the draws moved to mean zero; it is never below 1 / (resamples + 1). With fewer than
    two clusters there is a value and no interval.

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
    draws = mean_draws(rng, sums, counts, resamples)[:, 0]
    left_out = (sums.sum() - sums[:, 0]) / (counts.sum() - counts)
    low, high = interval(draws, value, confidence, left_out if method == "bca" else None)
    # a mean of exactly representable scores may be drawn again up to rounding: count it as just as far
    farther = np.count_nonzero(np.abs(draws - value) >= abs(value) * (1 - 1e-12))
    p = (1 + farther) / (1 + resamples)
    return Estimate(value, float(draws.std(ddof=1)), low, high, len(kept), dropped, confidence, p)


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
    low, high = interval(draws, value, confidence)
    return Estimate(value, float(np.nanstd(draws, ddof=1)), low, high, len(kept), dropped, confidence)


def cluster_codes(clusters: npt.ArrayLike | None, keep: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Cluster number of every row kept; each row by itself where no clusters are given."""
    n = int(keep.sum())
    if clusters is None:
        return np.arange(n)
    labels = pd.Series(clusters)
    if len(labels) != len(keep):
        raise BadInput(f"clusters: expected one label per row, {len(keep)}, got {len(labels)}.")
    if labels.isna().any():
        raise BadInput("clusters: every row needs a label, some are missing.")
    return pd.factorize(labels[keep])[0].astype(np.intp)


def cluster_sums(rows: Floats, clusters: npt.ArrayLike | None, keep: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Sums (g, c) and sizes (g,) of the clusters that rows (n, c), already without the missing, fall into."""
    codes = cluster_codes(clusters, keep)
    counts = np.bincount(codes).astype(np.float64)
    by_column = [np.bincount(codes, column, minlength=len(counts)) for column in rows.T]
    sums = np.column_stack(by_column).astype(np.float64)
    return sums, counts


def mean_draws(rng: np.random.Generator, sums: Floats, counts: Floats, resamples: int) -> Floats:
    """Bootstrap draws (resamples, c) of the means of all columns, each from the same clusters."""
    return np.vstack([(w @ sums) / (w @ counts)[:, None] for w in resample_weights(rng, len(sums), resamples)])


def interval(draws: Floats, value: float, confidence: float, left_out: Floats | None = None) -> tuple[float, float]:
    """Percentile interval of draws (r,); with `left_out` (g,), delete-one estimates, bias-corrected and accelerated.

    NaN draws (a statistic undefined on that resample) are ignored.
    """
    if not 0 < confidence < 1:
        raise BadInput(f"confidence must lie between 0 and 1, got {confidence}.")
    draws = draws[~np.isnan(draws)]
    if not len(draws):
        return np.nan, np.nan
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if left_out is not None:
        below = (np.count_nonzero(draws < value) + 0.5 * np.count_nonzero(draws == value)) / len(draws)
        pull = value - left_out[~np.isnan(left_out)] - (value - left_out[~np.isnan(left_out)]).mean()
        spread = (pull**2).sum()
        if 0 < below < 1 and spread > 0:
            bias, speed = ndtri(below), (pull**3).sum() / (6 * spread**1.5)
            shifted = bias + ndtri(tails)
            tails = ndtr(bias + shifted / (1 - speed * shifted))
    low, high = np.quantile(draws, tails)
    return float(low), float(high)

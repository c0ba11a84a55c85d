"""Do two metrics, or a metric and the truth, put things in the same order? Kendall's tau-b and Spearman's rho.

`kendall` and `spearman` compare two columns of values, row by row. `ranking_agreement` compares the *orders of
explainers* that two metrics give, and draws samples anew to say how steady the agreement is.
"""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from karat.kernel.card import Direction
from karat.kernel.errors import BadInput
from karat.kernel.ties import tie_levels
from karat.statistics.bootstrap import bootstrap_statistic, interval, mean_draws, resample_weights
from karat.statistics.design import Codes
from karat.statistics.estimate import Estimate, Floats, cluster_codes, cluster_sums, columns_without_missing
from karat.statistics.ranks import block_ranks

By = Literal["ranks", "scores"]
_MATRIX = 2000  # rows up to which all pairs fit a matrix; tau of every resample is then a matrix product


def kendall(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    rng: np.random.Generator | None = None,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> Estimate:
    """Kendall's tau-b of two columns (n,) with its p (exact for few rows without ties), NaN rows left out.

    With `rng`, a percentile bootstrap interval over rows or, given `clusters`, whole clusters. Resampling repeats
    rows, and repeats are ties in both columns, which tau-b leaves out.

    Args:
        first: (n,) numbers; NaN is missing.
        second: (n,), likewise.
        rng: the random stream of the resamples. None for no interval.
        clusters: (n,) labels; rows of one cluster are resampled together.
        resamples: how many.
        confidence: of the interval.

    Returns:
        An `Estimate` of tau, with p.

    Example:
        >>> round(kendall([1, 2, 3, 4], [1, 3, 2, 4]).value, 3)
        0.667
    """
    (a, b), keep = columns_without_missing(first, second, name="kendall")
    a, b, dropped = tie_levels(a), tie_levels(b), len(keep) - len(a)
    if len(a) < 2:
        return Estimate(np.nan, np.nan, np.nan, np.nan, len(a), dropped, confidence)
    result = stats.kendalltau(a, b)
    value, p = float(result.statistic), float(result.pvalue)
    se = low = high = np.nan
    if rng is not None and len(a) <= _MATRIX:
        codes = cluster_codes(clusters, keep)
        draws = _tau_draws(rng, a, b, codes, resamples)
        (low, high), se = (
            interval(draws, value, confidence, units=int(codes.max()) + 1),
            float(np.nanstd(draws, ddof=1)),
        )
    elif rng is not None:
        labels = None if clusters is None else np.asarray(clusters)[keep]
        drawn = bootstrap_statistic(
            np.column_stack([a, b]), lambda rows: float(stats.kendalltau(rows[:, 0], rows[:, 1]).statistic),
            rng=rng, clusters=labels, resamples=resamples, confidence=confidence,
        )  # fmt: skip
        se, low, high = drawn.se, drawn.low, drawn.high
    return Estimate(value, se, low, high, len(a), dropped, confidence, p)


def spearman(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    rng: np.random.Generator | None = None,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> Estimate:
    """Spearman's rho of two columns (n,) with its p, NaN rows left out; with `rng`, a bootstrap interval.

    Args:
        first: (n,) numbers; NaN is missing.
        second: (n,), likewise.
        rng, clusters, resamples, confidence: as in `kendall`.

    Returns:
        An `Estimate` of rho, with p.

    Example:
        >>> round(spearman([1, 2, 3, 4], [1, 3, 2, 4]).value, 3)
        0.8
    """
    (a, b), keep = columns_without_missing(first, second, name="spearman")
    a, b, dropped = tie_levels(a), tie_levels(b), len(keep) - len(a)
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return Estimate(np.nan, np.nan, np.nan, np.nan, len(a), dropped, confidence)
    result = stats.spearmanr(a, b)
    value, p = float(result.statistic), float(result.pvalue)
    se = low = high = np.nan
    if rng is not None:
        codes = cluster_codes(clusters, keep)
        draws = _rho_draws(rng, a, b, codes, resamples)
        (low, high), se = (
            interval(draws, value, confidence, units=int(codes.max()) + 1),
            float(np.nanstd(draws, ddof=1)),
        )
    return Estimate(value, se, low, high, len(a), dropped, confidence, p)


def ranking_agreement(
    first: pd.DataFrame,
    second: pd.DataFrame,
    directions: tuple[Direction, Direction] = ("higher", "higher"),
    *,
    by: By = "ranks",
    rng: np.random.Generator | None = None,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Estimate:
    """Kendall's tau-b between two metrics' orders of explainers, by mean rank or by mean score (fsyn2026 4.2 and B.3).

    Both tables are wide (one row per block, one column per explainer) with the same rows; columns that only one of
    them has are left out, blocks that are incomplete in either too (n_dropped). p treats the k explainers as the
    sample, the interval treats the blocks as the sample: few explainers give a large p however many blocks there are.

    Args:
        first: (blocks, explainers), wide, as `wide` makes it.
        second: the same rows, scored by another metric.
        directions: which scores are better in each, "higher" or "lower".
        by: order explainers by the mean of their "ranks" within blocks, or of their "scores", as a table of means does.
        rng: the random stream of the resamples. None for no interval.
        clusters: labels of the blocks; blocks of one cluster are resampled together.
        resamples: how many.
        confidence: of the interval.

    Returns:
        An `Estimate` of tau, with p; `n` counts blocks.

    Example:
        >>> first = pd.DataFrame({"a": [0.9, 0.8], "b": [0.5, 0.6], "c": [0.4, 0.3]})
        >>> ranking_agreement(first, -first, ("higher", "lower")).value
        1.0
    """
    shared = [name for name in first.columns if name in set(second.columns)]
    if len(shared) < 2:
        raise BadInput(f"ranking_agreement: the tables share {len(shared)} explainers; at least two are needed.")
    if len(first) != len(second) or not first.index.equals(second.index):
        raise BadInput("ranking_agreement: both tables must have the same blocks in the same order; reindex one.")
    keep = (first[shared].notna().all(axis=1) & second[shared].notna().all(axis=1)).to_numpy()
    placed = [
        _placed(table.loc[keep, shared], direction, by)
        for table, direction in zip((first, second), directions, strict=True)
    ]
    result = stats.kendalltau(*(tie_levels(values.mean(axis=0)) for values in placed))
    value, p, n = float(result.statistic), float(result.pvalue), int(keep.sum())
    se = low = high = np.nan
    if rng is not None and n > 1:
        draws = mean_draws(rng, *cluster_sums(np.hstack(placed), clusters, keep), resamples)
        k = len(shared)
        taus = _tau_rows(tie_levels(draws[:, :k]), tie_levels(draws[:, k:]))
        (low, high), se = interval(taus, value, confidence), float(np.nanstd(taus, ddof=1))
    return Estimate(value, se, low, high, n, len(first) - n, confidence, p)


def _placed(scores: pd.DataFrame, direction: Direction, by: By) -> Floats:
    """(blocks, explainers): ranks, 1 = best; or scores turned so that lower is better, too."""
    ranks, _ = block_ranks(scores, direction)
    return ranks if by == "ranks" else scores.to_numpy(dtype=np.float64) * (-1.0 if direction == "higher" else 1.0)


def agreement_matrix(
    tables: dict[str, pd.DataFrame],
    directions: dict[str, Direction],
    *,
    rng: np.random.Generator | None = None,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """`ranking_agreement` of every pair of metrics: one row per pair with tau, p, low, high, n, n_dropped.

    Args:
        tables: by metric, each (blocks, explainers), wide.
        directions: by metric.
        rng, clusters, resamples, confidence: as in `ranking_agreement`.

    Returns:
        A frame indexed by (first, second): tau, p, low, high, n, n_dropped.

    Example:
        >>> scores = pd.DataFrame({"a": [0.9, 0.8], "b": [0.5, 0.6], "c": [0.4, 0.3]})
        >>> agreement_matrix({"x": scores, "y": -scores}, {"x": "higher", "y": "higher"})["tau"].tolist()
        [-1.0]
    """
    rows = {}
    for a, b in combinations(tables, 2):
        tau = ranking_agreement(
            tables[a], tables[b], (directions[a], directions[b]),
            rng=rng, clusters=clusters, resamples=resamples, confidence=confidence,
        )  # fmt: skip
        rows[a, b] = (tau.value, tau.p, tau.low, tau.high, tau.n, tau.n_dropped)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["tau", "p", "low", "high", "n", "n_dropped"])
    frame.index = pd.MultiIndex.from_tuples(list(rows), names=["first", "second"])
    return frame


def _tau_draws(rng: np.random.Generator, a: Floats, b: Floats, codes: Codes, resamples: int) -> Floats:
    """Bootstrap draws of tau-b. With w the times each row was drawn, sums over pairs are w' C w."""
    sign_a, sign_b = (np.sign(v[:, None] - v[None, :]) for v in (a, b))
    both, only_a, only_b = sign_a * sign_b, np.abs(sign_a), np.abs(sign_b)
    draws = []
    for drawn in resample_weights(rng, int(codes.max()) + 1, resamples):
        w = drawn[:, codes]
        up, left, right = (((w @ pairs) * w).sum(axis=1) for pairs in (both, only_a, only_b))
        with np.errstate(invalid="ignore"):
            draws.append(up / np.sqrt(left * right))
    return np.concatenate(draws)


def _tau_rows(a: Floats, b: Floats) -> Floats:
    """Kendall's tau-b of each row of a (r, k) with the same row of b; NaN where a row is constant."""
    i, j = np.triu_indices(a.shape[1], 1)
    sign_a, sign_b = np.sign(a[:, i] - a[:, j]), np.sign(b[:, i] - b[:, j])
    with np.errstate(invalid="ignore"):
        return (sign_a * sign_b).sum(axis=1) / np.sqrt(np.abs(sign_a).sum(axis=1) * np.abs(sign_b).sum(axis=1))


def _rho_draws(rng: np.random.Generator, a: Floats, b: Floats, codes: Codes, resamples: int) -> Floats:
    """Bootstrap draws of Spearman's rho: the correlation, weighted by w, of the ranks within each resample."""
    draws = []
    for drawn in resample_weights(rng, int(codes.max()) + 1, resamples):
        w = drawn[:, codes]
        n = w.sum(axis=1, keepdims=True)
        left, right = (_weighted_ranks(v, w) - (n + 1) / 2 for v in (a, b))  # ranks average (n + 1) / 2, ties or not
        with np.errstate(invalid="ignore"):
            size = np.sqrt((w * left**2).sum(axis=1) * (w * right**2).sum(axis=1))
            draws.append((w * left * right).sum(axis=1) / size)
    return np.concatenate(draws)


def _weighted_ranks(values: Floats, w: Floats) -> Floats:
    """Rank (r, n) of every value in the sample where value i occurs w[r, i] times, ties at their mean."""
    levels, at = np.unique(values, return_inverse=True)
    order = np.argsort(at, kind="stable")
    starts = np.searchsorted(at[order], np.arange(len(levels)))
    counts = np.add.reduceat(w[:, order], starts, axis=1)
    return np.asarray((np.cumsum(counts, axis=1) - counts / 2 + 0.5)[:, at])

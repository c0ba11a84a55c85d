"""Ranks of explainers within blocks (samples): mean ranks, tests against the best, Friedman, critical difference.

Every function takes a wide table, one row per block and one column per explainer, as `wide` makes it. Ranks compare
explainers within one block, so a block that lacks an explainer's score is left out where all are ranked at once, and
only from that pair where two are compared; both counts are returned. Scores that differ by no more than rounding are
ties, everywhere (`karat.kernel.ties`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from karat.kernel.card import Direction
from karat.kernel.errors import BadInput
from karat.kernel.ties import TIE, largest, tie_levels
from karat.statistics.bootstrap import mean_draws
from karat.statistics.estimate import Floats, cluster_sums
from karat.statistics.multiple import adjust


def wide(frame: pd.DataFrame, response: str, treatment: str, blocks: str | Sequence[str]) -> pd.DataFrame:
    """Long scores to one row per block, one column per treatment; NaN where there is no score.

    A block is, for instance, ("dataset", "instance", "model"). Twice the same treatment in one block is an error.

    Args:
        frame: one row per score.
        response: the column of scores.
        treatment: the column whose values become columns, such as explainer.
        blocks: the column, or columns, that make up a block.

    Returns:
        (blocks, treatments).

    Example:
        >>> frame = pd.DataFrame({"image": [1, 1, 2], "explainer": list("aba"), "score": [0.5, 0.2, 0.7]})
        >>> wide(frame, "score", "explainer", "image").to_numpy().tolist()
        [[0.5, 0.2], [0.7, nan]]
    """
    keys = [blocks] if isinstance(blocks, str) else list(blocks)
    missing = [name for name in (response, treatment, *keys) if name not in frame.columns]
    if missing:
        raise BadInput(f"wide: no column {missing[0]!r}; the frame has {', '.join(map(repr, frame.columns))}.")
    twice = frame.duplicated([*keys, treatment])
    if twice.any():
        row = frame.loc[twice, [*keys, treatment]].iloc[0].to_dict()
        raise BadInput(f"wide: {int(twice.sum())} scores share block and {treatment}, e.g. {row}; add a block column.")
    return frame.pivot(index=keys, columns=treatment, values=response)


@dataclass(frozen=True)
class MeanRanks:
    """`table` is indexed by explainer, best first; `n` complete blocks were ranked, `n_dropped` lacked a score."""

    table: pd.DataFrame
    n: int
    n_dropped: int


def mean_ranks(scores: pd.DataFrame, direction: Direction = "higher") -> MeanRanks:
    """Mean rank of each column over complete blocks, 1 = best, ties share the mean of their ranks.

    Args:
        scores: (blocks, explainers), as `wide` makes it.
        direction: which scores are better, "higher" or "lower".

    Returns:
        `MeanRanks`; its `table` has mean_rank and position (place in the order of mean ranks; ties share the best).

    Example:
        >>> table = pd.DataFrame({"a": [0.9, 0.8, 0.7, 0.9], "b": [0.5, 0.6, 0.4, 0.3], "c": [0.4, 0.7, 0.3, 0.2]})
        >>> mean_ranks(table).table["mean_rank"].to_dict()
        {'a': 1.0, 'b': 2.25, 'c': 2.75}
    """
    ranks, dropped = block_ranks(scores, direction)
    means = ranks.mean(axis=0)
    table = pd.DataFrame(
        {"mean_rank": means, "position": stats.rankdata(tie_levels(means), "min")}, index=scores.columns
    )
    return MeanRanks(table.sort_values("mean_rank", kind="stable"), len(ranks), dropped)


def rank_intervals(
    scores: pd.DataFrame,
    direction: Direction = "higher",
    *,
    rng: np.random.Generator,
    clusters: npt.ArrayLike | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> MeanRanks:
    """Mean ranks with bootstrap intervals, and how sure each place in the order is.

    Args:
        scores, direction: as in `mean_ranks`.
        rng: the random stream of the resamples.
        clusters: labels of the rows of `scores`; rows of one cluster are resampled together.
        resamples: how many.
        confidence: of the interval.

    Returns:
        `MeanRanks`; its `table` has, beside what `mean_ranks` gives, low, high (of the mean rank), position_low,
        position_high (of the place), and p_best, the share of resamples in which the explainer came first, ties shared.

    Example:
        >>> table = pd.DataFrame({"a": [0.9, 0.8, 0.7, 0.9], "b": [0.5, 0.6, 0.4, 0.3], "c": [0.4, 0.7, 0.3, 0.2]})
        >>> rank_intervals(table, rng=np.random.default_rng(0)).table["p_best"].to_dict()
        {'a': 1.0, 'b': 0.0, 'c': 0.0}
    """
    ranks, dropped = block_ranks(scores, direction)
    keep = scores.notna().all(axis=1).to_numpy()
    draws = mean_draws(rng, *cluster_sums(ranks, clusters, keep), resamples)  # (r, k)
    levels = tie_levels(draws)
    places = stats.rankdata(levels, "average", axis=1)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(draws, tails, axis=0)
    first = levels == levels.min(axis=1, keepdims=True)
    table = mean_ranks(scores, direction).table
    added = pd.DataFrame(
        {
            "low": low,
            "high": high,
            "position_low": np.floor(np.quantile(places, tails[0], axis=0)).astype(int),
            "position_high": np.ceil(np.quantile(places, tails[1], axis=0)).astype(int),
            "p_best": (first / first.sum(axis=1, keepdims=True)).mean(axis=0),
        },
        index=scores.columns,
    )
    return MeanRanks(table.join(added), len(ranks), dropped)


def wilcoxon_against_best(
    scores: pd.DataFrame, direction: Direction = "higher", *, best: str | None = None
) -> pd.DataFrame:
    """Wilcoxon signed-rank test of every column against the best by mean rank (fsyn2026 Fig. 5), or against `best`.

    Choosing the best on the same data favours it: read p as against that choice.

    Args:
        scores, direction: as in `mean_ranks`.
        best: the column to compare with, instead of the best by mean rank.

    Returns:
        A frame indexed by the other explainers, best first: n (pairs with both scores), n_dropped, n_zero (ties, which
        the test leaves out), statistic, p (two-sided), p_bonferroni, p_holm, effect (matched rank-biserial correlation,
        positive where `best` is better).

    Example:
        >>> table = pd.DataFrame({"a": [0.9, 0.8, 0.7, 0.9], "b": [0.5, 0.6, 0.4, 0.3], "c": [0.4, 0.7, 0.3, 0.2]})
        >>> wilcoxon_against_best(table)["p"].to_dict()
        {'b': 0.125, 'c': 0.125}
    """
    order = list(mean_ranks(scores, direction).table.index)
    chosen = order[0] if best is None else best
    if chosen not in order:
        raise BadInput(f"wilcoxon_against_best: no column {chosen!r}; the table has {', '.join(map(str, order))}.")
    sign = 1.0 if direction == "higher" else -1.0
    rows = []
    for name in (o for o in order if o != chosen):
        pairs = scores[[chosen, name]].dropna()
        gap = sign * (pairs[chosen] - pairs[name]).to_numpy(dtype=np.float64)
        moved = gap[np.abs(gap) > TIE * largest(scores.to_numpy(dtype=np.float64))]
        statistic, p, effect = np.nan, np.nan, np.nan
        if len(moved):
            sizes = tie_levels(np.abs(moved))
            ranks = stats.rankdata(sizes)
            effect = float((np.sign(moved) * ranks).sum() / ranks.sum())
            result = stats.wilcoxon(np.sign(moved) * sizes)
            statistic, p = float(result.statistic), float(result.pvalue)
        rows.append((len(pairs), len(scores) - len(pairs), len(pairs) - len(moved), statistic, p, effect))
    names = ["n", "n_dropped", "n_zero", "statistic", "p", "effect"]
    table = pd.DataFrame(rows, columns=names, index=[o for o in order if o != chosen])
    table.insert(5, "p_bonferroni", adjust(table["p"], "bonferroni"))
    table.insert(6, "p_holm", adjust(table["p"], "holm"))
    table.index.name = f"against {chosen}"
    return table


@dataclass(frozen=True)
class Friedman:
    """Do the explainers differ at all? `statistic` is chi-squared with k - 1 degrees; `f` is Iman and Davenport's."""

    statistic: float
    p: float
    f: float
    p_f: float
    n: int
    n_dropped: int


def friedman(scores: pd.DataFrame) -> Friedman:
    """Friedman's test over complete blocks, corrected for ties.

    Args:
        scores: (blocks, explainers), as `wide` makes it.

    Returns:
        A `Friedman`.

    Example:
        >>> table = pd.DataFrame({"a": [0.9, 0.8, 0.7, 0.9], "b": [0.5, 0.6, 0.4, 0.3], "c": [0.4, 0.7, 0.3, 0.2]})
        >>> round(friedman(table).statistic, 3)
        6.5
    """
    ranks, dropped = block_ranks(scores, "higher")
    n, k = ranks.shape
    if k < 2:
        raise BadInput(f"friedman: needs at least two columns, got {k}.")
    spread = ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum() * n**2
    total = ((ranks - (k + 1) / 2) ** 2).sum()  # below its no-ties value when scores tie: this is the correction
    if total == 0:
        return Friedman(np.nan, np.nan, np.nan, np.nan, n, dropped)
    chi2 = float((k - 1) * spread / total)
    room = n * (k - 1) - chi2
    f = float((n - 1) * chi2 / room) if room > 1e-12 * n else np.inf
    p_f = float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))) if n > 1 else np.nan
    return Friedman(chi2, float(stats.chi2.sf(chi2, k - 1)), f, p_f, n, dropped)


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Nemenyi: mean ranks of k explainers over n blocks closer than this are not told apart at level alpha.

    Args:
        k: explainers.
        n: blocks.
        alpha: level.

    Returns:
        A difference of mean ranks.

    Example:
        >>> round(critical_difference(3, 10), 3)
        1.048
    """
    if k < 2 or n < 1 or not 0 < alpha < 1:
        raise BadInput(f"critical_difference: needs k >= 2, n >= 1, 0 < alpha < 1; got k={k}, n={n}, alpha={alpha}.")
    return float(stats.studentized_range.isf(alpha, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n)))


def cliques(ranks: MeanRanks, alpha: float = 0.05) -> list[tuple[str, ...]]:
    """Maximal runs of explainers whose mean ranks lie within one critical difference: the bars of its diagram.

    Args:
        ranks: of `mean_ranks`.
        alpha: level.

    Returns:
        Names of each run, best first.

    Example:
        >>> table = pd.DataFrame({"a": [0.9, 0.8, 0.7, 0.9], "b": [0.5, 0.6, 0.4, 0.3], "c": [0.4, 0.7, 0.3, 0.2]})
        >>> cliques(mean_ranks(table))
        [('a', 'b'), ('b', 'c')]
    """
    means = ranks.table["mean_rank"].sort_values(kind="stable")
    gap = critical_difference(len(means), ranks.n, alpha)
    values, names = means.to_numpy(), [str(name) for name in means.index]
    ends = np.searchsorted(values, values + gap, side="right")
    return [tuple(names[i:end]) for i, end in enumerate(ends) if end - i > 1 and (i == 0 or end > ends[i - 1])]


def block_ranks(scores: pd.DataFrame, direction: Direction) -> tuple[Floats, int]:
    """Ranks (n, k) within complete blocks, 1 = best, and how many blocks were incomplete."""
    if direction == "none":
        raise BadInput("ranks: this metric has no better direction, so its scores cannot be ranked.")
    complete = scores.dropna().to_numpy(dtype=np.float64)
    if not len(complete):
        lacking = scores.isna().mean()
        hint = f" {lacking.idxmax()!r} lacks {lacking.max():.0%} of its scores." if scores.size else ""
        raise BadInput(f"ranks: none of {len(scores)} blocks has a score from every explainer.{hint}")
    levels = tie_levels(complete)
    ranks = stats.rankdata(-levels if direction == "higher" else levels, axis=1)
    return np.asarray(ranks, dtype=np.float64), len(scores) - len(complete)

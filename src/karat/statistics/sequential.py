"""Racing explainers: look after every sample, stop when the order is settled, and still keep the error rate.

A fixed-n test looked at again and again finds differences that are not there. Here each pair of explainers has two
players who start with one coin and bet on the next paired difference, one that the first is better, one that the
second is. Where a player's claim is false, no betting scheme makes money on average, so (Ville) the chance that the
coin ever grows 1/a-fold is at most a, at whatever moment one looks or stops. Only bounded scores are assumed, and that
what is bet on comes in random order. Samples that come together and are alike (questions about one photograph, a shard
of one bucket) are one round, not many: give them as `clusters`, and the bet is on the mean of each.

A player spreads the coin over fixed bets of many sizes (a mixture), since the best size depends on the spread of the
differences, which is not known. The bet on "mean above m" multiplies it by 1 + kappa (x / m - 1) for x in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.card import Direction
from karat.kernel.errors import BadInput
from karat.kernel.ties import TIE
from karat.statistics.estimate import Estimate, Floats, columns_without_missing

_BETS = np.geomspace(0.004, 0.99, 12)

Statistic = Literal["mean", "wins"]


@dataclass(frozen=True)
class Race:
    """Where each pair stands. `table` is indexed by (first, second) with

    winner      the better explainer, "tie" (difference within the margin), or None while unsettled
    settled_at  rows of the score table when it was settled; missing while unsettled
    difference  mean of first - second so far (scores, or wins: +1, 0, -1)
    n           pairs used;  n_dropped  rows where either score is missing
    e_value     largest wealth so far of the luckier player; `needed` settles the pair
    """

    table: pd.DataFrame
    needed: float
    confidence: float
    rows: int  # of the score table so far

    @property
    def settled(self) -> bool:
        return bool(self.table["winner"].notna().all())

    @property
    def active(self) -> tuple[str, ...]:
        """Explainers that still have an unsettled pair: only these need more samples."""
        open_pairs = self.table.index[self.table["winner"].isna()]
        return tuple(dict.fromkeys(name for pair in open_pairs for name in pair))


def race(
    scores: pd.DataFrame,
    score_range: tuple[float, float],
    direction: Direction = "higher",
    *,
    confidence: float = 0.95,
    margin: float | None = None,
    statistic: Statistic = "mean",
    clusters: npt.ArrayLike | None = None,
) -> Race:
    """Judge all pairs of columns of scores (samples in the order they were drawn, explainers), NaN where missing.

    With probability `confidence`, no pair is ever called wrongly, over all pairs and all times this is asked on a
    growing table (Bonferroni over pairs and directions). A pair whose mean difference is shown to lie within
    +-`margin` is a tie; without a margin, equal explainers never settle. `statistic="wins"` compares how often each
    is better instead of by how much: far quicker where differences are small beside `score_range`. Rows must be
    independent, or else the `clusters` that they form. An explainer may be dropped (NaN) once its pairs are settled.

    Args:
        scores: (samples in the order they were drawn, explainers), NaN where missing.
        score_range: the least and the greatest score there can be.
        direction: which scores are better, "higher" or "lower".
        confidence: that no pair is ever called wrongly.
        margin: a difference that does not matter; None for none.
        statistic: "mean" compares by how much, "wins" how often each is better; scores within a millionth of the range
            tie (`karat.kernel.ties`).
        clusters: (samples,) labels of rows that were drawn together, in the order of their first rows; each is one bet,
            on the mean of its differences. None: every row is one.

    Returns:
        A `Race`; its calls are counted in rows, to the end of the cluster that decided.

    Example:
        >>> scores = pd.DataFrame({"a": [0.9] * 60, "b": [0.1] * 60})
        >>> race(scores, (0.0, 1.0)).table["winner"].tolist()
        ['a']
    """
    if not 0 < confidence < 1 or (margin is not None and margin <= 0):
        raise BadInput(f"race: needs 0 < confidence < 1 and a positive margin; got {confidence}, {margin}.")
    if direction == "none":
        raise BadInput("race: this metric has no better direction.")
    names = [str(name) for name in scores.columns]
    if len(names) < 2:
        raise BadInput(f"race: needs at least two explainers, got {names}.")
    values = scores.to_numpy(dtype=np.float64) * (1.0 if direction == "higher" else -1.0)
    low, high = sorted((1.0 if direction == "higher" else -1.0) * end for end in score_range)
    if not low < high or (values < low - 1e-9).any() or (values > high + 1e-9).any():
        raise BadInput(f"race: scores must lie in score_range {score_range}; the guarantee rests on it.")
    pairs = list(combinations(range(len(names)), 2))
    gaps = np.column_stack([values[:, i] - values[:, j] for i, j in pairs])  # (n, pairs), higher = first better
    half = high - low
    if statistic == "wins":
        gaps, half = np.where(np.abs(gaps) <= TIE * half, 0.0 * gaps, np.sign(gaps)), 1.0
    rounds, ends = _rounds(gaps, clusters)
    needed = np.log(2 * len(pairs) / (1 - confidence))
    first, second = log_wealth(rounds, 0.0, half), log_wealth(-rounds, 0.0, half)
    at_first, at_second = _crossing(first, needed), _crossing(second, needed)
    at_tie = np.full(len(pairs), np.inf)
    if margin is not None and margin < half:
        at_tie = np.maximum(
            _crossing(log_wealth(rounds, -margin, half), needed), _crossing(log_wealth(-rounds, -margin, half), needed)
        )
    settled_at = np.minimum(np.minimum(at_first, at_second), at_tie)
    rows = []
    for k, (i, j) in enumerate(pairs):
        n = int(np.count_nonzero(~np.isnan(gaps[:, k])))
        outcome = {at_tie[k]: "tie", at_second[k]: names[j], at_first[k]: names[i]}  # a winner beats a tie
        settled = np.isfinite(settled_at[k])
        sign = 1.0 if direction == "higher" or statistic == "wins" else -1.0
        difference = sign * float(np.nanmean(gaps[:, k])) if n else np.nan
        luck = max(first[:, k].max(initial=0.0), second[:, k].max(initial=0.0))
        rows.append(
            (
                outcome[settled_at[k]] if settled else None,
                int(ends[int(settled_at[k]) - 1]) if settled else pd.NA,
                difference,
                n,
                len(gaps) - n,
                float(np.exp(min(luck, 700.0))),
            )
        )
    index = pd.MultiIndex.from_tuples([(names[i], names[j]) for i, j in pairs], names=["first", "second"])
    table = pd.DataFrame(rows, index=index, columns=["winner", "settled_at", "difference", "n", "n_dropped", "e_value"])
    table = table.astype({"winner": object, "settled_at": "Int64"})
    table["winner"] = table["winner"].where(table["winner"].notna(), None)
    return Race(table, float(np.exp(needed)), confidence, len(gaps))


def anytime_interval(values: npt.ArrayLike, bounds: tuple[float, float], *, confidence: float = 0.95) -> Estimate:
    """Interval for the mean of bounded values (n,), in the order drawn, that holds at all times at once.

    It contains every mean against which neither player has grown its coin 2 / (1 - confidence)-fold. NaN are left out.

    Args:
        values: (n,) numbers in the order drawn; NaN is missing.
        bounds: the least and the greatest value there can be.
        confidence: of the interval.

    Returns:
        An `Estimate`.

    Example:
        >>> estimate = anytime_interval([0.4, 0.6] * 50, (0.0, 1.0))
        >>> estimate.low < 0.5 < estimate.high
        True
    """
    (x,), keep = columns_without_missing(values, name="anytime_interval")
    low, high = bounds
    if not low < high or (len(x) and (x.min() < low or x.max() > high)):
        raise BadInput(f"anytime_interval: values must lie in bounds {bounds}.")
    dropped = len(keep) - len(x)
    if not len(x):
        return Estimate(np.nan, np.nan, low, high, 0, dropped, confidence)
    unit = (x - low) / (high - low)
    needed = np.log(2 / (1 - confidence))
    bottom, top = _lower_bound(unit, needed), 1 - _lower_bound(1 - unit, needed)
    se = float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else np.nan
    span = high - low
    return Estimate(float(x.mean()), se, low + span * bottom, low + span * top, len(x), dropped, confidence)


def log_wealth(gaps: Floats, null: float, half: float) -> Floats:
    """Log wealth (n, pairs) after each row of a player who bets that the mean of gaps, in [-half, half], tops `null`.

    A missing gap is a round not played.
    """
    m = (null + half) / (2 * half)
    gain = np.nan_to_num((gaps + half) / (2 * half) / m - 1, nan=0.0)
    logs = np.cumsum(np.log1p(_BETS[:, None, None] * gain), axis=1)  # (bets, n, pairs)
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(_BETS)))


def _rounds(gaps: Floats, clusters: npt.ArrayLike | None) -> tuple[Floats, npt.NDArray[np.intp]]:
    """(rounds, pairs) the mean gap of each cluster, NaN where it has none, and the row that ends it, from 1."""
    if clusters is None:
        return gaps, np.arange(1, len(gaps) + 1)
    codes, names = pd.factorize(np.asarray(clusters))
    if len(codes) != len(gaps) or (np.diff(codes) < 0).any():
        raise BadInput("race: clusters must have one label per row, the rows of a cluster one after the other.")
    known = ~np.isnan(gaps)
    counts, sums = np.zeros((len(names), gaps.shape[1])), np.zeros((len(names), gaps.shape[1]))
    np.add.at(counts, codes, known)
    np.add.at(sums, codes, np.where(known, gaps, 0.0))
    with np.errstate(invalid="ignore"):
        return sums / counts, np.cumsum(np.bincount(codes))


def _crossing(wealth: Floats, needed: float) -> Floats:
    """Row number, from 1, at which each column first reaches `needed`; infinite where it never does."""
    reached = np.vstack([wealth >= needed, np.ones((1, wealth.shape[1]), dtype=bool)])
    first = reached.argmax(axis=0)
    return np.where(first < len(wealth), first + 1.0, np.inf)


def _lower_bound(unit: Floats, needed: float) -> float:
    """Largest m in [0, 1] that the player betting on a mean above m has refuted; wealth falls as m rises."""
    low, high = 0.0, float(unit.mean())
    for _ in range(50):
        m = (low + high) / 2
        if m <= 0:
            break
        logs = np.log1p(_BETS[:, None] * (unit / m - 1)).sum(axis=1)
        refuted = np.logaddexp.reduce(logs) - np.log(len(_BETS)) >= needed
        low, high = (m, high) if refuted else (low, m)
    return low

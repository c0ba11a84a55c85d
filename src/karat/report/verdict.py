"""One plain sentence per table: who is first, by how much, and whether this run can tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from karat.report.leaderboards import Board
from karat.statistics.power import separation


def verdict(board: Board) -> str:
    """What the table says, in words that hold up to its intervals.

    An explainer is called first only where its rank interval is [1, 1]; it is said to beat noise only where the paired
    interval of its difference from control/random excludes zero.
    """
    metric = board.metric.name
    contenders = [int(i) for i in np.flatnonzero(board.contenders) if np.isfinite(board.spread.mean[i])]
    if board.better == 0:
        return f"{metric} has no better or worse by itself: its right value depends on the model."
    if not contenders:
        return f"Only controls have a score on {metric}: add explainers to have something to judge."
    ordered = sorted(contenders, key=lambda i: -board.better * board.spread.mean[i])
    best = ordered[0]
    return f"{_first(board, ordered)}{_way(board, best)}. {_noise(board, contenders)}".strip()


def leaders(board: Board) -> list[int]:
    """Explainers that this run cannot tell from the first: those whose rank interval reaches 1."""
    _, low, _ = board.spread.ranks(board.better or 1, board.contenders)
    return [int(i) for i in np.flatnonzero(low == 1)]


def samples_needed(board: Board, one: int, other: int) -> int | None:
    """Samples for a paired test to find the observed difference with 80 % power at the 5 % level; None: no number does.

    Rows of one sample (several models) are averaged first, so that samples are what is counted.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        means = board.sums[:, [one, other]] / board.counts[:, [one, other]]
    if np.isfinite(means).all(axis=1).sum() < 2:
        return None
    return separation(means[:, 0], means[:, 1]).needed


def listed(names: Sequence[str], most: int = 4) -> str:
    """'a', 'a and b', 'a, b and c', 'a, b, c and 5 others'.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e", "f"], most=3)
    ('a, b and c', 'a, b, c and 3 others')
    """
    parts = list(names[:most])
    if len(names) > most:
        parts.append(f"{len(names) - most} other{'s' if len(names) - most > 1 else ''}")
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _first(board: Board, ordered: Sequence[int]) -> str:
    name, metric = board.explainers[ordered[0]], board.metric.name
    if len(ordered) == 1:
        return f"{name} is the only explainer with a score on {metric}"
    first = leaders(board)
    tied = [board.explainers[i] for i in ordered if i in first]
    if len(tied) > 1:
        return (
            f"No clear first on {metric}: {listed(tied)} cannot be told apart on {board.spread.samples:,} samples; "
            f"{name} is nominally ahead"
        )
    return f"{name} is first on {metric}"


def _way(board: Board, best: int) -> str:
    way = board.way()[best]
    if not np.isfinite(way):
        return f" with a mean of {board.spread.mean[best]:.3g}"
    return f", {100 * way:.0f} % of the way from noise to the oracle"


def _noise(board: Board, contenders: Sequence[int]) -> str:
    beats = board.beats_floor()
    if board.floor is None:
        return ""
    losers = [board.explainers[i] for i in contenders if beats[i] is False]
    if not losers:
        return "Every explainer beats noise." if len(contenders) > 1 else "It beats noise."
    if len(losers) == len(contenders):
        return "No explainer beats noise." if len(contenders) > 1 else "It does not beat noise."
    winners = len(contenders) - len(losers)
    return f"{winners} of {len(contenders)} beat noise; {listed(losers)} {'does' if len(losers) == 1 else 'do'} not."

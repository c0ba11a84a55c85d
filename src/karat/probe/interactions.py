"""An estimator of Shapley interaction indices, for one pair of players or for all pairs of two sets at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep
from karat.probe.evaluator import Question
from karat.probe.games import Estimate, small_sample

_ROWS = 2**13


def toggled(
    n: int, rows: Sequence[int], columns: Sequence[int], budget: int, rng: np.random.Generator
) -> Question[Estimate]:
    """Interaction indices (rows, columns) of every pair of one player of each.

    Draw a size t evenly from 0 .. n and a coalition of that size; switch each player, and each pair, over. Without the
    pair, the drawn coalition is then distributed just as the index weighs it, 1/((n-1) binom(n-2, s)), for *every* pair
    at once: a draw costs 1 + r + c + r c coalitions for r c pairs (about one for each pair, not four).

    A unit is a draw and its complement, which cancels interactions of three. Sizes are stratified, two units to a
    stratum: the finest strata that still have a variance.
    """
    r, c = len(rows), len(columns)
    if set(rows) & set(columns) or not set(rows) | set(columns) <= set(range(n)):
        raise BadInput(f"interactions need two disjoint sets of the players 0 to {n - 1}; got {rows} and {columns}.")
    cost = 2 * (1 + r + c + r * c)
    strata = budget // (2 * cost)
    if strata < 4:
        raise BadInput(f"{r} x {c} interactions need a budget of {least_toggled(r, c)}; got {budget}.")
    flips = _flips(n, rows, columns)
    units = np.empty((strata, 2, r, c))
    per_block = max(1, _ROWS // (2 * cost))
    for start in range(0, strata, per_block):
        block = min(per_block, strata - start)
        position = (np.arange(start, start + block)[:, None] + rng.random((block, 2))) / strata
        size = np.floor(position * (n + 1)).astype(np.intp).reshape(-1, 1)
        rank = np.argsort(np.argsort(rng.random((2 * block, n)), axis=1), axis=1)
        drawn: Keep = rank < size
        drawn = np.stack([drawn, ~drawn], axis=1).reshape(-1, n)  # (4 block, n)
        values = (yield (drawn[:, None, :] ^ flips).reshape(-1, n)).reshape(len(drawn), 1 + r + c + r * c)
        alone = values[:, :1, None]
        row, column = values[:, 1 : 1 + r, None], values[:, None, 1 + r : 1 + r + c]
        both = values[:, 1 + r + c :].reshape(-1, r, c)
        # "switched over" becomes "with minus without" by this sign
        sign = np.where(drawn[:, rows], -1.0, 1.0)[:, :, None] * np.where(drawn[:, columns], -1.0, 1.0)[:, None, :]
        delta = sign * (both - row - column + alone)  # Delta_ij at the drawn coalition without i and j
        units[start : start + block] = delta.reshape(block, 2, 2, r, c).mean(axis=2)
    error = np.sqrt(((units[:, 0] - units[:, 1]) ** 2).sum(axis=0)) / (2 * strata) * small_sample(strata)
    return Estimate(units.mean(axis=(0, 1)), error, strata * 2 * cost, "toggled")


def least_toggled(r: int, c: int) -> int:
    """The smallest budget with an error bar worth the name: four strata (ten, for skewed games)."""
    return 16 * (1 + r) * (1 + c)


def _flips(n: int, rows: Sequence[int], columns: Sequence[int]) -> Keep:
    """(1 + r + c + r c, n): nobody, each row player, each column player, each pair."""
    row, column = np.eye(n, dtype=np.bool_)[list(rows)], np.eye(n, dtype=np.bool_)[list(columns)]
    pairs = (row[:, None] | column[None]).reshape(-1, n)
    return np.concatenate([np.zeros((1, n), dtype=np.bool_), row, column, pairs])

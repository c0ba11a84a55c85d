"""Exact values of small games, as linear maps over the table of all 2^n coalitions.

A *table* holds v(S) at index sum of 2^i over the players i in S: entry 0 is the empty coalition, the last the full one.
Everything is float64. Shapley values and interaction indices are weighted sums over the table itself rather than over
its dividends: the Möbius transform subtracts 2^n numbers of like size, which costs digits that the sums keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.probe.evaluator import Question

MOST_PLAYERS = 20
_CHUNK = 2**14  # rows of coalitions at a time, so that a table of 2^20 never holds its masks in full

Table = npt.NDArray[np.float64]  # (2^n,)
Matrix = npt.NDArray[np.float64]  # (n, n)


def coalitions(n: int, start: int = 0, stop: int | None = None) -> Keep:
    """Masks (stop - start, n) of the coalitions in table order.

    >>> coalitions(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    rows = np.arange(start, 2**n if stop is None else stop)
    keep: Keep = (rows[:, None] >> np.arange(n)) & 1 == 1
    return keep


def table(n: int) -> Question[Table]:
    """The question that asks for all 2^n coalitions."""
    if n > MOST_PLAYERS:
        raise BadInput(f"{n} players have 2^{n} coalitions; exact values stop at {MOST_PLAYERS}. Group or estimate.")
    values = np.empty(2**n)
    for start in range(0, 2**n, _CHUNK):
        stop = min(start + _CHUNK, 2**n)
        values[start:stop] = yield coalitions(n, start, stop)
    return values


def players_of(values: Table) -> int:
    """n of a table of 2^n values."""
    n = len(values).bit_length() - 1
    if values.ndim != 1 or len(values) != 2**n:
        raise BadInput(f"a table holds the 2^n values of all coalitions; got shape {values.shape}.")
    return n


def mobius(values: Table) -> Table:
    """Harsanyi dividends (2^n,): m(S) = sum over T in S of (-1)^(|S|-|T|) v(T)."""
    dividends = values.astype(np.float64)
    for player in range(players_of(values)):
        pairs = dividends.reshape(-1, 2, 2**player)
        pairs[:, 1] -= pairs[:, 0]
    return dividends


def zeta(dividends: Table) -> Table:
    """The table (2^n,) of given dividends: v(S) = sum over T in S of m(T). Undoes `mobius`."""
    values = dividends.astype(np.float64)
    for player in range(players_of(dividends)):
        pairs = values.reshape(-1, 2, 2**player)
        pairs[:, 1] += pairs[:, 0]
    return values


def shapley_values(values: Table) -> Values:
    """phi_i = sum over S without i of |S|!(n-|S|-1)!/n! (v(S+i) - v(S))."""
    n = players_of(values)
    weight = np.array([1 / (n * comb(n - 1, size)) for size in range(n)])
    return _marginals(values, weight)


def banzhaf_values(values: Table) -> Values:
    """The mean marginal contribution over all coalitions of the others."""
    n = players_of(values)
    return _marginals(values, np.full(n, 0.5 ** (n - 1)))


def shapley_interaction(values: Table, i: int, j: int) -> float:
    """I_ij = sum over S without i, j of |S|!(n-|S|-2)!/(n-1)! Delta_ij(S); fsyn2026 Eq. 2-3.

    >>> shapley_interaction(np.array([0.0, 1.0, 1.0, 5.0]), 0, 1)
    3.0
    """
    n = players_of(values)
    low, high = sorted((i, j))
    if not 0 <= low < high < n:
        raise BadInput(f"an interaction needs two different players of 0 to {n - 1}; got {i} and {j}.")
    cube = values.reshape(2 ** (n - 1 - high), 2, 2 ** (high - 1 - low), 2, 2**low)
    delta = cube[:, 1, :, 1] - cube[:, 1, :, 0] - cube[:, 0, :, 1] + cube[:, 0, :, 0]
    weight = np.array([1 / ((n - 1) * comb(n - 2, size)) for size in range(n - 1)])
    return float(weight[_sizes(n - 2)] @ delta.ravel())


def shapley_interactions(values: Table) -> Matrix:
    """All pairwise interaction indices (n, n), symmetric, zero on the diagonal."""
    n = players_of(values)
    result = np.zeros((n, n))
    if n < 2:
        return result
    weight = np.array([1 / ((n - 1) * comb(n - 2, size)) for size in range(n - 1)])
    both, one, none = (np.zeros(n + 1) for _ in range(3))  # the weight of v(T) by |T|: T holds i and j, one, none
    both[2:], one[1:n], none[: n - 1] = weight, weight, weight
    centred = values - values[0]
    constant = 0.0
    single = np.zeros(n)
    for keep, size, v in _chunks(centred, n):
        result += (keep * ((both + 2 * one + none)[size] * v)[:, None]).T @ keep
        single += ((one + none)[size] * v) @ keep
        constant += float(none[size] @ v)
    result += constant - single[:, None] - single[None, :]
    np.fill_diagonal(result, 0.0)
    return (result + result.T) / 2


def _marginals(values: Table, weight: Values) -> Values:
    """sum over S without i of weight[|S|] (v(S+i) - v(S)), for all i at once."""
    n = players_of(values)
    joined, left = np.zeros(n + 1), np.zeros(n + 1)  # the weight of v(T) by |T|: T holds i, or does not
    joined[1:], left[:n] = weight, weight
    centred = values - values[0]
    result = np.zeros(n)
    for keep, size, v in _chunks(centred, n):
        result += ((joined + left)[size] * v) @ keep - left[size] @ v
    return result


def _chunks(values: Table, n: int) -> Iterator[tuple[Matrix, npt.NDArray[np.intp], Values]]:
    for start in range(0, 2**n, _CHUNK):
        stop = min(start + _CHUNK, 2**n)
        keep = coalitions(n, start, stop).astype(np.float64)
        yield keep, keep.sum(axis=1).astype(np.intp), values[start:stop]


def _sizes(n: int) -> npt.NDArray[np.intp]:
    """|S| of every coalition, in table order: each further player doubles the table, one larger."""
    sizes = np.zeros(1, dtype=np.intp)
    for _ in range(n):
        sizes = np.concatenate([sizes, sizes + 1])
    return sizes

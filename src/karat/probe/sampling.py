"""Random coalitions in complementary pairs, stratified by size, without replacement.

Shapley values depend on the odd part of a game only, g(S) = (v(S) - v(complement of S)) / 2: whatever a coalition and
its complement share cancels in every marginal contribution. So coalitions are drawn together with their complements;
stratum s holds the pairs whose smaller side has s players, s = 1 .. n // 2. A stratum that the budget can cover is
listed in full and then adds no variance at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from karat.kernel.typing import Keep, Values

_LISTABLE = 2**13  # strata of up to so many coalitions are listed and shuffled; larger ones are drawn and deduplicated


@dataclass(frozen=True, eq=False)
class Stratum:
    """Distinct coalitions of one size; with their complements they stand for `population` pairs."""

    size: int
    keep: Keep  # (m, n)
    population: int

    @property
    def unseen(self) -> float:
        """The share of the stratum that was not drawn: the finite-population factor of its variance."""
        return 1 - len(self.keep) / self.population


def populations(n: int) -> list[int]:
    """Number of complementary pairs for s = 1 .. n // 2. At s = n / 2 a pair holds two coalitions of the same size."""
    return [comb(n, s) // (2 if 2 * s == n else 1) for s in range(1, n // 2 + 1)]


def draw(n: int, pairs: int, rng: np.random.Generator) -> list[Stratum]:
    """Strata with `pairs` coalitions in all (fewer where the game has no more), none of them twice."""
    if n < 2:
        return []
    pools = populations(n)
    sizes = np.arange(1, n // 2 + 1)
    # Between the kernel (1/(s(n-s))) and equal shares: the best of the rules tried on small image classifiers.
    counts = allocate(1 / np.sqrt(sizes * (n - sizes)), pools, pairs)
    return [
        Stratum(int(size), _distinct(n, int(size), int(count), pool, rng), pool)
        for size, count, pool in zip(sizes, counts, pools, strict=True)
    ]


def allocate(shares: Values, pools: list[int], total: int) -> npt.NDArray[np.int64]:
    """Whole numbers that add up to `total`: the first stratum in full, two at least for each other, the rest by share.

    The first stratum (each player alone, and each left out) is small and carries the most weight. Two is the least that
    has a variance. No stratum gets more than it holds.
    """
    pool = np.array([min(p, 2**62) for p in pools], dtype=np.float64)
    total = int(min(total, pool.sum()))
    floor = np.minimum(pool, 2.0)
    floor[0] = pool[0]
    target = floor.copy()
    open_ = pool > floor
    while open_.any() and total - target[~open_].sum() > 0:
        spare = total - target[~open_].sum()
        target[open_] = spare * shares[open_] / shares[open_].sum()
        low, high = open_ & (target < floor), open_ & (target > pool)
        target[low], target[high] = floor[low], pool[high]
        if not (low | high).any():
            break
        open_ &= ~(low | high)
    counts = np.floor(target).astype(np.int64)
    for k in np.argsort(counts - target, kind="stable")[: max(0, total - int(counts.sum()))]:
        counts[k] += 1
    return counts


def _distinct(n: int, size: int, count: int, pool: int, rng: np.random.Generator) -> Keep:
    middle = 2 * size == n  # there a coalition and its complement are one pair; it is named by the side of player 0
    if pool <= _LISTABLE or count >= pool:
        if middle:
            members = np.array(list(combinations(range(1, n), size - 1)), dtype=np.intp).reshape(pool, size - 1)
            members = np.concatenate([np.zeros((pool, 1), dtype=np.intp), members], axis=1)
        else:
            members = np.array(list(combinations(range(n), size)), dtype=np.intp)
        members = members[rng.permutation(pool)[:count]]
        keep = np.zeros((count, n), dtype=np.bool_)
        np.put_along_axis(keep, members, True, axis=1)
        return keep
    distinct: dict[bytes, None] = {}
    while len(distinct) < count:
        drawn = np.zeros((count - len(distinct), n), dtype=np.bool_)
        members = np.argsort(rng.random(drawn.shape), axis=1)[:, :size]
        np.put_along_axis(drawn, members, True, axis=1)
        if middle:
            drawn ^= ~drawn[:, :1]
        distinct.update((row.tobytes(), None) for row in drawn)
    return np.frombuffer(b"".join(distinct), dtype=np.bool_).reshape(count, n)

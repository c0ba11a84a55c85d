"""Interaction indices of all pairs from the same few coalitions: least squares whose residual has no interaction left.

I_ij is a weighted sum of values, sum over T of c_ij(T) v(T). At each size t the weight is A y_i y_j + B (y_i + y_j) + D
with y = +-1 for kept or not. Regress v with weight A_t on y_i y_j, y_i B_t/A_t and D_t/A_t: the normal equations then
say that every I_ij of the residual is zero, so the index of v is that of the fitted model, whichever other features are
in it. Those take noise out. (The same idea gives Shapley values by KernelSHAP.) A quadratic game is fitted exactly.

Complementary coalitions count alike in I_ij, so only e(S) = (v(S) + v(complement)) / 2 matters and main effects cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import comb

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep
from karat.probe.evaluator import Question
from karat.probe.games import Estimate
from karat.probe.sampling import draw

Array = npt.NDArray[np.float64]


def pair_regression(
    n: int, rows: Sequence[int], columns: Sequence[int], budget: int, rng: np.random.Generator
) -> Question[Estimate]:
    """Shapley interaction indices (rows, columns) of every pair of one player of each, two disjoint sets."""
    r, c = len(rows), len(columns)
    if set(rows) & set(columns) or not set(rows) | set(columns) <= set(range(n)):
        raise BadInput(f"interactions need two disjoint sets of the players 0 to {n - 1}; got {rows} and {columns}.")
    if budget < least_pairs(n, r, c):
        raise BadInput(f"{r} x {c} interactions need a budget of {least_pairs(n, r, c)}; got {budget}.")
    strata = draw(n, (budget - 2) // 2, rng)
    keep: Keep = np.concatenate([np.ones((1, n), dtype=np.bool_), *(stratum.keep for stratum in strata)])
    values = yield np.concatenate([keep, ~keep])
    even = (values[: len(keep)] + values[len(keep) :]) / 2

    size = keep.sum(axis=1)
    slope, level, weight = _by_size(n)
    stands_for = np.concatenate([[1.0], *(np.full(len(s.keep), s.population / len(s.keep)) for s in strata)])
    weight = weight[size] * stands_for
    y = np.where(keep, 1.0, -1.0)
    across = (y[:, rows, None] * y[:, None, columns]).reshape(len(y), -1)
    sized = y[:, [*rows, *columns]] * slope[size, None]
    spare = len(keep) - r * c - r - c
    design = np.concatenate([across, sized, level[size, None], _within(y, rows, columns, spare)], axis=1)
    index_of = _indices_of_features(n, r, c, design.shape[1], slope, level)

    inverse = np.linalg.pinv((design * weight[:, None]).T @ design, hermitian=True)
    toward = (design * weight[:, None]) @ inverse
    b = toward.T @ even
    leverage = (toward * design).sum(axis=1)
    residual = (even - design @ b) / (1 - np.minimum(leverage, 0.99))  # a jackknife, HC3
    influence = (toward * residual[:, None]) @ index_of
    variance = np.zeros(r * c)
    start = 1  # the first row, all and none, is a stratum of its own, seen in full
    for stratum in strata:
        m = len(stratum.keep)
        if stratum.unseen > 0:
            variance += stratum.unseen * m * influence[start : start + m].var(axis=0, ddof=1)
        start += m
    indices = (b @ index_of).reshape(r, c)
    return Estimate(indices, np.sqrt(variance).reshape(r, c), 2 * len(keep), "pair regression")


def least_pairs(n: int, r: int, c: int) -> int:
    """Three passes for each feature of the smallest model, or all there are."""
    return min(3 * (r * c + 2 * (r + c) + 2) + 2 * n, int(2**n))


def _by_size(n: int) -> tuple[Array, Array, Array]:
    """B/A, D/A and A, up to a factor, for sizes 0 .. n. Patterns that a size does not have are given what is handy."""
    weights = np.array(
        [
            [(-1) ** inside / comb(n - 2, min(max(size - inside, 0), n - 2)) for inside in range(3)]
            for size in range(n + 1)
        ]
    )
    none, one, both = weights.T
    a, b, d = (both - 2 * one + none) / 4, (both - none) / 4, (both + 2 * one + none) / 4
    return b / a, d / a, a


def _within(y: Array, rows: Sequence[int], columns: Sequence[int], spare: int) -> Array:
    """Even features without any interaction between rows and columns: a constant, and pairs within each side.

    All such pairs where three rows are left for each; else each player's pairs with all others of its side in one.
    """
    features = [np.ones((len(y), 1))]
    pairs = comb(len(rows), 2) + comb(len(columns), 2)
    for side in (list(rows), list(columns)):
        if spare > 3 * pairs:
            first, second = np.array(list(combinations(side, 2)), dtype=np.intp).reshape(-1, 2).T
            features.append(y[:, first] * y[:, second])
        else:
            features.append(y[:, side] * y[:, side].sum(axis=1, keepdims=True))
    return np.concatenate(features, axis=1)


def _indices_of_features(n: int, r: int, c: int, features: int, slope: Array, level: Array) -> Array:
    """(features, r c) interaction indices of the features themselves, in the order of the design."""
    inside, outside, plain = 0.0, 0.0, 0.0  # of y_k slope(t) for k in the pair and not, and of level(t)
    for size in range(n + 1):
        for pattern in product((0, 1), repeat=3):  # i, j, and some other player k
            if n == 2 and pattern[2]:
                continue
            players = 2 if n == 2 else 3
            chosen = sum(pattern)
            if not 0 <= size - chosen <= n - players:
                continue
            members = pattern[0] + pattern[1]
            # number of coalitions of this pattern over the binomial of the index: a ratio, never the parts
            times = comb(n - players, size - chosen) / ((n - 1) * comb(n - 2, size - members)) * (-1) ** members
            inside += times * (2 * pattern[0] - 1) * slope[size]
            outside += times * (2 * pattern[2] - 1) * slope[size]
            plain += times * level[size]
    row, column = np.eye(r).repeat(c, axis=1), np.tile(np.eye(c), r)  # which player is in which pair
    single = np.concatenate([row, column])
    found = np.zeros((features, r * c))
    found[: r * c] = 4 * np.eye(r * c)
    found[r * c : r * c + r + c] = single * inside + (1 - single) * outside
    found[r * c + r + c] = plain
    return found

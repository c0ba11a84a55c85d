"""Interaction indices of all pairs from the same few coalitions: least squares whose residual has no interaction left.

I_ij is a weighted sum of values, sum over T of c_ij(T) v(T). Take c_ij itself, over the weight of a row, as a feature:
then the normal equations say that the residual has no interaction left, and the index of v is that of the fitted model,
whichever other features are in it. Those take the noise out. (The same idea gives Shapley values by KernelSHAP.)

Complementary coalitions count alike in I_ij, so only e(S) = (v(S) + v(complement)) / 2 matters and main effects cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import comb

import numpy as np
import numpy.typing as npt

from assay.kernel.errors import BadInput
from assay.kernel.typing import Keep
from assay.probe.evaluator import Question
from assay.probe.games import Estimate
from assay.probe.strata import Stratum, draw

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

    features, gram = _index_features(n, keep, strata, rows, columns)
    design = np.concatenate([features, _within(keep, rows, columns, len(keep) - r * c)], axis=1)
    inverse = np.linalg.pinv(design.T @ design, hermitian=True)
    toward = design @ inverse
    b = toward.T @ even
    leverage = (toward * design).sum(axis=1)
    residual = (even - design @ b) / (1 - np.minimum(leverage, 0.99))  # a jackknife, HC3
    influence = (toward[:, : r * c] * residual[:, None]) @ gram
    variance = np.zeros(r * c)
    start = 1  # the first row, all and none, is a stratum of its own, seen in full
    for stratum in strata:
        m = len(stratum.keep)
        if stratum.unseen > 0:
            variance += stratum.unseen * m * influence[start : start + m].var(axis=0, ddof=1)
        start += m
    indices = gram @ b[: r * c]
    return Estimate(indices.reshape(r, c), np.sqrt(variance).reshape(r, c), 2 * len(keep), "pair regression")


def least_pairs(n: int, r: int, c: int) -> int:
    """Three passes for each feature of the smallest model, or all there are."""
    return min(3 * (r * c + r + c + 1) + 2 * n, int(2**n))


def _index_features(
    n: int, keep: Keep, strata: list[Stratum], rows: Sequence[int], columns: Sequence[int]
) -> tuple[Array, Array]:
    """c_ij of every row times the number of coalitions it stands for (m, r c), and the indices of these (r c, r c)."""
    sizes = np.concatenate([[n], *(np.full(len(s.keep), s.size) for s in strata)]).astype(np.intp)
    stands_for = {n: 1.0, **{s.size: s.population / len(s.keep) for s in strata}}
    # 2 c by number of the pair's players that are in, for every size drawn: a coalition and its complement in one
    table = np.zeros((n + 1, 3))
    for size, members in product(stands_for, range(3)):
        if 0 <= size - members <= n - 2:
            table[size, members] = (-1) ** members * 2 / ((n - 1) * comb(n - 2, size - members))
    scale = np.array([stands_for.get(size, 0.0) for size in range(n + 1)])
    inside = keep[:, list(rows)].astype(np.intp)[:, :, None] + keep[:, list(columns)][:, None, :]
    features = table[sizes[:, None, None], inside] * scale[sizes, None, None]

    population = {n: 1, **{s.size: s.population for s in strata}}
    overlap = [0.0, 0.0, 0.0]  # sum over all coalitions of the product of two features, by the players they share
    for size, count in population.items():
        for shared in range(3):
            for pattern in product((0, 1), repeat=4 - shared):
                chosen = sum(pattern)
                if not 0 <= size - chosen <= n - len(pattern):
                    continue
                first, second = pattern[0] + pattern[1], sum(pattern[2 - shared : 4 - shared])
                chance = comb(n - len(pattern), size - chosen) / comb(n, size)
                overlap[shared] += count * chance * table[size, first] * table[size, second] * scale[size]
    row, column = np.eye(len(rows), dtype=np.intp), np.eye(len(columns), dtype=np.intp)
    shared_players = (row[:, None, :, None] + column[None, :, None, :]).reshape(features[0].size, -1)
    return features.reshape(len(keep), -1), np.array(overlap)[shared_players]


def _within(keep: Keep, rows: Sequence[int], columns: Sequence[int], spare: int) -> Array:
    """Even features without any interaction between rows and columns: a constant, and pairs within each side.

    All such pairs where three rows are left for each; else each player's pairs with all others of its side in one.
    """
    y = np.where(keep, 1.0, -1.0)
    features = [np.ones((len(keep), 1))]
    pairs = comb(len(rows), 2) + comb(len(columns), 2)
    for side in (list(rows), list(columns)):
        if spare > 3 * pairs:
            first, second = np.array(list(combinations(side, 2)), dtype=np.intp).reshape(-1, 2).T
            features.append(y[:, first] * y[:, second])
        else:
            features.append(y[:, side] * y[:, side].sum(axis=1, keepdims=True))
    return np.concatenate(features, axis=1)

"""Estimators of Shapley values and of interaction indices, each a question (see `Evaluator`) with an honest error.

`budget` is the most coalitions an estimator may ask for, the empty and the full one included; it plans ahead and never
asks for one more. All are seeded by the generator they are given.

| estimator    | idea                                                     | where the error bar comes from           |
|--------------|----------------------------------------------------------|------------------------------------------|
| permutation  | marginal contributions along random orders and reversed  | spread between pairs of orders           |
| stratified   | with player i against without, size by size              | spread within each size                  |
| kernelshap   | weighted least squares on an additive model, in pairs    | jackknife residuals within each size     |
| regression   | the same, and more features of the leading players       | jackknife residuals within each size     |
| toggled      | interactions: single players and pairs switched over     | spread within pairs of strata            |

`regression` is the default. A coalition and its complement cancel interactions of two players, so the error of
KernelSHAP in pairs is odd interactions of three and more; on images these sit in a few players, and fitting those takes
most of the error away.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.probe.evaluator import Question
from karat.probe.games import Estimate, small_sample
from karat.probe.sampling import Stratum, draw

_ROWS = 2**13  # rows a question yields at a time: bounds the memory of masks, not the batches

Array = npt.NDArray[np.float64]


def permutation(n: int, budget: int, rng: np.random.Generator, antithetic: bool = True) -> Question[Estimate]:
    """Mean marginal contributions over random orders of the players, each (if `antithetic`) with its reverse.

    A unit is one order or one pair; it costs n - 1 coalitions per order, and the two ends are asked for once.
    """
    orders = 2 if antithetic else 1
    units = (budget - 2) // (orders * (n - 1)) if n > 1 else 3
    if units < 3:
        raise BadInput(
            f"permutation sampling of {n} players needs a budget of {least_permutation(n, antithetic)}; got {budget}."
        )
    ends = yield np.repeat([[False], [True]], n, axis=1)
    per_block = max(1, _ROWS // (orders * max(n - 1, 1)))
    contributions = np.empty((units, n))
    for start in range(0, units, per_block):
        order = np.argsort(rng.random((min(per_block, units - start), n)), axis=1)
        if antithetic:
            order = np.stack([order, order[:, ::-1]], axis=1).reshape(-1, n)
        rank = np.argsort(order, axis=1)
        inner = (rank[:, None, :] < np.arange(1, n)[:, None]).reshape(-1, n)  # the first 1 .. n-1 players of each order
        values = np.empty((len(order), n + 1))
        values[:, 0], values[:, n] = ends
        values[:, 1:n] = (yield inner).reshape(len(order), n - 1)
        steps = np.take_along_axis(np.diff(values, axis=1), rank, axis=1)
        contributions[start : start + per_block] = steps.reshape(-1, orders, n).mean(axis=1)
    error = contributions.std(axis=0, ddof=1) / np.sqrt(units) * small_sample(units - 1)
    name = "permutation" if antithetic else "permutation (plain)"
    return Estimate(contributions.mean(axis=0), error, 2 + units * orders * (n - 1), name)


def least_permutation(n: int, antithetic: bool = True) -> int:
    """The smallest budget with an error bar worth the name: three units."""
    return 2 + 3 * (2 if antithetic else 1) * (n - 1)


def stratified(n: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """phi_i as the mean over sizes of (mean value with i) - (mean value without i), from complementary pairs.

    Size by size this is n/(s(n-s)) times a covariance between membership and value, which is unbiased however often a
    player happened to be drawn; so no minimum number of draws per player is needed.
    """
    strata = draw(n, _pairs(n, budget), rng)
    total, odd = yield from _odd_parts(n, strata)
    phi = np.full(n, total / n)
    variance = np.zeros(n)
    for stratum, g in zip(strata, odd, strict=True):
        m, s = len(g), stratum.size
        scale = (1 if 2 * s == n else 2) / n  # at s = n / 2 the pair lies within one size, which must not count twice
        member = stratum.keep * (n / s) - ~stratum.keep * (n / (n - s))
        products = scale * g[:, None] * member
        if stratum.unseen > 0 and 2 * s < n:  # in full, or balanced by its complements, a stratum needs no centring
            products = scale * (g - g.mean())[:, None] * (member - member.mean(axis=0)) * (m / (m - 1))
        phi += products.mean(axis=0)
        if stratum.unseen > 0:
            variance += stratum.unseen * products.var(axis=0, ddof=1) / m
    return Estimate(phi, np.sqrt(variance), _passes(strata), "stratified")


def kernelshap(n: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """KernelSHAP in pairs: the additive game nearest to v under the Shapley kernel, exact at both ends."""
    strata = draw(n, _pairs(n, budget), rng)
    total, odd = yield from _odd_parts(n, strata)
    phi, error = _fit(strata, odd, total, _features(n, strata, []))
    return Estimate(phi, error, _passes(strata), "kernelshap")


def regression(n: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """KernelSHAP in pairs plus what the leading players do in threes, and at small and large sizes.

    Residuals of the weighted fit are orthogonal to every additive game, so their Shapley values are zero, and those of
    v are those of the fitted model: consistent whichever features are in it, better the more of v they explain. The
    leading players are those of the additive fit.
    """
    strata = draw(n, _pairs(n, budget), rng)
    total, odd = yield from _odd_parts(n, strata)
    phi, error = _fit(strata, odd, total, _features(n, strata, []))
    spare = (sum(len(g) for g in odd) - 2 * n) / 8  # eight pairs for each further feature, two for each player
    leading = 0
    while leading < n and comb(leading + 1, 3) + leading + 1 <= spare:
        leading += 1
    if leading:
        top = np.sort(np.argsort(-np.abs(phi), kind="stable")[:leading])
        phi, error = _fit(strata, odd, total, _features(n, strata, top.tolist()))
    return Estimate(phi, error, _passes(strata), "regression")


def least_regression(n: int) -> int:
    """The smallest budget at which the strata have a variance each and the fit has three pairs per player."""
    return min(6 * n + 2, int(2**n))


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


def _pairs(n: int, budget: int) -> int:
    if budget < least_regression(n):
        raise BadInput(f"{n} players need a budget of {least_regression(n)} for this method; got {budget}.")
    return (budget - 2) // 2


def _passes(strata: list[Stratum]) -> int:
    return 2 + 2 * sum(len(stratum.keep) for stratum in strata)


def _odd_parts(n: int, strata: list[Stratum]) -> Question[tuple[float, list[Values]]]:
    """v(all) - v(none), and g(S) = (v(S) - v(complement)) / 2 for the coalitions of each stratum."""
    empty, full = yield np.repeat([[False], [True]], n, axis=1)
    keep: Keep = np.concatenate([stratum.keep for stratum in strata]) if strata else np.zeros((0, n), dtype=np.bool_)
    odd = np.empty(len(keep))
    for start in range(0, len(keep), _ROWS // 2):
        rows = keep[start : start + _ROWS // 2]
        values = yield np.concatenate([rows, ~rows])
        odd[start : start + len(rows)] = (values[: len(rows)] - values[len(rows) :]) / 2
    ends = np.cumsum([len(stratum.keep) for stratum in strata])
    return full - empty, np.split(odd, ends[:-1]) if strata else []


class _Features(NamedTuple):
    """Odd functions of a coalition: what the game is regressed on."""

    design: Array  # (m, f) on the coalitions of the strata
    at_full: Array  # (f,) on the full coalition
    shapley: Array  # (n, f) their own Shapley values


def _features(n: int, strata: list[Stratum], leading: list[int]) -> _Features:
    """With y_i = +-1 for kept or not: y_i of every player; of the leading ones also y_i u^2, where u runs from -1 to 1
    as the size does from 0 to n (a contribution that is larger at both ends), and y_i y_j y_k.

    Shapley values: 2/3 for each of the three players of a triple. For y_i h(s) with h even, player i gets the mean of
    h(s) + h(s+1) over s = 0 .. n-1, and the others share what is left of 2 h(n).
    """
    keep = np.concatenate([stratum.keep for stratum in strata]) if strata else np.zeros((0, n), dtype=np.bool_)
    y: Array = np.where(keep, 1.0, -1.0)
    squared: Array = np.linspace(-1, 1, n + 1) ** 2
    design: list[Array] = [y]
    shapley: list[Array] = [2 * np.eye(n)]
    if leading:
        own = float((squared[1:] + squared[:-1]).mean())
        sloped = np.full((n, len(leading)), (2 - own) / max(n - 1, 1))
        sloped[leading, np.arange(len(leading))] = own
        design.append(y[:, leading] * squared[keep.sum(axis=1), None])
        shapley.append(sloped)
    for triple in combinations(leading, 3):
        design.append(y[:, triple].prod(axis=1, keepdims=True))
        shapley.append(np.where(np.isin(np.arange(n), triple), 2 / 3, 0.0)[:, None])
    columns = np.concatenate(design, axis=1)
    return _Features(columns, np.ones(columns.shape[1]), np.concatenate(shapley, axis=1))


def _fit(strata: list[Stratum], odd: list[Values], total: float, features: _Features) -> tuple[Array, Array]:
    """Weighted least squares of g on the features, exact on the full coalition, and the error of its Shapley values.

    A stratum weighs as all its coalitions do under the Shapley kernel, 1/(s(n-s)) per size. The error is that of a
    stratified sample: residuals blown up by their leverage (a jackknife, HC3), centred within the stratum, times the
    share of the stratum that was not drawn.
    """
    design, at_full, shapley = features
    n, f = shapley.shape
    if not strata:  # one player: efficiency says it all
        return np.array([total]), np.zeros(1)
    weight = np.concatenate([np.full(len(s.keep), _kernel(n, s.size) / len(s.keep)) for s in strata])
    target = np.concatenate(odd)
    bordered = np.zeros((f + 1, f + 1))  # the normal equations and the constraint, in one
    bordered[:f, :f] = design.T @ (weight[:, None] * design)
    bordered[:f, f] = bordered[f, :f] = at_full
    inverse = np.linalg.pinv(bordered, hermitian=True)
    projected = inverse[:f, :f]
    b = projected @ (design.T @ (weight * target)) + inverse[:f, f] * total / 2

    leverage = weight * np.einsum("mf,fg,mg->m", design, projected, design, optimize=True)
    residual = weight * (target - design @ b) / (1 - np.minimum(leverage, 0.99))
    influence = (design * residual[:, None]) @ (projected @ shapley.T)
    variance = np.zeros(n)
    start = 0
    for stratum in strata:
        m = len(stratum.keep)
        if stratum.unseen > 0:
            variance += stratum.unseen * m * influence[start : start + m].var(axis=0, ddof=1)
        start += m
    return shapley @ b, np.sqrt(variance)


def _kernel(n: int, s: int) -> float:
    """Mass of the pairs of stratum s under the Shapley kernel; the middle size is one size, the others are two."""
    return (1 if 2 * s == n else 2) / (s * (n - s))


def _flips(n: int, rows: Sequence[int], columns: Sequence[int]) -> Keep:
    """(1 + r + c + r c, n): nobody, each row player, each column player, each pair."""
    row, column = np.eye(n, dtype=np.bool_)[list(rows)], np.eye(n, dtype=np.bool_)[list(columns)]
    pairs = (row[:, None] | column[None]).reshape(-1, n)
    return np.concatenate([np.zeros((1, n), dtype=np.bool_), row, column, pairs])

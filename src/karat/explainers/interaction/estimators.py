"""Estimators of the interaction of every visual player with every text player, all pairs from shared coalitions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations, product
from math import comb

import numpy as np
import numpy.typing as npt

from karat.explainers.coalitional import all_fit
from karat.kernel.errors import ExtraMissing
from karat.kernel.typing import Keep
from karat.probe import exact
from karat.probe.coalitions import ModelGame
from karat.probe.estimators import least_toggled, toggled
from karat.probe.evaluator import Question
from karat.probe.games import Estimate, Game, small_sample
from karat.probe.sampling import draw

Array = npt.NDArray[np.float64]
REPETITIONS = 3  # shapiq gives no error bars: they come from the spread of so many runs
CONTEXTS = 4  # the fewest whose spread is worth a standard error


def exact_pairs(n_visual: int, n_text: int) -> Question[Estimate]:
    """Shapley interaction indices (n_visual, n_text), from all coalitions."""
    n = n_visual + n_text
    table = yield from exact.table(n)
    indices = exact.shapley_interactions(table)[:n_visual, n_visual:]
    return Estimate(indices, np.zeros_like(indices), 2**n, "exact")


# ---- every pair switched over in a few contexts


def switched(n_visual: int, n_text: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """Shapley interaction indices (n_visual, n_text) of a game, visual players first.

    A drawn coalition gives one second difference of every pair for (1 + patches)(1 + words) passes, and these share
    their images: patches + 1 of them serve all. A difference cancels whatever the rest of the image does, which on
    networks is nearly all there is; so few contexts say more than a regression on as many unrelated coalitions.

    Sizes are stratified, one context to each stratum; with budget for it, `toggled` adds complements and finer strata.
    """
    n, cost = n_visual + n_text, (1 + n_visual) * (1 + n_text)
    if budget >= least_toggled(n_visual, n_text):
        return (yield from toggled(n, range(n_visual), range(n_visual, n), budget, rng))
    draws = budget // cost
    # The size of a context, with the pair taken out, is then spread evenly over 0 .. n - 2, as the index weighs it.
    size = np.floor((np.arange(draws) + rng.random(draws)) / draws * (n + 1)).astype(np.intp)
    rank = np.argsort(np.argsort(rng.random((draws, n)), axis=1), axis=1)
    drawn: Keep = rank < size[:, None]
    keep = (drawn[:, None] ^ switches(n_visual, n_text)).reshape(-1, n)
    values = (yield keep).reshape(draws, 1 + n_visual, 1 + n_text)
    sign = np.where(drawn, -1.0, 1.0)
    delta = values[:, 1:, 1:] - values[:, 1:, :1] - values[:, :1, 1:] + values[:, :1, :1]
    delta *= sign[:, :n_visual, None] * sign[:, None, n_visual:]
    error = delta.std(axis=0, ddof=1) / np.sqrt(draws) * small_sample(draws - 1)
    return Estimate(delta.mean(axis=0), error, len(keep), "switched")


def least_switched(n_visual: int, n_text: int) -> int:
    return CONTEXTS * (1 + n_visual) * (1 + n_text)


def switches(n_visual: int, n_text: int) -> Keep:
    """((1 + n_visual)(1 + n_text), n) which players are switched over: one patch or none, with one word or none."""
    patch = np.concatenate([np.zeros((1, n_visual), dtype=np.bool_), np.eye(n_visual, dtype=np.bool_)])
    word = np.concatenate([np.zeros((1, n_text), dtype=np.bool_), np.eye(n_text, dtype=np.bool_)])
    return np.concatenate([patch.repeat(len(word), axis=0), np.tile(word, (len(patch), 1))], axis=1)


# ---- least squares
#
# I_ij is a weighted sum of values, sum over T of c_ij(T) v(T). At each size t the weight is A y_i y_j + B (y_i + y_j)
# + D with y = +-1 for kept or not. Regress v with weight A_t on y_i y_j, y_i B_t/A_t and D_t/A_t: the normal equations
# then say that every I_ij of the residual is zero, so the index of v is that of the fitted model, whichever other
# features are in it. Those take noise out. (The same idea gives Shapley values by KernelSHAP.) A quadratic game is
# fitted exactly. Complementary coalitions count alike in I_ij, so only e(S) = (v(S) + v(complement)) / 2 matters and
# main effects cancel.


def pair_regression(n_visual: int, n_text: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """Shapley interaction indices (n_visual, n_text) of a game, visual players first."""
    n, r, c = n_visual + n_text, n_visual, n_text
    rows, columns = range(r), range(r, n)
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


def least_regressed(n_visual: int, n_text: int) -> int:
    """Three passes for each feature of the smallest model, or all there are."""
    n = n_visual + n_text
    return min(3 * (n_visual * n_text + 2 * n + 2) + 2 * n, int(2**n))


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
    indices = np.zeros((features, r * c))
    indices[: r * c] = 4 * np.eye(r * c)
    indices[r * c : r * c + r + c] = single * inside + (1 - single) * outside
    indices[r * c + r + c] = plain
    return indices


def banzhaf_pairs(
    n_visual: int, n_text: int, budget: int, share: float, rng: np.random.Generator
) -> Question[Estimate]:
    """Weighted Banzhaf interactions (n_visual, n_text)."""
    n, r, c = n_visual + n_text, n_visual, n_text
    listed = all_fit(n, budget)
    keep = exact.coalitions(n) if listed else rng.random((budget, n)) < share
    values = yield keep
    size = keep.sum(axis=1)
    # listed coalitions weigh as likely as they are; drawn ones came as often as they are likely
    weight = share**size * (1 - share) ** (n - size) if listed else np.full(len(keep), 1 / len(keep))
    scale = np.sqrt(share * (1 - share))
    z = (keep - share) / scale
    pairs = (z[:, :r, None] * z[:, None, r:]).reshape(len(z), -1)
    design = np.concatenate([pairs, z, np.ones((len(z), 1))], axis=1)
    root = np.sqrt(weight)[:, None]
    inverse = np.linalg.pinv((design * root).T @ (design * root), hermitian=True)
    toward = (design * weight[:, None]) @ inverse
    b = toward.T @ values
    leverage = (toward * design).sum(axis=1)
    residual = (values - design @ b) / (1 - np.minimum(leverage, 0.99))
    error = np.zeros(r * c) if listed else np.sqrt((toward[:, : r * c] ** 2).T @ residual**2)
    passes = len(np.unique(keep, axis=0))
    name = "exact" if listed else "least squares"
    return Estimate((b[: r * c] / scale**2).reshape(r, c), (error / scale**2).reshape(r, c), passes, name)


def least_banzhaf(n_visual: int, n_text: int) -> int:
    """Two coalitions for each feature of the quadratic model."""
    return 2 * (1 + n_visual + n_text + n_visual * n_text)


# ---- other people's code, and what it computes


def faith_shap(game: Game | ModelGame, budget: int, rng: np.random.Generator) -> Estimate:
    """FSII (n_visual, n_text) of order 2 by shapiq's regression; exact where all coalitions fit into the budget."""
    try:
        from shapiq.approximator import RegressionFSII
    except ImportError:
        raise ExtraMissing("interaction/faith_shap", "shapiq", "shapley") from None
    n = game.n
    listed = all_fit(n, budget)
    runs = 1 if listed else REPETITIONS

    def value(coalitions: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        return game.value(np.atleast_2d(coalitions).astype(np.bool_))

    repeated = []
    for seed in rng.integers(2**31, size=runs):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Not all budget is required")  # good news, not a warning
            result = RegressionFSII(n, max_order=2, random_state=int(seed)).approximate(budget // runs, value)
        repeated.append([[result[(i, j)] for j in range(game.n_visual, n)] for i in range(game.n_visual)])
    indices = np.array(repeated)
    if listed:
        return Estimate(indices[0], np.zeros_like(indices[0]), 2**n, "exact")
    error = indices.std(axis=0, ddof=1) / np.sqrt(runs) * small_sample(runs - 1)
    return Estimate(indices.mean(axis=0), error, budget // runs * runs, "shapiq/RegressionFSII")


def least_faithful(n: int) -> int:
    """As many coalitions as the quadratic model has terms, and the two ends, for every repetition."""
    return REPETITIONS * (n * (n + 1) // 2 + 2)


def released_pairs(n_visual: int, n_text: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """What the public code of MultiSHAP computes: players are whole numbers; number k is patch k and word k at once.

    Delta = v(S+p+t) - v(S+p) - v(S+t) + v(S) over sets S of numbers, sizes drawn evenly; with p = t it is
    v(S) - v(S+p). All pairs share each drawn set, which changes the noise, not the expectation.
    """
    m = max(n_visual, n_text)
    number = np.eye(m, dtype=np.bool_)
    both = (number[:n_visual, None] | number[None, :n_text]).reshape(-1, m)
    flips = np.concatenate([np.zeros((1, m), dtype=np.bool_), number, both])
    draws = budget // len(flips)
    sizes = rng.integers(0, m + 1, (draws, 1))
    drawn: Keep = np.argsort(np.argsort(rng.random((draws, m)), axis=1), axis=1) < sizes
    keep = (drawn[:, None] ^ flips).reshape(-1, m)
    values = yield np.concatenate([keep[:, :n_visual], keep[:, :n_text]], axis=1)
    values = values.reshape(draws, -1)
    sign = np.where(drawn, -1.0, 1.0)
    alone, single, paired = values[:, :1, None], values[:, 1 : m + 1], values[:, m + 1 :].reshape(-1, n_visual, n_text)
    delta = paired - single[:, :n_visual, None] - single[:, None, :n_text] + alone
    delta *= sign[:, :n_visual, None] * sign[:, None, :n_text]
    same = np.arange(min(n_visual, n_text))
    delta[:, same, same] = (sign * (values[:, :1] - single))[:, same]
    error = delta.std(axis=0, ddof=1) / np.sqrt(draws) * small_sample(draws - 1)
    return Estimate(delta.mean(axis=0), error, values.size, "released")


def least_released(n_visual: int, n_text: int) -> int:
    """Two drawn sets, each with every number and every pair switched over."""
    return 2 * (1 + max(n_visual, n_text) + n_visual * n_text)

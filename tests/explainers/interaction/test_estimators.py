"""Estimators of pair interactions: exact on small games, convergent on larger ones, error bars that cover."""

from __future__ import annotations

import numpy as np
import pytest
import shapiq
from hypothesis import given, settings
from hypothesis import strategies as st
from known_games import covered, game_of, squashed_pairs, squashed_sum

from karat.explainers.interaction.estimators import (
    banzhaf_pairs,
    faith_shap,
    least_regressed,
    pair_regression,
    released_pairs,
    switched,
)
from karat.probe import Estimate, Evaluator, Game
from karat.probe.exact import coalitions, shapley_interactions, shapley_values


def regressed(game: Game, budget: int, seed: int) -> Estimate:
    evaluator = Evaluator.of(game, budget=budget)
    question = pair_regression(game.n_visual, game.n_text, budget, np.random.default_rng(seed))
    [estimate] = evaluator.run([(0, question)])
    assert estimate.passes == evaluator.passes.made <= budget
    return estimate


@pytest.mark.parametrize("n", range(4, 13))
def test_with_all_coalitions_the_regression_is_the_exact_index(n: int) -> None:
    values = np.random.default_rng(n).normal(size=2**n)  # no structure whatever
    truth = shapley_interactions(values)[: n // 2, n // 2 :]
    estimate = regressed(game_of(values, n // 2), 2**n, seed=0)
    np.testing.assert_allclose(estimate.values, truth, atol=1e-8)
    assert estimate.standard_error.max() < 1e-8


@pytest.mark.parametrize(("n", "n_visual", "budget"), [(11, 6, 600), (13, 9, 1200)])
def test_sampled_it_converges_and_its_error_bars_cover(n: int, n_visual: int, budget: int) -> None:
    values = squashed_pairs(n)
    truth, game = shapley_interactions(values)[:n_visual, n_visual:], game_of(values, n_visual)
    runs = [regressed(game, budget, seed) for seed in range(40)]
    z = np.stack([(run.values - truth) / run.standard_error for run in runs])
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99
    more = (
        [regressed(game, 3 * budget, seed) for seed in range(10)] if 3 * budget < 2**n else [regressed(game, 2**n, 0)]
    )
    error, less = (np.mean([((run.values - truth) ** 2).mean() for run in some]) for some in (runs, more))
    assert less < error / 2.5


@pytest.mark.parametrize(("budget", "contexts"), [(200, 4), (600, 14), (1500, 35)])
def test_switching_is_right_on_average_and_its_error_bars_cover(budget: int, contexts: int) -> None:
    values = squashed_pairs(11)
    truth, game = shapley_interactions(values)[:6, 6:], game_of(values, 6)
    runs = []
    for seed in range(150):
        evaluator = Evaluator.of(game, budget=budget)
        [estimate] = evaluator.run([(0, switched(6, 5, budget, np.random.default_rng(seed)))])
        assert evaluator.passes.made <= estimate.passes <= budget
        assert estimate.passes >= contexts * 42 or budget > 16 * 42
        runs.append(estimate)
    z = np.stack([(run.values - truth) / run.standard_error for run in runs])
    assert 0.88 < (np.abs(z) < 1.96).mean() <= 0.99
    mean, spread = (
        (np.stack([run.values for run in runs]) - truth).mean(axis=0),
        np.std([r.values for r in runs], axis=0),
    )
    assert (np.abs(mean) / (spread / np.sqrt(150))).max() < 4.5


def test_a_quadratic_game_needs_few_coalitions() -> None:
    """36 patches and 12 words: 432 pairs from 2,000 coalitions."""
    rng = np.random.default_rng(0)
    across, main = rng.normal(size=(36, 12)), rng.normal(size=48)

    def value(visual: np.ndarray, text: np.ndarray) -> np.ndarray:
        joint = np.concatenate([visual, text], axis=1)
        return joint @ main + np.einsum("mi,ij,mj->m", visual, across, text)

    estimate = regressed(Game(value, 36, 12), 2000, seed=1)
    np.testing.assert_allclose(estimate.values, across, atol=1e-6)


@given(r=st.integers(1, 6), c=st.integers(1, 5), extra=st.integers(0, 100), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_sums_of_the_two_sides_have_no_interaction(r: int, c: int, extra: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inside, w = rng.normal(size=(r, r)), rng.normal(size=c)
    game = Game(lambda v, t: np.tanh(np.einsum("mi,ij,mj->m", v, inside, v)) + np.cos(t @ w), r, c)
    budget = max(least_regressed(r, c) + extra, 4)
    if 2 ** (r + c) <= budget:
        np.testing.assert_allclose(regressed(game, 2 ** (r + c), seed).values, 0, atol=1e-9)
    else:
        estimate = regressed(game, budget, seed)
        assert (np.abs(estimate.values) <= 6 * estimate.standard_error + 1e-9).mean() > 0.9


def test_released_joins_patch_k_and_word_k() -> None:
    """Its expectation: the index of the merged game, and on the diagonal minus the Shapley value of number k."""
    values = squashed_pairs(7, seed=3)
    game = game_of(values, 4)  # 4 patches, 3 words: numbers 0 to 3
    keep = coalitions(4)
    merged = game.value(keep, keep[:, :3])
    truth = shapley_interactions(merged)[:, :3].copy()
    truth[np.arange(3), np.arange(3)] = -shapley_values(merged)[:3]
    evaluator = Evaluator.of(game)
    [estimate] = evaluator.run([(0, released_pairs(4, 3, 200_000, np.random.default_rng(0)))])
    assert estimate.passes <= 200_000
    np.testing.assert_allclose(estimate.values, truth, atol=5 * estimate.standard_error.max())
    assert estimate.standard_error.max() < 0.01
    assert not np.allclose(estimate.values, shapley_interactions(values)[:4, 4:], atol=0.05)


def test_faith_shap_and_banzhaf_equal_shapiqs_exact_values() -> None:
    values = squashed_pairs(8, seed=2)
    game, powers = game_of(values, 5), 1 << np.arange(8)
    computer = shapiq.ExactComputer(lambda keep: values[np.atleast_2d(keep).astype(bool) @ powers], n_players=8)
    faithful, banzhaf = computer("FSII", order=2), computer("BII", order=2)
    ours = faith_shap(game, 256, np.random.default_rng(0))
    [weighted] = Evaluator.of(game).run(
        [(0, banzhaf_pairs(game.n_visual, game.n_text, 256, 0.5, np.random.default_rng(0)))]
    )
    for i in range(5):
        for j in range(5, 8):
            assert ours.values[i, j - 5] == pytest.approx(faithful[(i, j)], abs=1e-6)
            assert weighted.values[i, j - 5] == pytest.approx(banzhaf[(i, j)], abs=1e-10)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_weighted_banzhaf_equals_its_definition(share: float) -> None:
    values = squashed_pairs(7, seed=4)
    game = game_of(values, 4)
    [exact] = Evaluator.of(game).run(
        [(0, banzhaf_pairs(game.n_visual, game.n_text, 128, share, np.random.default_rng(0)))]
    )
    rest = coalitions(5)
    for i in range(4):
        for j in range(4, 7):
            others = [k for k in range(7) if k not in (i, j)]
            total = 0.0
            for row in rest:
                base = sum(1 << k for k, kept in zip(others, row, strict=True) if kept)
                delta = values[base | 1 << i | 1 << j] - values[base | 1 << i] - values[base | 1 << j] + values[base]
                total += share ** row.sum() * (1 - share) ** (5 - row.sum()) * delta
            assert exact.values[i, j - 4] == pytest.approx(total, abs=1e-10)
    runs = [
        Evaluator.of(game).run([(0, banzhaf_pairs(4, 3, 100, share, np.random.default_rng(seed)))])[0]
        for seed in range(60)
    ]
    z = np.stack([(run.values - exact.values) / run.standard_error for run in runs])
    assert 0.90 < (np.abs(z) < 1.96).mean() <= 0.99


def test_error_bars_of_faith_shap_cover() -> None:
    values = squashed_sum(8)
    game = game_of(values, 5)
    truth = faith_shap(game, 2**8, np.random.default_rng(0)).values
    runs = [faith_shap(game, 180, np.random.default_rng(seed)) for seed in range(60)]
    assert all(run.passes <= 180 for run in runs)
    share = covered(np.stack([r.values for r in runs]), np.stack([r.standard_error for r in runs]), truth)
    assert 0.88 < share < 0.995

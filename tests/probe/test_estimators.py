"""Estimators: right on average, honest about their error, never one pass over budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe_worlds import game_of, noise, saturated

from karat.probe import BudgetExceeded, Estimate, Evaluator, Game, interaction_index, interaction_matrix, shapley
from karat.probe.estimators import least_permutation, least_regression, permutation
from karat.probe.exact import shapley_interactions, shapley_values
from karat.probe.games import small_sample

OWN = ("permutation", "stratified", "kernelshap", "regression")


def scores(run: Callable[[int], Estimate], truth: np.ndarray, seeds: int) -> np.ndarray:
    """(estimate - truth) / standard error, (seeds, values)."""
    results = [run(seed) for seed in range(seeds)]
    return np.stack([(r.values - truth).ravel() / r.standard_error.ravel() for r in results])


@pytest.mark.parametrize("method", OWN)
@pytest.mark.parametrize(("table", "n", "budget"), [(saturated, 13, 400), (saturated, 12, 1500), (noise, 11, 600)])
def test_intervals_cover(method: str, table: Callable[[int], np.ndarray], n: int, budget: int) -> None:
    game, truth = game_of(table(n)), shapley_values(table(n))
    z = scores(lambda seed: shapley(game, budget, method, seed), truth, 60)
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99
    assert np.abs(z.mean(axis=0)).max() < 4.5 / np.sqrt(60)  # no player is off on average


@pytest.mark.parametrize(("budget", "pairs"), [(160, 1), (1600, 1), (2000, 30)])
def test_interaction_intervals_cover(budget: int, pairs: int) -> None:
    game, matrix = game_of(saturated(11), 6), shapley_interactions(saturated(11))
    if pairs == 1:
        z = scores(lambda seed: interaction_index(game, 2, 5, budget, "toggled", seed), matrix[2, 5], 400)
    else:
        z = scores(lambda seed: interaction_matrix(game, budget=budget, method="toggled", rng=seed), matrix[:6, 6:], 60)
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99
    assert np.abs(z.mean(axis=0)).max() < 4.5 / np.sqrt(len(z))


@pytest.mark.parametrize("method", OWN)
def test_error_falls_to_nothing(method: str) -> None:
    game, truth = game_of(saturated(10)), shapley_values(saturated(10))
    coarse, fine = (
        shapley_estimate(game, method, budget) for budget in (100, 1022 if method != "permutation" else 9000)
    )
    assert np.abs(fine.values - truth).max() < 5 * fine.standard_error.max() + 1e-12
    assert fine.standard_error.max() < 0.25 * coarse.standard_error.max()


def shapley_estimate(game: Game, method: str, budget: int) -> Estimate:
    return shapley(game, budget, method, rng=3)


@pytest.mark.parametrize("n", range(2, 10))
@pytest.mark.parametrize("method", OWN[1:])
def test_with_all_coalitions_they_are_exact(method: str, n: int) -> None:
    result = shapley(game_of(noise(n)), 2**n, method)
    np.testing.assert_allclose(result.values, shapley_values(noise(n)), atol=1e-10)
    assert result.standard_error.max() == 0
    assert result.passes == 2**n


@pytest.mark.parametrize("method", OWN)
def test_one_player(method: str) -> None:
    assert shapley(Game(lambda v, t: 3.0 * v[:, 0] + 1, 1), 20, method).values.tolist() == [3.0]


@pytest.mark.parametrize("method", OWN)
@given(n=st.integers(5, 30), extra=st.integers(0, 200), seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_efficiency_and_budget(method: str, n: int, extra: int, seed: int) -> None:
    w = np.linspace(-1, 1, n)
    distinct: set[bytes] = set()
    rows = 0

    def value(visual: np.ndarray, _: np.ndarray) -> np.ndarray:
        nonlocal rows
        rows += len(visual)
        distinct.update(row.tobytes() for row in visual)
        return np.tanh(visual @ w + visual[:, 0] * visual[:, -1])

    budget = (least_permutation(n) if method == "permutation" else least_regression(n)) + extra
    result = shapley(Game(value, n), budget, method, seed)
    assert rows == len(distinct) == result.passes <= budget
    if method == "permutation":
        units = (budget - 2) // (2 * (n - 1))
        assert result.passes <= 2 + units * 2 * (n - 1)
    else:
        assert result.passes == min(budget - budget % 2, 2**n)
    if method != "stratified":  # which is efficient on average only
        assert result.values.sum() == pytest.approx(np.tanh(w.sum() + 1) - 0, abs=1e-9)


@pytest.mark.parametrize("method", OWN)
def test_a_linear_game_is_solved_at_once(method: str) -> None:
    w = np.random.default_rng(0).normal(size=17)
    result = shapley(Game(lambda v, t: v @ w + 5, 17), 200, method)
    if method == "stratified":
        assert np.abs(result.values - w).max() < 4 * result.standard_error.max()
    else:
        np.testing.assert_allclose(result.values, w, atol=1e-9)
        np.testing.assert_allclose(result.standard_error, 0, atol=1e-9)


@pytest.mark.parametrize("method", ["permutation", "kernelshap", "regression"])
def test_complements_cancel_every_pairwise_interaction(method: str) -> None:
    a = np.random.default_rng(0).normal(size=(17, 17))
    result = shapley(Game(lambda v, t: np.einsum("mi,ij,mj->m", v, a, v), 17), 200, method)
    np.testing.assert_allclose(result.values, (a.sum(0) + a.sum(1)) / 2, atol=1e-9)


def test_regression_fits_triples_of_the_leading_players() -> None:
    """One triple of strong players on top of an additive game: exact for `regression`, not for `kernelshap`."""
    w = np.where(np.arange(20) < 3, 4.0, 0.1)
    game = Game(lambda v, t: v @ w + 6.0 * v[:, 0] * v[:, 1] * v[:, 2], 20)
    truth = w + np.where(np.arange(20) < 3, 2.0, 0.0)
    fitted, additive = shapley(game, 400, "regression"), shapley(game, 400, "kernelshap")
    np.testing.assert_allclose(fitted.values, truth, atol=1e-9)
    assert np.abs(additive.values - truth).max() > 1e-3


def test_regression_fits_contributions_that_grow_towards_both_ends() -> None:
    """y_0 u^2 on top of an additive game, u = 2 |S| / n - 1: exact for `regression`; truth by enumeration at n = 12."""
    w = np.where(np.arange(12) < 1, 4.0, 0.1)

    def value(v: np.ndarray, _: np.ndarray) -> np.ndarray:
        return v @ w + np.where(v[:, 0], 1.0, -1.0) * (2 * v.mean(axis=1) - 1) ** 2

    truth = shapley(Game(value, 12), method="exact").values
    np.testing.assert_allclose(shapley(Game(value, 12), 200, "regression").values, truth, atol=1e-9)
    assert np.abs(shapley(Game(value, 12), 200, "kernelshap").values - truth).max() > 1e-3


def test_plain_permutation_sampling_is_the_literal_thing() -> None:
    n, rng = 6, np.random.default_rng(4)
    orders = np.argsort(np.random.default_rng(4).random((5, n)), axis=1)
    [result] = Evaluator.of(game_of(noise(n))).run([(0, permutation(n, 2 + 5 * (n - 1), rng, antithetic=False))])
    twin = np.zeros((5, n))
    for row, order in zip(twin, orders, strict=True):
        index = 0
        for player in order:
            row[player] = noise(n)[index | 1 << player] - noise(n)[index]
            index |= 1 << player
    np.testing.assert_allclose(result.values, twin.mean(0), atol=1e-12)
    np.testing.assert_allclose(result.standard_error, twin.std(0, ddof=1) / np.sqrt(5) * small_sample(4), atol=1e-12)


def test_budget_guards_even_a_careless_question() -> None:
    game = game_of(saturated(9))
    with pytest.raises(BudgetExceeded):
        Evaluator.of(game, budget=100).run([(0, permutation(9, 400, np.random.default_rng(0)))])

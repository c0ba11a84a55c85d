"""Estimators: right on average, honest about their error, never one pass over budget."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import cache
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.kernel.errors import BadInput, ExtraMissing, UnknownName
from karat.probe import BudgetExceeded, Estimate, Evaluator, Game, interaction_index, interaction_matrix, shapley
from karat.probe.estimators import least_permutation, least_regression, permutation
from karat.probe.exact import coalitions, shapley_interactions, shapley_values
from karat.probe.games import small_sample
from karat.probe.sampling import allocate, draw, populations

OWN = ("permutation", "stratified", "kernelshap", "regression")


@cache
def saturated(n: int) -> np.ndarray:
    """A few strong players behind a squashing function, as a classifier has them; interactions of every order."""
    rng = np.random.default_rng(5)
    w = rng.normal(size=n) * np.where(np.arange(n) < 4, 2.0, 0.3)
    keep = coalitions(n)
    return np.asarray(1 / (1 + np.exp(1 - keep @ w - 1.5 * keep[:, 0] * keep[:, 1] + 2 * keep[:, 2] * keep[:, 5])))


@cache
def noise(n: int) -> np.ndarray:
    """No structure whatever: the worst that can come."""
    return np.random.default_rng(6).normal(size=2**n)


def game_of(values: np.ndarray, n_visual: int | None = None) -> Game:
    n = len(values).bit_length() - 1
    n_visual = n if n_visual is None else n_visual
    powers = 1 << np.arange(n)
    return Game(lambda v, t: values[np.concatenate([v, t], axis=1) @ powers], n_visual, n - n_visual)


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
    seen: set[bytes] = set()
    rows = 0

    def value(visual: np.ndarray, _: np.ndarray) -> np.ndarray:
        nonlocal rows
        rows += len(visual)
        seen.update(row.tobytes() for row in visual)
        return np.tanh(visual @ w + visual[:, 0] * visual[:, -1])

    budget = (least_permutation(n) if method == "permutation" else least_regression(n)) + extra
    result = shapley(Game(value, n), budget, method, seed)
    assert rows == len(seen) == result.passes <= budget
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


def test_auto_chooses_by_budget() -> None:
    game = Game(lambda v, t: np.sqrt(v.sum(1)), 25)
    assert shapley(game, 400).method == "regression"
    assert shapley(game, 151).method == "permutation"
    assert shapley(Game(game.function, 8), 256).method == "exact"
    assert shapley(Game(game.function, 8), 255).method == "regression"
    with pytest.raises(BadInput, match="needs a budget of 146; got 100"):
        shapley(game, 100)
    with pytest.raises(BadInput, match="need a budget of 152 for this method; got 151"):
        shapley(game, 151, "stratified")
    with pytest.raises(BadInput, match="1 x 1 interactions need a budget of 64; got 63"):
        interaction_index(game, 0, 1, 63)
    with pytest.raises(UnknownName, match="regression"):
        shapley(game, 400, "regresion")


def test_same_seed_same_numbers_whatever_the_batch() -> None:
    game = game_of(saturated(13))
    first, second, other = (shapley(game, 400, rng=r, batch_size=b) for r, b in ((1, 64), (1, 7), (2, 64)))
    assert np.array_equal(first.values, second.values)
    assert not np.array_equal(first.values, other.values)


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


@given(n=st.integers(2, 40), extra=st.integers(0, 500), seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_strata_hold_distinct_pairs_of_their_size(n: int, extra: int, seed: int) -> None:
    pairs = 3 * n + extra
    strata = draw(n, pairs, np.random.default_rng(seed))
    assert [s.size for s in strata] == list(range(1, n // 2 + 1))
    assert sum(len(s.keep) for s in strata) == min(pairs, sum(populations(n)))
    for s in strata:
        assert (s.keep.sum(1) == s.size).all()
        both = np.concatenate([s.keep, ~s.keep])
        assert len(np.unique(both, axis=0)) == len(both)
        assert min(2, s.population) <= len(s.keep) <= s.population
        assert s.population == comb(n, s.size) // (2 if 2 * s.size == n else 1)


def test_allocation_fills_small_strata_and_shares_the_rest() -> None:
    assert allocate(np.array([1.0, 1.0, 2.0]), [5, 8, 1000], 44).tolist() == [5, 8, 31]
    assert allocate(np.array([1.0, 1.0, 2.0]), [5, 100, 1000], 35).tolist() == [5, 10, 20]
    assert allocate(np.array([1.0, 1e-9, 1.0]), [5, 100, 1000], 35).tolist() == [5, 2, 28]


@pytest.mark.parametrize("name", ["SVARM", "KernelSHAP", "PermutationSamplingSV", "UnbiasedKernelSHAP"])
def test_shapley_values_through_shapiq(name: str) -> None:
    pytest.importorskip("shapiq")
    game, truth = game_of(saturated(9)), shapley_values(saturated(9))
    z = scores(lambda seed: shapley(game, 6 * 300, f"shapiq/{name}", seed), truth, 8)
    assert (np.abs(z) < 1.96).mean() > 0.88
    result = shapley(game, 600, f"shapiq/{name}")
    assert result.passes <= 600
    assert result.method == f"shapiq/{name}"


def test_interactions_through_shapiq() -> None:
    pytest.importorskip("shapiq")
    game, matrix = game_of(saturated(9), 5), shapley_interactions(saturated(9))
    result = interaction_matrix(game, budget=6 * 300, method="shapiq/SVARMIQ", rng=1)
    assert np.abs(result.values - matrix[:5, 5:]).max() < 0.1 * np.abs(matrix).max()
    one = interaction_index(game, 0, 7, budget=6 * 300, method="shapiq/SVARMIQ", rng=1)
    assert float(one) == result.values[0, 2]


def test_shapiq_unknown_name_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("shapiq")
    game = game_of(saturated(9))
    with pytest.raises(UnknownName, match="SVARM"):
        shapley(game, 400, "shapiq/SVRM")
    original = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "shapiq":
            raise ImportError(name)
        return original(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ExtraMissing, match="pip install 'karat\\[shapley\\]'"):
        shapley(game, 400, "shapiq/SVARM")


def test_budget_guards_even_a_careless_question() -> None:
    game = game_of(saturated(9))
    with pytest.raises(BudgetExceeded):
        Evaluator.of(game, budget=100).run([(0, permutation(9, 400, np.random.default_rng(0)))])

"""Exact values against literal twins, closed forms and shapiq."""

from __future__ import annotations

from itertools import combinations, permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from probe_worlds import game_of

from karat.kernel.errors import BadInput
from karat.probe import interaction_index, shapley
from karat.probe.exact import (
    banzhaf_values,
    mobius,
    shapley_interaction,
    shapley_interactions,
    shapley_values,
    table,
    zeta,
)


@st.composite
def tables(draw: st.DrawFn, least: int = 1, most: int = 6) -> np.ndarray:
    n = draw(st.integers(least, most))
    return draw(arrays(np.float64, 2**n, elements=st.floats(-100, 100)))


def players(values: np.ndarray) -> int:
    return len(values).bit_length() - 1


def at(values: np.ndarray, coalition: tuple[int, ...]) -> float:
    return float(values[sum(1 << i for i in coalition)])


def subsets(items: list[int]) -> list[tuple[int, ...]]:
    return [subset for size in range(len(items) + 1) for subset in combinations(items, size)]


@given(tables(most=5))
@settings(max_examples=25, deadline=None)
def test_shapley_is_the_mean_over_all_orders(values: np.ndarray) -> None:
    n = players(values)
    twin = np.zeros(n)
    for order in permutations(range(n)):
        for position, player in enumerate(order):
            twin[player] += at(values, order[: position + 1]) - at(values, order[:position])
    np.testing.assert_allclose(shapley_values(values), twin / factorial(n), atol=1e-10)


@given(tables())
@settings(max_examples=25, deadline=None)
def test_dividends_and_banzhaf_from_their_definitions(values: np.ndarray) -> None:
    n = players(values)
    everyone = list(range(n))
    dividends = mobius(values)
    for coalition in subsets(everyone):
        twin = sum((-1) ** (len(coalition) - len(inner)) * at(values, inner) for inner in subsets(list(coalition)))
        assert at(dividends, coalition) == pytest.approx(twin, abs=1e-9)
    np.testing.assert_allclose(zeta(dividends), values, atol=1e-9)
    for i, value in enumerate(banzhaf_values(values)):
        others = [k for k in everyone if k != i]
        twin = np.mean([at(values, (*s, i)) - at(values, s) for s in subsets(others)])
        assert value == pytest.approx(twin, abs=1e-10)


@given(tables(least=2))
@settings(max_examples=25, deadline=None)
def test_interaction_index_from_its_definition(values: np.ndarray) -> None:
    n = players(values)
    matrix = shapley_interactions(values)
    for i, j in combinations(range(n), 2):
        others = [k for k in range(n) if k not in (i, j)]
        twin = sum(
            factorial(len(s)) * factorial(n - len(s) - 2) / factorial(n - 1)
            * (at(values, (*s, i, j)) - at(values, (*s, i)) - at(values, (*s, j)) + at(values, s))
            for s in subsets(others)
        )  # fmt: skip
        assert shapley_interaction(values, i, j) == pytest.approx(twin, abs=1e-9)
        assert shapley_interaction(values, j, i) == pytest.approx(twin, abs=1e-9)
        assert matrix[i, j] == matrix[j, i] == pytest.approx(twin, abs=1e-9)


@given(tables())
@settings(max_examples=40, deadline=None)
def test_efficiency(values: np.ndarray) -> None:
    assert shapley_values(values).sum() == pytest.approx(values[-1] - values[0], abs=1e-9)


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_symmetry_renaming_players_renames_their_values(values: np.ndarray, random: object) -> None:
    n = players(values)
    new = list(range(n))
    random.shuffle(new)  # type: ignore[attr-defined]
    renamed = np.empty_like(values)
    for coalition in subsets(list(range(n))):
        renamed[sum(1 << new[i] for i in coalition)] = at(values, coalition)
    np.testing.assert_allclose(shapley_values(renamed)[new], shapley_values(values), atol=1e-10)
    np.testing.assert_allclose(banzhaf_values(renamed)[new], banzhaf_values(values), atol=1e-10)
    if n > 1:
        moved = shapley_interactions(renamed)[np.ix_(new, new)]
        np.testing.assert_allclose(moved, shapley_interactions(values), atol=1e-9)


@given(tables(most=5), st.floats(-10, 10))
@settings(max_examples=40, deadline=None)
def test_dummy_gets_its_own_worth_and_interacts_with_nobody(values: np.ndarray, worth: float) -> None:
    larger = np.concatenate([values, values + worth])  # the new last player adds `worth` to every coalition
    assert shapley_values(larger)[-1] == pytest.approx(worth, abs=1e-9)
    assert banzhaf_values(larger)[-1] == pytest.approx(worth, abs=1e-9)
    np.testing.assert_allclose(shapley_interactions(larger)[-1], 0, atol=1e-9)
    np.testing.assert_allclose(shapley_values(larger)[:-1], shapley_values(values), atol=1e-9)


@given(tables(least=4, most=4), tables(least=4, most=4), st.floats(-3, 3))
@settings(max_examples=25, deadline=None)
def test_linearity(first: np.ndarray, second: np.ndarray, factor: float) -> None:
    for index in (shapley_values, banzhaf_values, mobius, shapley_interactions):
        np.testing.assert_allclose(index(first + factor * second), index(first) + factor * index(second), atol=1e-8)


@pytest.mark.parametrize("n", [2, 8, 16])
def test_closed_form_of_unanimity(n: int) -> None:
    """The unanimity game of T: a dividend of 1 at T, shared by its members; I_ij = 1/(|T|-1) for pairs inside T."""
    members = list(range(0, n, 2)) if n > 2 else [0, 1]
    dividends = np.zeros(2**n)
    dividends[sum(1 << i for i in members)] = 1
    values = zeta(dividends)
    expected = np.zeros(n)
    expected[members] = 1 / len(members)
    np.testing.assert_allclose(shapley_values(values), expected, atol=1e-12)
    np.testing.assert_allclose(banzhaf_values(values), expected * len(members) / 2 ** (len(members) - 1), atol=1e-12)
    matrix = np.zeros((n, n))
    matrix[np.ix_(members, members)] = 1 / (len(members) - 1)
    np.fill_diagonal(matrix, 0)
    np.testing.assert_allclose(shapley_interactions(values), matrix, atol=1e-12)


def test_twenty_players_keep_their_digits() -> None:
    """v = (sum of the weights kept)^2 has phi_i = w_i sum(w) and I_ij = 2 w_i w_j, whatever n is."""
    w = np.random.default_rng(0).uniform(-1, 1, 20)
    sums = np.zeros(1)
    for weight in w:
        sums = np.concatenate([sums, sums + weight])
    values = sums**2
    np.testing.assert_allclose(shapley_values(values), w * w.sum(), atol=1e-12)
    matrix = 2 * np.outer(w, w)
    assert shapley_interaction(values, 3, 17) == pytest.approx(matrix[3, 17], abs=1e-12)
    np.fill_diagonal(matrix, 0)
    np.testing.assert_allclose(shapley_interactions(values), matrix, atol=1e-11)


def test_equal_to_shapiq() -> None:
    shapiq = pytest.importorskip("shapiq")
    n = 8
    values = np.random.default_rng(2).normal(size=2**n)
    game = game_of(values, 1)
    exact = shapiq.ExactComputer(lambda keep: game.value(np.atleast_2d(keep).astype(bool)), n)
    sv, sii = exact("SV", 1), exact("SII", 2)
    np.testing.assert_allclose(shapley(game), [sv[(i,)] for i in range(n)], atol=1e-10)
    matrix = shapley_interactions(values)
    for i, j in combinations(range(n), 2):
        assert matrix[i, j] == pytest.approx(sii[(i, j)], abs=1e-10)
    assert float(interaction_index(game, 0, 1)) == pytest.approx(sii[(0, 1)], abs=1e-10)


def test_what_is_refused() -> None:
    with pytest.raises(BadInput, match="two different players of 0 to 1"):
        shapley_interaction(np.zeros(4), 1, 1)
    with pytest.raises(BadInput, match="2\\^n values"):
        shapley_values(np.zeros(6))
    with pytest.raises(BadInput, match="2\\^21"):
        next(table(21))

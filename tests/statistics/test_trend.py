from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import jonckheere, page


def slow_jonckheere(values: np.ndarray, order: np.ndarray) -> float:
    total = 0.0
    for i in range(len(values)):
        for j in range(len(values)):
            if order[i] < order[j]:
                total += (values[i] < values[j]) + 0.5 * (values[i] == values[j])
    return total


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_jonckheere_counts_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, values = rng.integers(1, 5, size=25), rng.integers(0, 6, size=25)
    trend = jonckheere(values, order)
    assert trend.statistic == slow_jonckheere(values, order)


@pytest.mark.parametrize("ties", [False, True])
def test_jonckheere_z_is_standard_under_permutation(ties: bool) -> None:
    rng = np.random.default_rng(0)
    order = np.repeat([1, 2, 3, 4], [5, 9, 7, 6])
    values = rng.integers(0, 4, size=27).astype(float) if ties else rng.normal(size=27)
    z = np.array([jonckheere(rng.permutation(values), order).z for _ in range(3000)])
    assert z.mean() == pytest.approx(0, abs=0.06)
    assert z.std() == pytest.approx(1, abs=0.04)


def test_jonckheere_directions() -> None:
    values, order = [1.0, 2, 3, 4, 5, 6, np.nan], [1, 1, 2, 2, 3, 3, 1]
    up = jonckheere(values, order)
    assert (up.strength, up.n, up.n_dropped) == (1, 6, 1)
    down = jonckheere(values, order, "decreasing")
    assert up.p + down.p == pytest.approx(1)
    assert jonckheere(values, order, "two-sided").p == pytest.approx(2 * up.p)
    assert np.isnan(jonckheere([1, 2], [1, 1]).p)
    assert np.isnan(jonckheere([2, 2, 2], [1, 2, 3]).z)


def test_page_is_scipys() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(14, 4)) + 0.3 * np.arange(4)
    trend = page(table)
    theirs = stats.page_trend_test(table, method="exact")
    assert trend.statistic == pytest.approx(theirs.statistic)
    assert trend.p == pytest.approx(theirs.pvalue)
    wide = rng.normal(size=(5, 8))
    assert page(wide).p == pytest.approx(stats.page_trend_test(wide, method="asymptotic").pvalue)


def test_page_of_very_many_blocks_is_normal() -> None:
    table = np.random.default_rng(5).normal(size=(1001, 3))
    trend = page(table, "two-sided")
    assert trend.p == pytest.approx(2 * stats.norm.sf(abs(trend.z)))
    assert page(table[:1000], "two-sided").p == pytest.approx(page(table, "two-sided").p, abs=0.1)


def test_page_of_two_conditions_is_the_sign_test() -> None:
    table = np.array([[0.0, 1.0]] * 7 + [[1.0, 0.0]])
    assert page(table, "two-sided").p == pytest.approx(stats.binomtest(7, 8).pvalue)
    assert page(table, "increasing").p == pytest.approx(stats.binomtest(7, 8, alternative="greater").pvalue)
    assert page(table, "decreasing").p == pytest.approx(stats.binomtest(7, 8, alternative="less").pvalue)


def test_page_with_ties_counts_every_order() -> None:
    """Against plain enumeration of all orders of all blocks."""
    table = np.array([[1.0, 1.0, 2.0], [3.0, 1.0, 2.0], [0.0, 5.0, 5.0]])
    ranks = stats.rankdata(table, axis=1)
    every = [sum(np.dot(block, (1, 2, 3)) for block in chosen) for chosen in product(*map(permutations, ranks))]
    observed = float((ranks @ (1, 2, 3)).sum())
    middle = np.mean(every)
    assert page(table, "increasing").p == pytest.approx(np.mean(np.array(every) >= observed - 1e-9))
    assert page(table, "two-sided").p == pytest.approx(
        np.mean(np.abs(np.array(every) - middle) >= abs(observed - middle) - 1e-9)
    )


def test_page_with_ties_is_standard_under_permutation() -> None:
    rng = np.random.default_rng(2)
    table = rng.integers(0, 3, size=(12, 5)).astype(float)
    z = np.array([page(rng.permuted(table, axis=1)).z for _ in range(3000)])
    assert z.mean() == pytest.approx(0, abs=0.06)
    assert z.std() == pytest.approx(1, abs=0.04)


def test_page_ends() -> None:
    assert page([[1, 2, 3], [4, 5, 6], [np.nan, 1, 2]]).strength == 1
    assert page([[1, 2, 3], [4, 5, 6], [np.nan, 1, 2]]).n_dropped == 1
    assert page([[3, 2, 1]]).strength == -1
    assert np.isnan(page([[1, 1, 1]]).p)
    with pytest.raises(BadInput, match="at least two conditions"):
        page([[1.0]])

"""p-values of sign flips against all patterns, and the law that a test can fire at any number of comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from karat.statistics import adjust, bootstrap_mean, paired_difference, sign_flip_test
from karat.statistics.sign_flips import EXACT, sign_flip_p, upper_tail


def literal(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """All patterns, one after the other."""
    sums = np.zeros(1)
    for value in np.abs(values):
        sums = np.concatenate([sums + value, sums - value])
    return float((np.abs(sums) >= abs(values.sum()) - 1e-12 * np.abs(values).sum()).mean())


@pytest.mark.parametrize("n", [15, 18, 20])
@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0, 2.0])
def test_the_saddlepoint_is_near_the_count_of_all_patterns(n: int, shift: float) -> None:
    for seed in range(5):
        values = np.random.default_rng(seed).normal(shift, 1.0, n)
        exact, quick = literal(values), sign_flip_p(values)
        assert n > EXACT
        assert quick == pytest.approx(exact, rel=0.12, abs=2.0 ** (2 - n))


def test_few_values_are_counted_and_the_extreme_pattern_is_exact() -> None:
    values = np.random.default_rng(0).normal(0.4, 1, 10)
    assert sign_flip_p(values) == literal(values)
    assert sign_flip_p(np.arange(1.0, 26.0)) == 2.0**-24
    assert sign_flip_p(np.zeros(30)) == 1.0
    assert upper_tail(np.arange(1.0, 31.0), -465.0) == pytest.approx(1.0)


def test_p_is_uniform_under_no_difference() -> None:
    p = [sign_flip_p(np.random.default_rng(seed).normal(size=40)) for seed in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 0.01


@pytest.mark.parametrize("comparisons", [1, 288, 500, 10_000])
@pytest.mark.parametrize("n", [20, 60])
def test_a_large_effect_is_found_at_any_number_of_comparisons(comparisons: int, n: int) -> None:
    """The law: no p-value of the package has a floor that the correction lifts above the level."""
    rng = np.random.default_rng(1)
    first = rng.normal(0.9, 0.02, n)
    second = first - rng.normal(0.5, 0.05, n)
    others = rng.random(comparisons - 1)
    for p in (
        bootstrap_mean(first, rng=rng).p,
        paired_difference(first, second, rng=rng).p,
        sign_flip_test(first, second).p,
        paired_difference(first > 0, first > 9, rng=rng).p,  # of hits
        bootstrap_mean(np.repeat(first, 3), rng=rng, clusters=np.repeat(np.arange(n), 3)).p,
    ):
        assert adjust([p, *others], "holm")[0] < 0.05

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import shuffle_test, sign_flip_test


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_exact_sign_flips_are_scipys(alternative: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 1, 9), rng.normal(0, 1, 9)
    result = sign_flip_test(a, b, alternative=alternative)  # type: ignore[arg-type]
    theirs = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", alternative=alternative,
        n_resamples=np.inf,
    )  # fmt: skip
    assert result.exact
    if alternative != "two-sided":  # scipy doubles the smaller tail, which here is the same by symmetry
        assert result.p == pytest.approx(theirs.pvalue)
    assert result.p == pytest.approx(theirs.pvalue, abs=1e-12)


def test_the_saddlepoint_of_sign_flips_approach_the_t_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.15, 1, 120), rng.normal(0, 1, 120)
    result = sign_flip_test(a, b)
    assert not result.exact
    assert result.p == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=0.02)


def test_clusters_flip_together() -> None:
    """Ten rows that are two samples five times over: four labellings, the seen one and its mirror are extreme."""
    gap = np.repeat([0.4, 0.7], 5)
    result = sign_flip_test(gap, np.zeros(10), clusters=np.repeat(["x", "y"], 5))
    assert (result.p, result.exact) == (0.5, True)


def test_shuffle_is_uniform_under_the_null_and_small_when_far() -> None:
    p = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p.append(shuffle_test(rng.normal(size=15), rng.normal(size=10), rng=rng, resamples=199).p)
    assert stats.kstest(p, "uniform").pvalue > 0.01
    rng = np.random.default_rng(2)
    assert shuffle_test(rng.normal(3, 1, 30), rng.normal(0, 1, 30), rng=rng, resamples=999).p == 0.001
    assert shuffle_test([1.0], [0.0, np.nan], rng=rng, resamples=9).n_dropped == 1


def test_missing_and_bad() -> None:
    nan = np.nan
    result = sign_flip_test([1, nan, 3], [0, 0, nan])
    assert (result.n, result.n_dropped, result.p) == (1, 2, 1.0)
    assert np.isnan(sign_flip_test([nan], [1.0]).p)
    with pytest.raises(BadInput, match="alternative"):
        sign_flip_test([1.0], [0.0], alternative="bigger")  # type: ignore[arg-type]

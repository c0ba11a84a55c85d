from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import detectable_difference, paired_power, samples_to_separate, separation


def test_textbook_sample_sizes() -> None:
    """Cohen's d of .2, .5, .8 at 80 % power, two-sided .05: 199, 34 and 15 pairs."""
    assert [samples_to_separate(d, 1.0) for d in (0.2, 0.5, 0.8)] == [199, 34, 15]


def test_power_is_the_rejection_rate_of_the_t_test() -> None:
    gaps = np.random.default_rng(0).normal(0.3, 1.0, size=(4000, 50))
    rejected = (stats.ttest_1samp(gaps, 0, axis=1).pvalue < 0.05).mean()
    assert paired_power(0.3, 1.0, 50) == pytest.approx(rejected, abs=0.025)
    assert paired_power(0.0, 1.0, 50) == pytest.approx(0.05)


@pytest.mark.parametrize("comparisons", [1, 36])
@pytest.mark.parametrize("difference", [0.01, 0.03, 0.2, 1.5])
def test_needed_and_detectable_undo_each_other(difference: float, comparisons: int) -> None:
    n = samples_to_separate(difference, 0.15, comparisons=comparisons)
    assert n is not None
    assert paired_power(difference, 0.15, n, comparisons=comparisons) >= 0.8
    assert paired_power(difference, 0.15, n - 1, comparisons=comparisons) < 0.8
    assert detectable_difference(n, 0.15, comparisons=comparisons) <= difference + 1e-9


def test_ends() -> None:
    assert samples_to_separate(0.0, 1.0) is None
    assert samples_to_separate(1e-6, 1.0) is None
    assert samples_to_separate(0.1, 0.0) == 2
    assert paired_power(5.0, 0.01, 1000) == 1.0
    assert detectable_difference(10, 0.0) == 0.0
    with pytest.raises(BadInput, match="sd >= 0"):
        paired_power(1.0, -1.0, 5)


def test_separation_from_a_pilot() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=30)
    b = a - 0.2 + rng.normal(0, 0.4, 30)
    a[0] = np.nan
    plan = separation(a, b)
    gap = (a - b)[1:]
    assert (plan.n, plan.n_dropped) == (29, 1)
    assert plan.needed == samples_to_separate(gap.mean(), gap.std(ddof=1))
    assert plan.detectable == pytest.approx(detectable_difference(29, gap.std(ddof=1)))
    with pytest.raises(BadInput, match="two complete pairs"):
        separation([1.0, np.nan], [1.0, 2.0])

"""How often the second of a pair is larger."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from karat.statistics import paired_wins


def test_without_ties_it_is_the_exact_binomial_interval() -> None:
    wins = paired_wins([1.0] * 7 + [-1.0] * 3)
    exact = stats.binomtest(7, 10).proportion_ci(method="exact")
    assert (wins.value, wins.low, wins.high) == pytest.approx((0.7, exact.low, exact.high))
    assert wins.p == pytest.approx(stats.binomtest(7, 10).pvalue)


def test_ties_count_half_and_missing_pairs_are_left_out() -> None:
    wins = paired_wins([1.0, 0.0, 0.0, -1.0, np.nan])
    assert (wins.value, wins.n, wins.n_dropped, wins.p) == (0.5, 4, 1, 1.0)
    assert wins.low < 0.5 < wins.high


def test_all_and_none_have_a_bound_on_one_side() -> None:
    assert paired_wins(np.ones(20)).high == 1.0
    assert paired_wins(np.ones(20)).low == pytest.approx(0.025 ** (1 / 20))
    assert paired_wins(-np.ones(20)).low == 0.0
    assert np.isnan(paired_wins([np.nan]).value)


@pytest.mark.parametrize("ties", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("chance", [0.5, 0.7, 0.95])
def test_intervals_cover_as_often_as_they_say(chance: float, ties: float) -> None:
    rng = np.random.default_rng(0)
    for n in (12, 60):
        signs = np.where(rng.random((600, n)) < chance, 1.0, -1.0) * (rng.random((600, n)) >= ties)
        truth = ties / 2 + (1 - ties) * chance
        covered = np.mean([(wins := paired_wins(one)).low <= truth <= wins.high for one in signs])
        assert covered >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 600)

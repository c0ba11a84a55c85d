from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import bootstrap_mean, bootstrap_statistic, paired_difference, proportion
from karat.statistics.bootstrap import resample_weights


def test_weights_count_draws() -> None:
    chunks = list(resample_weights(np.random.default_rng(0), 7, 500))
    weights = np.vstack(chunks)
    assert weights.shape == (500, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert weights.var(axis=0, ddof=1) == pytest.approx(np.full(7, 6 / 7), abs=0.25)  # multinomial: 1 - 1/n


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_agrees_with_scipy(method: str) -> None:
    values = np.random.default_rng(1).exponential(size=60)
    ours = bootstrap_mean(values, rng=np.random.default_rng(2), resamples=20_000, method=method)  # type: ignore[arg-type]
    reach = stats.t.isf(0.025, 59) * np.sqrt(60 / 59) * (1 + 1 / 60)  # our percentiles lie a little further out
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method={"bca": "BCa"}.get(method, method), rng=np.random.default_rng(3),
        confidence_level=1 - 2 * stats.norm.sf(reach),
    )  # fmt: skip
    assert ours.value == values.mean()
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.03)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.03)
    assert ours.se == pytest.approx(theirs.standard_error, rel=0.03)


def test_same_seed_same_interval_other_seed_another() -> None:
    values = np.random.default_rng(4).normal(size=40)
    first, again, other = (bootstrap_mean(values, rng=np.random.default_rng(s)) for s in (5, 5, 6))
    assert first == again
    assert first.low != other.low


def test_clusters_widen_the_interval_as_they_should() -> None:
    """40 samples under 5 models with fully shared scores: the interval is that of 40 rows, not of 200."""
    base = np.random.default_rng(7).normal(size=40)
    values, sample = np.repeat(base, 5), np.repeat(np.arange(40), 5)
    clustered = bootstrap_mean(values, rng=np.random.default_rng(8), clusters=sample, resamples=4000)
    naive = bootstrap_mean(values, rng=np.random.default_rng(8), resamples=4000)
    assert clustered.se == pytest.approx(base.std() / np.sqrt(40), rel=0.05)
    assert clustered.se / naive.se == pytest.approx(np.sqrt(5), rel=0.08)


def test_statistic_with_clusters_is_the_mean_with_clusters() -> None:
    rng = np.random.default_rng(9)
    values, sample = rng.normal(size=90), rng.integers(0, 25, size=90)
    slow = bootstrap_statistic(
        values[:, None], lambda rows: float(rows.mean()), rng=np.random.default_rng(10), clusters=sample, resamples=4000
    )
    fast = bootstrap_mean(values, rng=np.random.default_rng(11), clusters=sample, resamples=4000, method="percentile")
    assert slow.value == pytest.approx(fast.value)
    assert slow.se == pytest.approx(fast.se, rel=0.06)
    assert (slow.low, slow.high) == pytest.approx((fast.low, fast.high), abs=0.03)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.floats(-5, 5), st.just(float("nan"))), min_size=1, max_size=20))
def test_missing_values_are_dropped_and_counted(values: list[float]) -> None:
    present = [v for v in values if v == v]
    estimate = bootstrap_mean(values, rng=np.random.default_rng(0), resamples=50)
    assert (estimate.n, estimate.n_dropped) == (len(present), len(values) - len(present))
    if present:
        assert estimate.value == pytest.approx(np.mean(present), abs=1e-12)
    else:
        assert np.isnan(estimate.value)
    if len(present) < 2 or (min(present) == max(present) and abs(present[0]) > 1):
        assert np.isnan(estimate.low)
    else:
        assert estimate.low <= estimate.value + 1e-9
        assert estimate.value <= estimate.high + 1e-9


def test_paired_difference_drops_incomplete_pairs() -> None:
    nan = np.nan
    estimate = paired_difference([1, 2, nan, 4], [0, nan, 1, 2], rng=np.random.default_rng(0))
    assert (estimate.value, estimate.n, estimate.n_dropped) == (1.5, 2, 2)


def test_p_of_a_difference() -> None:
    rng = np.random.default_rng(12)
    first = rng.normal(size=80)
    far = paired_difference(first, first - 1 + rng.normal(0, 0.3, 80), rng=rng)
    assert far.p < 1e-15  # no floor: see test_sign_flips
    noise = rng.normal(size=80)
    near = paired_difference(first, noise, rng=np.random.default_rng(1), resamples=20_000)
    assert near.p == pytest.approx(stats.ttest_rel(first, noise).pvalue, abs=0.02)
    assert paired_difference(first, first, rng=rng).p == 1.0


def test_what_never_varied_is_bounded_by_what_was_never_drawn() -> None:
    same = bootstrap_mean([0.5] * 9, rng=np.random.default_rng(0))
    assert same.value == 0.5
    unseen = 1 - 0.025 ** (1 / 9)
    assert (same.low, same.high) == pytest.approx((0.5 - 1.5 * unseen, 0.5 + 0.5 * unseen))
    assert np.isnan(bootstrap_mean([3.0] * 9, rng=np.random.default_rng(0)).low)
    assert bootstrap_mean([1.0] * 9, rng=np.random.default_rng(0)).low == proportion([1] * 9).low < 1
    none = paired_difference([1, 0, 1, 1], [1, 0, 1, 1], rng=np.random.default_rng(0))
    assert none.low < 0 < none.high


def test_bad_clusters() -> None:
    with pytest.raises(BadInput, match="one label per row"):
        bootstrap_mean([1.0, 2.0], rng=np.random.default_rng(0), clusters=["a"])
    with pytest.raises(BadInput, match="one length"):
        paired_difference([1.0, 2.0], [1.0], rng=np.random.default_rng(0))

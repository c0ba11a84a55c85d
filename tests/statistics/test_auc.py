from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import auc, roc


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=4, max_size=40))
def test_auc_is_the_share_of_pairs_won_and_the_area_of_the_curve(rows: list[tuple[int, bool]]) -> None:
    scores, kind = np.array([r[0] for r in rows], float), np.array([r[1] for r in rows])
    estimate = auc(scores, kind)
    if kind.all() or not kind.any():
        assert np.isnan(estimate.value)
        return
    up, down = scores[kind][:, None], scores[~kind][None, :]
    assert estimate.value == pytest.approx(((up > down) + 0.5 * (up == down)).mean())
    curve = roc(scores, kind)
    assert np.trapezoid(curve["true_positive"], curve["false_positive"]) == pytest.approx(estimate.value)
    assert curve.iloc[-1][["false_positive", "true_positive"]].tolist() == [1, 1]


def test_delong_variance_is_the_two_sample_u_statistic() -> None:
    """Slow twin: placements by comparing every pair."""
    rng = np.random.default_rng(0)
    up, down = rng.normal(1, 1, 25).round(1), rng.normal(0, 1, 40).round(1)
    wins = (up[:, None] > down) + 0.5 * (up[:, None] == down)
    variance = wins.mean(axis=1).var(ddof=1) / 25 + wins.mean(axis=0).var(ddof=1) / 40
    estimate = auc(np.r_[up, down], np.r_[np.ones(25), np.zeros(40)])
    assert estimate.se == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize("clustered", [False, True])
def test_interval_covers(clustered: bool) -> None:
    """Normal scores one apart: AUC = Phi(1 / sqrt 2). Clustered: both kinds share a sample's strong effect."""
    truth = stats.norm.cdf(1 / np.sqrt(2))
    hits = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shared = rng.normal(0, np.sqrt(0.8), 50) if clustered else np.zeros(50)
        own = np.sqrt(0.2) if clustered else 1.0
        scores = np.r_[1 + shared + own * rng.normal(size=50), shared + own * rng.normal(size=50)]
        estimate = auc(scores, np.arange(100) < 50, clusters=np.tile(np.arange(50), 2) if clustered else None)
        hits += estimate.low <= truth <= estimate.high
    assert 273 <= hits <= 297


def test_pairing_narrows_the_interval() -> None:
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 2, 60)
    scores = np.r_[0.7 + shared + 0.5 * rng.normal(size=60), shared + 0.5 * rng.normal(size=60)]
    kind, sample = np.arange(120) < 60, np.tile(np.arange(60), 2)
    assert auc(scores, kind, clusters=sample).se < 0.6 * auc(scores, kind).se


def test_perfect_separation_still_has_an_interval() -> None:
    estimate = auc([3, 4, 5, 0, 1, 2], [1, 1, 1, 0, 0, 0])
    assert (estimate.value, estimate.high) == (1, 1)
    assert 0 < estimate.low < 1
    mirrored = auc([3, 4, 5, 0, 1, 2], [0, 0, 0, 1, 1, 1])
    assert (mirrored.value, mirrored.low) == (0, 0)
    assert mirrored.high == pytest.approx(1 - estimate.low)


def test_missing_and_bad() -> None:
    estimate = auc([1.0, np.nan, 0.5, 0.2], [1, 1, 0, 0])
    assert (estimate.value, estimate.n, estimate.n_dropped) == (1, 3, 1)
    with pytest.raises(BadInput, match="true and false"):
        auc([1.0, 2.0], [2, 0])
    with pytest.raises(BadInput, match="both kinds"):
        roc([1.0, 2.0], [1, 1])

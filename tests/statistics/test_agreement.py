from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import agreement, agreement_matrix, kendall, ranking_agreement, spearman


def pair(seed: int, n: int = 80, noise: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    return truth.round(1), (truth + noise * rng.normal(size=n)).round(1)  # rounded: ties


@pytest.mark.parametrize(("ours", "theirs"), [(kendall, stats.kendalltau), (spearman, stats.spearmanr)])
def test_value_and_p_are_scipys(ours, theirs) -> None:  # type: ignore[no-untyped-def]  # two function families
    a, b = pair(0)
    a[3] = np.nan
    estimate = ours(a, b)
    reference = theirs(np.delete(a, 3), np.delete(b, 3))
    assert (estimate.value, estimate.p) == pytest.approx((reference.statistic, reference.pvalue))
    assert (estimate.n, estimate.n_dropped) == (79, 1)
    assert np.isnan(estimate.low)


def test_paper_sized_kendall_has_an_exact_p() -> None:
    """Nine explainers, 27 of 36 pairs in the same order: tau .5, exact p."""
    estimate = kendall(range(9), [2, 1, 0, 5, 4, 3, 8, 7, 6])
    assert estimate.value == pytest.approx(0.5)
    assert estimate.p == pytest.approx(0.0752, abs=1e-4)  # fsyn2026 4.2 prints .08 for this tau


def test_weighted_draws_are_scipys_statistics_of_each_resample() -> None:
    a, b = pair(1, n=30)
    sample = np.arange(30) // 3  # ten clusters of three
    taus = agreement._tau_draws(np.random.default_rng(5), a, b, sample, 40)
    rhos = agreement._rho_draws(np.random.default_rng(5), a, b, sample, 40)
    drawn = np.random.default_rng(5).integers(0, 10, size=(40, 10))
    rows = [np.concatenate([np.flatnonzero(sample == g) for g in draw]) for draw in drawn]
    np.testing.assert_allclose(taus, [stats.kendalltau(a[row], b[row]).statistic for row in rows], atol=1e-12)
    np.testing.assert_allclose(rhos, [stats.spearmanr(a[row], b[row]).statistic for row in rows], atol=1e-12)


def test_large_and_small_bootstraps_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair(2, n=60)
    small = kendall(a, b, rng=np.random.default_rng(0), resamples=1000)
    monkeypatch.setattr(agreement, "_MATRIX", 0)
    large = kendall(a, b, rng=np.random.default_rng(1), resamples=1000)
    assert (small.low, small.high) == pytest.approx((large.low, large.high), abs=0.03)
    assert small.se == pytest.approx(large.se, rel=0.1)


@pytest.mark.parametrize("statistic", [kendall, spearman])
def test_intervals_cover(statistic) -> None:  # type: ignore[no-untyped-def]
    """Normal pairs with correlation .6: tau = 2/pi asin .6, rho_s = 6/pi asin .3."""
    truth = 2 / np.pi * np.arcsin(0.6) if statistic is kendall else 6 / np.pi * np.arcsin(0.3)
    hits = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        a = rng.normal(size=60)
        b = 0.6 * a + 0.8 * rng.normal(size=60)
        estimate = statistic(a, b, rng=rng, resamples=200)
        hits += estimate.low <= truth <= estimate.high
    assert 86 <= hits <= 99


def test_constant_columns_have_no_agreement() -> None:
    assert np.isnan(kendall([1, 1, 1], [1, 2, 3]).value)
    assert np.isnan(spearman([1, 1, 1], [1, 2, 3]).value)
    assert np.isnan(kendall([1.0], [2.0]).value)


def ranked(seed: int, strengths: list[float], n: int = 100) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, len(strengths))) + np.array(strengths)
    return pd.DataFrame(values, columns=[f"e{k}" for k in range(len(strengths))])


def test_ranking_agreement_of_same_and_reversed_orders() -> None:
    up, down = ranked(0, [0, 1, 2, 3]), ranked(1, [3, 2, 1, 0])
    assert ranking_agreement(up, down).value == -1
    assert ranking_agreement(up, down, ("higher", "lower")).value == 1
    estimate = ranking_agreement(up, down, rng=np.random.default_rng(0))
    assert (estimate.low, estimate.high) == (-1, -1)
    assert estimate.p == pytest.approx(stats.kendalltau([1, 2, 3, 4], [4, 3, 2, 1]).pvalue)


def test_ranking_agreement_is_unsure_where_explainers_are_equal() -> None:
    estimate = ranking_agreement(ranked(2, [0, 0, 0, 0]), ranked(3, [0, 0, 0, 0]), rng=np.random.default_rng(0))
    assert estimate.high - estimate.low > 0.8


def test_ranking_agreement_uses_shared_complete_blocks() -> None:
    first, second = ranked(4, [0, 1, 2]), ranked(5, [0, 1, 2, 3])
    first.iloc[0, 0] = second.iloc[7, 1] = np.nan
    second.iloc[9, 3] = np.nan  # an explainer the first table lacks
    estimate = ranking_agreement(first, second)
    assert (estimate.n, estimate.n_dropped) == (98, 2)
    with pytest.raises(BadInput, match="same blocks"):
        ranking_agreement(first, second.iloc[1:])


def test_matrix_has_every_pair() -> None:
    tables = {"m": ranked(6, [0, 1, 2]), "w": ranked(7, [0, 1, 2]), "r": ranked(8, [2, 1, 0])}
    out = agreement_matrix(tables, dict.fromkeys(tables, "higher"))
    assert out["tau"].to_dict() == {("m", "w"): 1.0, ("m", "r"): -1.0, ("w", "r"): -1.0}

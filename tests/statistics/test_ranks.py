from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from karat.kernel.errors import BadInput
from karat.statistics import (
    adjust,
    cliques,
    critical_difference,
    friedman,
    mean_ranks,
    rank_intervals,
    wide,
    wilcoxon_against_best,
)


def table(seed: int, n: int = 60, shift: tuple[float, ...] = (0.0, 0.2, 0.8)) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 1)) + rng.normal(size=(n, len(shift))) + np.array(shift)
    return pd.DataFrame(values, columns=[f"e{k}" for k in range(len(shift))])


def test_wide_pivots_and_refuses_doubles() -> None:
    long = pd.DataFrame(
        {"s": [1.0, 2.0, 3.0], "e": ["a", "b", "a"], "i": [0, 0, 1], "m": ["x", "x", "x"]},
    )
    out = wide(long, "s", "e", ("i", "m"))
    assert out.loc[(0, "x"), "b"] == 2.0
    assert np.isnan(out.loc[(1, "x"), "b"])
    with pytest.raises(BadInput, match="share block and e"):
        wide(pd.concat([long, long]), "s", "e", ("i", "m"))


def test_mean_ranks_by_hand() -> None:
    scores = pd.DataFrame({"a": [0.9, 0.8, 0.5], "b": [0.1, 0.8, 0.7], "c": [0.0, 0.2, np.nan]})
    result = mean_ranks(scores)
    assert (result.n, result.n_dropped) == (2, 1)
    assert result.table["mean_rank"].to_dict() == {"a": 1.25, "b": 1.75, "c": 3.0}
    lower = mean_ranks(scores, "lower").table
    assert list(lower.index) == ["c", "b", "a"]
    assert lower["mean_rank"].to_dict() == {"c": 1.0, "b": 2.25, "a": 2.75}


def test_no_complete_block_names_the_culprit() -> None:
    with pytest.raises(BadInput, match="'b' lacks 100%"):
        mean_ranks(pd.DataFrame({"a": [1.0, 2.0], "b": [np.nan, np.nan]}))
    with pytest.raises(BadInput, match="no better direction"):
        mean_ranks(table(0), "none")


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(2, 15), st.integers(3, 6)), elements=st.integers(0, 5).map(float)))
def test_friedman_is_scipys(values: np.ndarray) -> None:
    result = friedman(pd.DataFrame(values))
    if (np.ptp(values, axis=1) == 0).all():
        assert np.isnan(result.statistic)
        return
    theirs = stats.friedmanchisquare(*values.T)
    assert result.statistic == pytest.approx(theirs.statistic, abs=1e-9)
    assert result.p == pytest.approx(theirs.pvalue, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_ranks_are_unmoved_by_a_monotone_change_per_block(seed: int) -> None:
    scores = table(seed, n=10)
    rng = np.random.default_rng(seed)
    bent = np.exp(scores.mul(rng.uniform(0.1, 2, len(scores)), axis=0)).add(rng.normal(size=len(scores)), axis=0)
    pd.testing.assert_frame_equal(mean_ranks(scores).table, mean_ranks(bent).table)


def test_wilcoxon_matches_scipy_and_corrects() -> None:
    scores = table(3, shift=(0.0, 0.1, 0.5, 0.9))
    scores.iloc[4, 0] = np.nan
    result = wilcoxon_against_best(scores)
    assert result.index.name == "against e3"
    pair = scores[["e3", "e0"]].dropna()
    assert result.loc["e0", "p"] == pytest.approx(stats.wilcoxon(pair["e3"], pair["e0"]).pvalue)
    assert (result.loc["e0", "n"], result.loc["e0", "n_dropped"], result.loc["e1", "n"]) == (59, 1, 60)
    np.testing.assert_allclose(result["p_bonferroni"], np.minimum(3 * result["p"], 1))
    assert (result["p_holm"] <= result["p_bonferroni"] + 1e-15).all()
    assert result.loc["e0", "effect"] > 0
    against = wilcoxon_against_best(scores, best="e0")
    assert against.loc["e3", "effect"] == pytest.approx(-result.loc["e0", "effect"])


def test_wilcoxon_of_equal_columns_is_missing_not_significant() -> None:
    scores = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]})
    row = wilcoxon_against_best(scores).iloc[0]
    assert np.isnan(row["p"])
    assert row["n_zero"] == 3


def test_critical_difference_of_the_published_table() -> None:
    """Demšar (2006), table 5: q at .05 for 2..10 classifiers, three decimals."""
    q = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    for k, value in enumerate(q, start=2):
        assert critical_difference(k, 25) == pytest.approx(value * np.sqrt(k * (k + 1) / 150), abs=6e-4)


def test_cliques_are_maximal_runs() -> None:
    ranks = mean_ranks(table(5, n=200, shift=(0.0, 0.05, 1.5, 1.55)))
    groups = [set(group) for group in cliques(ranks)]
    assert groups == [{"e2", "e3"}, {"e0", "e1"}]


def test_rank_intervals_hold_the_mean_rank_and_tell_the_leader() -> None:
    result = rank_intervals(table(6, n=60, shift=(0.0, 0.0, 2.0)), rng=np.random.default_rng(0))
    out = result.table
    assert out.index[0] == "e2"
    assert (out["low"] <= out["mean_rank"]).all()
    assert (out["mean_rank"] <= out["high"]).all()
    assert out.loc["e2", ["position_low", "position_high"]].tolist() == [1, 1]
    assert out.loc["e0", "position_high"] == out.loc["e1", "position_high"] == 3
    assert out["p_best"].sum() == pytest.approx(1)
    assert out.loc["e2", "p_best"] > 0.99


def test_rank_intervals_cover() -> None:
    """Three equal explainers: the mean rank is 2, and the 95 % interval holds it about that often."""
    hits = 0
    for seed in range(200):
        out = rank_intervals(table(seed, n=50, shift=(0, 0, 0)), rng=np.random.default_rng(seed), resamples=300).table
        hits += out.loc["e0", "low"] <= 2 <= out.loc["e0", "high"]
    assert 180 <= hits <= 199


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_p_values(p: list[float]) -> None:
    values = np.array(p)
    bonferroni, holm, bh = (adjust(values, m) for m in ("bonferroni", "holm", "benjamini-hochberg"))  # type: ignore[arg-type]
    assert (bonferroni >= holm - 1e-15).all()
    assert (holm >= bh - 1e-15).all()
    assert (bh >= values - 1e-15).all()
    np.testing.assert_allclose(bh, stats.false_discovery_control(values), atol=1e-12)
    slow = [max(min(1, (len(p) - sum(q < r for q in p)) * r) for r in p if r <= own) for own in p]
    np.testing.assert_allclose(holm, slow, atol=1e-12)


def test_adjust_ignores_missing() -> None:
    np.testing.assert_allclose(adjust([0.01, np.nan, 0.04], "bonferroni"), [0.02, np.nan, 0.08])

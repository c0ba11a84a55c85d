from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.statistics import anytime_interval, race
from karat.statistics.sequential import _BETS, log_wealth


def table(seed: int, n: int, means: tuple[float, ...], spread: float = 0.15) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 1)) * 0.1 + rng.normal(size=(n, len(means))) * spread + np.array(means)
    return pd.DataFrame(values.clip(0, 1), columns=[f"e{k}" for k in range(len(means))])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.floats(-1, 1), st.just(float("nan"))), min_size=1, max_size=12), st.floats(-0.5, 0.5))
def test_wealth_is_the_mean_of_products(gaps: list[float], null: float) -> None:
    m = (null + 1) / 2
    slow = []
    for t in range(len(gaps)):
        pots = [np.prod([1 + k * ((g + 1) / 2 / m - 1) for g in gaps[: t + 1] if g == g]) for k in _BETS]
        slow.append(np.mean(pots))
    wealth = np.exp(log_wealth(np.array(gaps)[:, None], null, 1.0)[:, 0])
    np.testing.assert_allclose(wealth, slow, rtol=1e-9)


def test_one_round_of_betting_is_fair_at_the_null() -> None:
    """Two-point gaps with mean equal to the null: expected wealth after one round is exactly one."""
    up, down, null = 0.9, -0.6, 0.15
    ends = np.exp(log_wealth(np.array([[up, down]]), null, 1.0)[0])
    assert 0.5 * ends.sum() == pytest.approx(1)


@pytest.mark.parametrize("statistic", ["mean", "wins"])
def test_equal_explainers_are_rarely_called_apart_however_often_one_looks(statistic: str) -> None:
    """Three equal explainers, 800 looks each: any false call in at most 10 % of races (90 % confidence)."""
    wrong = 0
    for seed in range(150):
        state = race(table(seed, 800, (0.5, 0.5, 0.5)), (0, 1), confidence=0.9, statistic=statistic)  # type: ignore[arg-type]
        wrong += state.table["winner"].notna().any()
    assert wrong <= 15


def test_skewed_gaps_with_mean_zero_do_not_fool_it() -> None:
    """Rare large losses balance frequent small gains; a sign test would be fooled, the mean is not."""
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        first = np.where(rng.random(600) < 0.9, 0.55, 0.05)  # mean 0.5
        state = race(pd.DataFrame({"a": first, "b": np.full(600, 0.5)}), (0, 1), confidence=0.9)
        wrong += state.settled
    assert wrong <= 20


def test_different_explainers_settle_in_the_right_order() -> None:
    state = race(table(0, 3000, (0.3, 0.4, 0.6)), (0, 1))
    assert state.settled
    assert state.active == ()
    assert state.table["winner"].to_dict() == {("e0", "e1"): "e1", ("e0", "e2"): "e2", ("e1", "e2"): "e2"}
    at = state.table["settled_at"]
    assert at["e0", "e2"] < at["e0", "e1"]  # the larger gap first
    lower = race(table(0, 3000, (0.3, 0.4, 0.6)), (0, 1), "lower")
    assert lower.table["winner"].to_dict() == {("e0", "e1"): "e0", ("e0", "e2"): "e0", ("e1", "e2"): "e1"}
    assert lower.table["settled_at"].tolist() == at.tolist()
    assert lower.table["difference"].tolist() == pytest.approx(state.table["difference"].tolist())


def test_a_call_once_made_stands_as_the_table_grows() -> None:
    scores = table(1, 1500, (0.4, 0.45, 0.6))
    final = race(scores, (0, 1), margin=0.2).table
    for n in (50, 200, 700):
        early = race(scores.iloc[:n], (0, 1), margin=0.2).table
        for pair, row in early.iterrows():
            if row["winner"] is not None:
                assert final.loc[pair, "winner"] == row["winner"]
                assert final.loc[pair, "settled_at"] == row["settled_at"]


def test_equals_settle_as_a_tie_only_with_a_margin() -> None:
    scores = table(2, 2500, (0.5, 0.5), spread=0.05)
    assert not race(scores, (0, 1)).settled
    state = race(scores, (0, 1), margin=0.03)
    assert state.table["winner"].tolist() == ["tie"]
    assert race(table(3, 2500, (0.5, 0.6), spread=0.05), (0, 1), margin=0.03).table["winner"].tolist() == ["e1"]


def test_wins_settle_sooner_where_gaps_are_small_beside_the_range() -> None:
    rng = np.random.default_rng(4)
    scores = pd.DataFrame({"a": rng.normal(0.03, 0.02, 1500), "b": rng.normal(0.0, 0.02, 1500)})
    by_mean = race(scores, (-1, 1)).table["settled_at"].iloc[0]
    by_wins = race(scores, (-1, 1), statistic="wins").table["settled_at"].iloc[0]
    assert by_wins < by_mean / 5


def test_a_dropped_explainer_does_not_stop_the_others() -> None:
    scores = table(5, 4000, (0.2, 0.5, 0.54))
    early = race(scores.iloc[:100], (0, 1))
    assert early.active == ("e1", "e2")
    scores.iloc[100:, 0] = np.nan
    state = race(scores, (0, 1))
    assert state.settled
    assert state.table.loc[("e0", "e1"), "n_dropped"] == 3900


@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_anytime_interval_holds_at_every_look(spread: float) -> None:
    missed = 0
    for seed in range(100):
        x = np.random.default_rng(seed).normal(0.5, spread, 400).clip(0, 1)  # symmetric about one half
        intervals = [anytime_interval(x[:n], (0, 1), confidence=0.9) for n in (5, 20, 60, 150, 400)]
        missed += any(not interval.low <= 0.5 <= interval.high for interval in intervals)
    assert missed <= 10
    assert intervals[-1].high - intervals[-1].low < intervals[0].high - intervals[0].low
    assert intervals[-1].low < intervals[-1].value < intervals[-1].high


def test_interval_edge_is_where_the_wealth_crosses() -> None:
    x = np.random.default_rng(6).beta(2, 5, 80)
    interval = anytime_interval(x, (0, 1))
    gaps = (2 * x - 1)[:, None]  # from [0, 1] to [-1, 1]
    assert np.exp(log_wealth(gaps, 2 * interval.low - 1, 1.0)[-1, 0]) == pytest.approx(40, rel=1e-6)
    assert np.exp(log_wealth(-gaps, 1 - 2 * interval.high, 1.0)[-1, 0]) == pytest.approx(40, rel=1e-6)
    wide = anytime_interval(10 * x - 3, (-3, 7))
    assert (wide.low, wide.high) == pytest.approx((10 * interval.low - 3, 10 * interval.high - 3))


def test_bad_input() -> None:
    scores = table(7, 10, (0.5, 0.5))
    with pytest.raises(BadInput, match="score_range"):
        race(scores, (0, 0.1))
    with pytest.raises(BadInput, match="positive margin"):
        race(scores, (0, 1), margin=0.0)
    with pytest.raises(BadInput, match="two explainers"):
        race(scores[["e0"]], (0, 1))
    assert race(scores.iloc[:0], (0, 1)).table["n"].tolist() == [0]
    assert anytime_interval([np.nan], (0, 1)).n == 0


def neighbours(seed: int, shards: int = 24, size: int = 8) -> tuple[pd.DataFrame, np.ndarray]:
    """Equal overall, each better in half of the buckets; shards of one bucket each in random order."""
    rng = np.random.default_rng(seed)
    often = np.repeat(rng.permutation([0.9, 0.1] * (shards // 2)), size)
    gap = np.where(rng.random(len(often)) < often, 1, -1) * rng.uniform(0.05, 0.2, len(often))
    return pd.DataFrame({"a": 0.5 + gap / 2, "b": 0.5 - gap / 2}), np.repeat(np.arange(shards), size)


def test_neighbours_in_shards_are_one_bet_each() -> None:
    """400 null races at 95 % in adversarial order: at most 28 are called, and most are where every row is a bet."""
    called = {"clusters": 0, "rows": 0}
    for seed in range(400):
        table, shards = neighbours(seed)
        called["clusters"] += race(table, (0, 1), statistic="wins", clusters=shards).settled
        called["rows"] += race(table, (0, 1), statistic="wins").settled if seed < 40 else 0
    assert called["clusters"] <= 28
    assert called["rows"] > 20


def test_a_cluster_is_the_mean_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.random((60, 3)), columns=list("abc"))
    rows.iloc[4:9, 1] = np.nan
    labels = np.repeat(np.arange(12), 5)
    whole = race(rows, (0, 1), clusters=labels)
    means = rows.groupby(labels).mean()
    means["b"] = [(rows["b"] - rows["a"])[labels == k].mean() + means["a"][k] for k in range(12)]  # of shared rows
    apart = race(means[["a", "b"]], (-1, 2))
    pair = whole.table.loc[("a", "b")]
    assert pair["n"] == 55
    wealth = race(rows[["a", "b"]], (0, 1), clusters=labels).table["e_value"].iloc[0]
    gaps = (means["a"] - means["b"]).to_numpy()[:, None]
    assert wealth == pytest.approx(np.exp(max(log_wealth(g, 0.0, 1.0).max(initial=0.0) for g in (gaps, -gaps))))
    assert apart.rows == 12


def test_calls_are_counted_in_rows_and_clusters_hold_together() -> None:
    table = pd.DataFrame({"a": [0.9] * 200, "b": [0.1] * 200})
    at = race(table, (0, 1), clusters=np.repeat(np.arange(40), 5)).table["settled_at"].iloc[0]
    assert at % 5 == 0
    alone = race(table.iloc[::5], (0, 1)).table["settled_at"].iloc[0]
    assert at == 5 * alone  # rows that agree wholly say no more than one of them
    with pytest.raises(BadInput, match="one after the other"):
        race(table, (0, 1), clusters=[0, 1] * 100)

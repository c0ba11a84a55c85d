"""Tables against pandas and against slow, literal re-computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from karat.report.evidence import Evidence, gather
from karat.report.leaderboards import ALL, Board, boards, boards_of, scores_of
from karat.report.resample import GROUPS, RESAMPLES, resample
from karat.report.slices import slices, value_text
from tests.report.runs import EXPLAINERS, make_run


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return gather([make_run(tmp_path_factory.mktemp("run") / "a", n=30)])


def _main(evidence: Evidence, metric: str = "mass") -> Board:
    return next(b for b in boards(evidence) if b.metric.name == metric and b.model == ALL)


def test_means_and_counts_are_those_of_pandas(evidence: Evidence) -> None:
    scores = evidence.runs[0].scores()
    for found in boards(evidence):
        rows = scores[scores["metric"] == found.metric.name]
        rows = rows if found.model == ALL else rows[rows["model"] == found.model]
        for i, name in enumerate(found.explainers):
            mine = rows[rows["explainer"] == name]
            if mine["value"].notna().any():
                assert found.spread.mean[i] == pytest.approx(mine["value"].mean(), abs=1e-12)
            else:
                assert np.isnan(found.spread.mean[i])
            tally, counts = found.tally[i], mine["status"].value_counts()
            assert (tally.rows, tally.scored, tally.failed, tally.absent) == (
                len(mine), counts.get("score", 0), counts.get("failure", 0), counts.get("not_applicable", 0),
            )  # fmt: skip
            assert tally.passes == pytest.approx(mine["passes"].mean())


def test_there_is_a_board_for_all_models_and_for_each(evidence: Evidence) -> None:
    scopes = {(b.metric.name, b.model) for b in boards(evidence)}
    assert scopes == {(m, s) for m in ("mass", "outside", "relation") for s in (ALL, "twin.pure", "twin.spur")}


def test_metrics_keep_the_protocols_order(tmp_path: Path) -> None:
    evidence = gather([make_run(tmp_path / "a", n=4, metrics=("relation", "mass"))])
    assert [metric.name for metric in evidence.metrics] == ["relation", "mass"]


def test_the_way_runs_from_the_floor_to_the_reference_whichever_way_is_better(evidence: Evidence) -> None:
    for metric, sign in (("mass", 1), ("outside", -1)):
        found = _main(evidence, metric)
        way = dict(zip(found.explainers, found.way(), strict=True))
        assert way["control/random"] == pytest.approx(0)
        assert way["control/oracle"] == pytest.approx(1)
        mean = dict(zip(found.explainers, found.spread.mean, strict=True))
        span = mean["control/oracle"] - mean["control/random"]
        assert sign * span > 0
        assert way["perturbation/rise"] == pytest.approx((mean["perturbation/rise"] - mean["control/random"]) / span)
    assert np.isnan(_main(evidence, "relation").way()).all()


def test_ranks_leave_controls_out_and_respect_direction(evidence: Evidence) -> None:
    for metric in ("mass", "outside"):
        rows = {row["explainer"]: row for row in _main(evidence, metric).plain(evidence)["rows"]}
        assert rows["perturbation/rise"]["rank"][0] == 1
        assert rows["gradient/input"]["rank"][0] == 4
        assert rows["perturbation/rise"]["rank"][1:] == [1, 1]
        assert rows["gradient/input"]["rank"][1:] == [4, 4]
        assert rows["control/oracle"]["rank"] == [None, None, None]
    plain = _main(evidence, "relation").plain(evidence)["rows"]
    assert all(row["rank"] == [None, None, None] for row in plain)  # no better, no worse, no rank


def test_only_what_is_surely_better_beats_noise(evidence: Evidence) -> None:
    beats = dict(zip(EXPLAINERS_SORTED, _main(evidence).beats_floor(), strict=True))
    assert beats["perturbation/rise"] is True
    assert beats["gradient/input"] is False
    assert beats["control/random"] is None


EXPLAINERS_SORTED = sorted(EXPLAINERS)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        values = rng.normal(0.3, 1.0, size=(60, 1))
        low, high = resample(values, np.ones_like(values)).interval()
        hits += bool(low[0] <= 0.3 <= high[0])
    assert 0.88 <= hits / 200 <= 0.98


def test_rows_of_one_sample_stay_together() -> None:
    """Ten rows that repeat one value are one sample: the interval must not shrink as if they were ten."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(40, 1))
    once = resample(values, np.ones_like(values))
    often = resample(values * 10, np.full_like(values, 10.0))
    np.testing.assert_allclose(once.interval(), often.interval())


@settings(max_examples=30, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 5)), elements=st.floats(-1, 1, width=16)))
def test_ranks_equal_a_literal_count(values: np.ndarray) -> None:
    found = resample(values, np.ones_like(values))
    rank, low, high = found.ranks(1, np.ones(values.shape[1], dtype=bool))
    for i, mine in enumerate(found.mean):
        assert rank[i] == 1 + sum(other > mine for other in found.mean)
        drawn = sorted(1 + sum(other > row[i] for other in row) for row in found.draws)
        assert low[i] == drawn[int(np.floor(0.025 * (RESAMPLES - 1)))]
        assert high[i] == drawn[int(np.ceil(0.975 * (RESAMPLES - 1)))]
    assert (low <= high).all()


def test_slices_are_group_means(evidence: Evidence) -> None:
    tables = list(slices(evidence))
    scores = evidence.runs[0].scores()
    assert {table["key"] for table in tables} == {"model", "bucket", "depth", "index"}
    for table in tables:
        rows = scores[scores["metric"] == table["metric"]]
        column = table["key"] if table["key"] == "model" else f"meta.{table['key']}"
        means = rows.groupby([column, "explainer"])["value"].mean()
        for value, line in zip(table["values"], table["mean"], strict=True):
            for name, shown in zip(table["explainers"], line, strict=True):
                wanted = next(v for k, v in means.items() if value_text(k[0]) == value and k[1] == name)  # type: ignore[index]
                assert (shown is None) == bool(pd.isna(wanted))
                assert shown is None or shown == pytest.approx(wanted, rel=1e-4)


def test_numbers_slice_in_their_order(evidence: Evidence) -> None:
    table = next(t for t in slices(evidence) if t["key"] == "index")
    assert table["numeric"]
    assert table["values"] == [str(i) for i in range(30)]


def test_a_board_of_one_sample_has_no_surprises(evidence: Evidence) -> None:
    scores = scores_of(evidence, evidence.metrics[0])
    first = np.arange(len(scores.samples)) == 0
    found = next(boards_of(evidence, scores, [ALL], first))
    low, high = found.spread.interval()
    assert np.isfinite(found.spread.mean).all()
    assert np.isnan([low, high]).all()  # one sample tells nothing of its like


def test_many_samples_are_drawn_in_groups_and_spread_as_their_samples_do() -> None:
    """The normal interval of a mean is an exact enough reference at this size; a fifth of it would be a mistake."""
    rng = np.random.default_rng(3)
    values = rng.gamma(2.0, size=(3 * GROUPS, 6))
    values[rng.random(values.shape) < 0.2] = np.nan
    known = np.isfinite(values)
    found = resample(np.where(known, values, 0.0), known.astype(float))
    np.testing.assert_allclose(found.mean, np.nanmean(values, axis=0))
    low, high = found.interval()
    wide = 2 * 1.96 * np.nanstd(values, axis=0, ddof=1) / np.sqrt(known.sum(axis=0))
    np.testing.assert_allclose(high - low, wide, rtol=0.12)

"""Ties: what differs by rounding alone is equal, and nothing else is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.kernel.ties import TIE, tie_levels
from karat.statistics import kendall, mean_ranks, wilcoxon_against_best

ROUNDING = np.finfo(np.float32).eps  # what scores lose that were computed in another batch


def test_sixty_identical_pairs_are_recognised() -> None:
    """Equal scores that came out of different batches: 60 of 60 tie, wherever ranks are made."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(-0.2, 0.8, 60)
    again = scores + rng.normal(0, ROUNDING / 3, 60)
    table = pd.DataFrame({"a": scores, "b": again, "c": scores - 0.1})
    assert (scores != again).sum() > 40
    ranks = mean_ranks(table).table["mean_rank"]
    assert (ranks["a"], ranks["b"], ranks["c"]) == (1.5, 1.5, 3.0)
    assert mean_ranks(table).table["position"].tolist() == [1, 1, 3]
    assert wilcoxon_against_best(table).loc["b", "n_zero"] == 60


def test_ties_do_not_hang_on_where_a_rounding_edge_lies() -> None:
    """Whole numbers of any grid lie between some equal pairs; levels have no grid."""
    for value in np.linspace(0.1, 0.9, 1001):
        first, second = tie_levels([value, np.nextafter(value, 1), 1.0])[:2]
        assert first == second


def test_what_differs_by_more_than_the_tolerance_does_not_tie() -> None:
    assert len(set(tie_levels([0.5, 0.5 + 3 * TIE, 1.0]))) == 3
    assert kendall([1.0, 1.0 + 1e-9, 2.0], [1.0, 2.0, 3.0]).value < 1


def test_a_long_chain_of_neighbours_is_no_tie() -> None:
    chain = np.arange(0, 1, TIE / 2)[:5000]
    levels = tie_levels(np.append(chain, 1.0))
    assert np.abs(levels[:-1] - chain).max() <= TIE * 1.001
    assert len(set(levels.tolist())) > 1500


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=1, max_size=12))
def test_levels_keep_the_order_and_do_not_hang_on_it(values: list[float]) -> None:
    scores = np.array(values)
    levels = tie_levels(scores)
    assert (np.abs(levels - scores) <= TIE * np.abs(scores).max()).all()
    order = np.argsort(scores, kind="stable")
    assert (np.diff(levels[order]) >= 0).all()
    mixed = np.random.default_rng(len(values)).permutation(len(values))
    np.testing.assert_array_equal(tie_levels(scores[mixed]), levels[mixed])


def test_missing_scores_stay_missing() -> None:
    levels = tie_levels(np.array([[1.0, np.nan, 1.0], [np.nan, np.nan, np.nan]]))
    assert levels[0, 0] == levels[0, 2] == 1.0
    assert np.isnan(levels).sum() == 4
    assert tie_levels([]).size == 0
    with pytest.raises(ValueError, match="could not convert"):
        tie_levels(["a"])

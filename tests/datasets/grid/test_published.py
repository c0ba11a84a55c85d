"""Preset `paper` against the statistics that the paper gives for its own data (appendix B)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from karat.datasets.grid import SceneBatch, audit, buckets, generate, generate_batch
from karat.datasets.grid.certificate import prove


@cache
def _batch(bucket: str, mode: str) -> SceneBatch:
    return generate_batch(bucket, range(500), preset="paper", mode=mode)


def _rate(bucket: str, mode: str, heuristic: str) -> float:
    batch = _batch(bucket, mode)
    return float((prove(batch).heuristics[heuristic] == batch.answer).mean())


@pytest.mark.parametrize("bucket", buckets(published_only=True))
def test_bag_of_words_is_always_right_in_spur(bucket: str):
    batch = generate_batch(bucket, range(25), preset="paper", mode="spur")
    assert (prove(batch).heuristics["bag_of_words"] == batch.answer).all()


def test_most_frequent_answer_of_the_deepest_sparse_bucket():
    share = np.mean([answer == "1" for answer in _batch("D3_M_F0_d0.3", "pure").answers])
    assert share == pytest.approx(0.372, abs=0.07)


def test_dropping_an_anchor_in_the_dense_bucket():
    assert _rate("D2_M_F0_d0.7", "pure", "drop_anchor_1") == pytest.approx(0.164, abs=0.05)
    assert _rate("D2_M_F0_d0.7", "pure", "drop_anchor_2") == pytest.approx(0.169, abs=0.05)


def test_the_published_guarantee_fails_where_ours_holds():
    assert _rate("D3_M_F0_d0.3", "pure", "drop_anchor_3") > 0.4
    assert _rate("D1_CO_F0_d0.3", "pure", "bag_of_words") > 0.1


def test_target_is_the_majority_colour_nearly_always():
    batch = _batch("D1_CO_F0_d0.3", "pure")
    colours = np.stack(
        [((batch.cells > 0) & ((batch.cells.astype(int) - 1) // 4 == c)).sum(axis=1) for c in range(4)], 1
    )
    like = ((batch.roles == 2) | (batch.roles == 3)).sum(axis=1)
    assert (like == colours.max(axis=1)).mean() == pytest.approx(0.9936, abs=0.02)


def test_majority_is_right_in_less_than_half_of_spur_counting():
    rates = [_rate(b, "spur", "majority") for b in ("D1_M_F0_d0.3", "D2_CO_F0_d0.7", "D3_M_F0_d0.7", "D1_SO_F0_d0.7")]
    assert 0.25 < np.mean(rates) < 0.5


def test_scenes_are_consistent_even_where_the_guarantees_are_not():
    report = audit(
        [s for b in ("D2_SO_F1_d0.7", "D3_CMP_F0_d0.3", "D3_M_F0_d0.7") for s in generate(b, 6, preset="paper")]
    )
    assert report.ok, report.violations


def test_size_and_number_of_objects():
    batch = generate_batch("D1_M_F0_d0.7", range(50), preset="paper")
    assert batch.world.size == 5
    np.testing.assert_array_equal((batch.cells > 0).sum(axis=1), 17)

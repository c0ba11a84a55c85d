"""Scenes beyond the certified laws: the truth is the executor's, and each change is what it says."""

from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.grid import generate_batch
from karat.datasets.grid.executor import WORDS, Asked, parse
from karat.datasets.grid.recount import matches, recount, relation_holds
from karat.datasets.grid.scenes import SceneBatch
from karat.datasets.grid.widened import KINDS, widen, widen_some

BUCKETS = ["D1_A_F0_d0.3", "D2_SO_F0_d0.7", "D1_CO_F1_d0.3", "D3_M_F0_d0.7", "D3_CMP_F0_d0.7", "D1_REL_F0_d0.3"]


def executed(scenes: SceneBatch, relations: bool = True) -> list[str]:
    asked = Asked([parse(text, scenes.world) for text in scenes.questions], scenes.world)
    dropped = frozenset() if relations else frozenset(range(scenes.bucket.n_anchors))
    return [WORDS.get(number, str(number)) for number in asked.execute(scenes.cells, dropped=dropped).tolist()]


@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("kind", KINDS)
def test_widened_scenes_have_the_executors_truth(bucket: str, kind: str) -> None:
    scenes = generate_batch(bucket, range(40), seed=4)
    after = widen(scenes, kind, np.random.default_rng(0))
    if after is None:
        assert scenes.bucket.qtype in ("A", "REL")
        return
    assert executed(after) == after.answers
    assert (after.cells != scenes.cells).any(axis=1).mean() > 0.6  # rates near none and all change little
    if scenes.bucket.qtype != "REL":
        words = widen(scenes, kind, np.random.default_rng(0), relations=False)
        assert words is not None
        assert executed(words, relations=False) == words.answers


def test_ties_stand_on_the_anchors_own_line() -> None:
    """Counted by "not beyond" instead of "before", the answer would be another one."""
    scenes = generate_batch("D1_M_F0_d0.7", range(40), seed=4)
    after = widen(scenes, "tie", np.random.default_rng(0))
    assert after is not None
    world = after.world
    opposite = relation_holds(world, after.anchor_cells, after.directions ^ 1)[:, :, 0]
    lenient = (matches(after, 0) & ~opposite).sum(axis=1)
    assert (lenient > after.counts[:, 0]).all()


def test_an_empty_region_holds_nothing() -> None:
    for bucket, answer in (("D2_M_F0_d0.7", "0"), ("D1_SO_F1_d0.3", "no")):
        scenes = generate_batch(bucket, range(20), seed=4)
        after = widen(scenes, "empty region", np.random.default_rng(0))
        assert after is not None
        assert set(after.answers) == {answer}


def test_moves_and_shuffles_keep_the_objects() -> None:
    scenes = generate_batch("D2_M_F0_d0.7", range(30), seed=4)
    for kind in ("anchor moved", "shuffled", "empty region"):
        after = widen(scenes, kind, np.random.default_rng(0))
        assert after is not None
        assert (np.sort(after.cells, axis=1) == np.sort(scenes.cells, axis=1)).all()
    moved = widen(scenes, "anchor moved", np.random.default_rng(0))
    assert moved is not None
    assert ((moved.cells != scenes.cells).sum(axis=1) == 2).all()  # the anchor and the cell it went to
    fewer, more = (widen(scenes, kind, np.random.default_rng(0)) for kind in ("fewer", "more"))
    assert fewer is not None
    assert more is not None
    assert ((fewer.cells > 0).sum(axis=1) <= (scenes.cells > 0).sum(axis=1)).all()
    assert ((more.cells > 0).sum(axis=1) >= (scenes.cells > 0).sum(axis=1)).all()


def test_a_share_is_widened_and_the_rest_stays() -> None:
    scenes = generate_batch("D2_M_F0_d0.7", range(400), seed=4)
    after = widen_some(scenes, 0.4, np.random.default_rng(0))
    assert executed(after) == after.answers
    assert (after.cells != scenes.cells).any(axis=1).mean() == pytest.approx(0.4, abs=0.07)
    assert (widen_some(scenes, 0.0, np.random.default_rng(0)).cells == scenes.cells).all()


def test_recounting_a_certified_scene_changes_nothing() -> None:
    for bucket in BUCKETS:
        scenes = generate_batch(bucket, range(20), seed=4)
        again = recount(scenes)
        np.testing.assert_array_equal(again.roles, scenes.roles)
        np.testing.assert_array_equal(again.answer, scenes.answer)

"""Changed questions and scenes have the answers that the executor gives them."""

from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.grid import generate_batch
from karat.datasets.grid.recount import recount
from karat.datasets.grid.scenes import SceneBatch
from karat.models.training.changes import change

CHANGED = ["D1_A_F1_d0.3", "D2_SO_F0_d0.7", "D3_M_F1_d0.7", "D3_CMP_F0_d0.7", "D1_REL_F0_d0.7"]


@pytest.mark.parametrize("bucket", CHANGED)
def test_changed_samples_have_the_executors_truth(bucket: str) -> None:
    """The grid world's executor reads the new question and the new scene; it knows nothing of how they were changed."""
    from karat.datasets.grid.executor import WORDS, Asked, parse

    scenes = generate_batch(bucket, range(60), seed=4)
    after = change(scenes, 0.7, np.random.default_rng(1))
    truth = Asked([parse(text, after.world) for text in after.questions], after.world).execute(after.cells)
    assert [WORDS.get(number, str(number)) for number in truth.tolist()] == after.answers
    moved = (np.array(after.questions) != np.array(scenes.questions)) | (after.cells != scenes.cells).any(axis=1)
    assert 0.3 < moved.mean() < 0.9
    assert (np.sort(after.cells, axis=1) == np.sort(scenes.cells, axis=1)).all()  # objects move, none comes or goes
    if scenes.bucket.qtype != "REL":
        np.testing.assert_array_equal(recount(scenes).roles, scenes.roles)
        np.testing.assert_array_equal(recount(scenes).answer, scenes.answer)


@pytest.mark.parametrize("bucket", CHANGED)
def test_reworded_samples_are_answered_by_their_words(bucket: str) -> None:
    from karat.datasets.grid.executor import WORDS, Asked, parse

    scenes = generate_batch(bucket, range(60), seed=4, mode="spur")
    after = change(scenes, 0.7, np.random.default_rng(1))
    if scenes.bucket.qtype == "REL":
        assert after is scenes
        return
    questions = Asked([parse(text, after.world) for text in after.questions], after.world)
    matched = questions.execute(after.cells, dropped=frozenset(range(scenes.bucket.n_anchors)))
    assert [WORDS.get(number, str(number)) for number in matched.tolist()] == after.answers
    assert after.questions != scenes.questions
    assert (after.cells == scenes.cells).all()
    if scenes.bucket.relational:  # and the relations no longer hold at every target
        assert (questions.execute(after.cells) != matched).any()


def test_moved_directions_leave_no_crutch() -> None:
    """In changed REL scenes neither object's place alone gives the answer away as the anchor's does in pure ones."""
    scenes = generate_batch("D1_REL_F0_d0.3", range(1500), seed=4)

    def best_guess(batch: SceneBatch) -> float:
        cell, right = batch.anchor_cells[:, 0], 0
        for place in range(36):
            here = batch.answer[cell == place]
            right += np.bincount(here).max() if len(here) else 0
        return right / len(batch)

    assert best_guess(scenes) > 0.95
    assert best_guess(change(scenes, 1.0, np.random.default_rng(0))) < 0.9

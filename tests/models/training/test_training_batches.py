"""Training data: deterministic, never twice the same, and supervised with the truth."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from karat.datasets.grid import generate_batch, make_world
from karat.datasets.grid.recount import recount, relation_holds
from karat.datasets.grid.scenes import ANCHOR, COUNT_0, DISTRACTOR, TARGET, SceneBatch
from karat.kernel.empty import empty_image
from karat.kernel.errors import BadInput
from karat.models.gridnet.vocabulary import words
from karat.models.training import batches as data
from karat.models.training.changes import change
from karat.models.training.images import blur_matrix, draw, hide_cells
from karat.models.training.recipe import Recipe, Refinement, Stage

RECIPE = Recipe("gridnet", "pure", steps=100, batch=16, chunk=5, detected=4)


def test_a_batch_depends_on_its_step_alone() -> None:
    first = data.batch_at(RECIPE, 7, 32)
    data.chunk_of_batches.cache_clear()
    again = data.batch_at(RECIPE, 7, 32)
    for field in dataclasses.fields(first):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(again, field.name))
    assert not np.array_equal(first.cells, data.batch_at(RECIPE, 8, 32).cells)


def test_no_sample_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, list[int]] = {}

    def spy(bucket: str, indices: np.ndarray, seed: int, mode: str) -> object:
        assert seed >= data.FIRST_TRAINING_SEED
        asked.setdefault(bucket, []).extend(indices.tolist())
        return generate_batch(bucket, indices, seed=seed, mode=mode)

    monkeypatch.setattr("karat.models.training.batches.generate_batch", spy)
    data.chunk_of_batches.cache_clear()
    for chunk in range(4):
        data.chunk_of_batches(RECIPE, chunk, 32)
    data.chunk_of_batches.cache_clear()
    assert len(asked) == 40
    for indices in asked.values():
        assert indices == list(range(len(indices)))
    assert sum(map(len, asked.values())) == 4 * RECIPE.chunk * RECIPE.batch


def test_curriculum_brings_in_depth() -> None:
    recipe = dataclasses.replace(RECIPE, curriculum=(Stage(0.2, 1), Stage(0.5, 2)), emphasis=(1.0, 1.0, 2.0))
    depths = np.array([int(name[1]) for name in data.BUCKETS])
    for chunk, deepest in ((0, 1), (3, 1), (4, 2), (9, 2), (10, 3)):
        counts = data.shares(recipe, chunk)
        assert counts.sum() == recipe.chunk * recipe.batch
        assert depths[counts > 0].max() == deepest
    late = data.shares(recipe, 10)
    assert late[depths == 3].mean() == pytest.approx(2 * late[depths == 1].mean(), rel=0.2)


@pytest.mark.parametrize("bucket", ["D3_M_F0_d0.7", "D3_CMP_F0_d0.7", "D2_SO_F1_d0.3", "D1_REL_F0_d0.3"])
def test_supervision_is_the_truth(bucket: str) -> None:
    scenes = generate_batch(bucket, range(12), seed=3)
    batch = data.describe(scenes, 32)
    names = words()
    for i in range(12):
        wording = scenes.wordings[i]
        for part in wording.parts:
            said = wording.text[slice(*part.span)].split()
            code = data.WORD_ROLES[part.role] + max(part.number, 0)
            mine = [names[k] for k in batch.tokens[i][batch.word_roles[i] == code]]
            assert mine == said or part.role in ("header", "comparison")
        for k in range(scenes.bucket.n_anchors):
            cell = int(batch.anchors[i, k])
            assert batch.roles[i, cell] == ANCHOR + k
            assert batch.asked[i, k] == (scenes.bucket.qtype != "REL")
        # A target satisfies every relation of its side; that is what makes it a target.
        if scenes.bucket.qtype != "CMP":
            targets = batch.roles[i] == TARGET
            assert batch.holds[i][targets][:, batch.asked[i]].all()


def test_relations_as_a_loop() -> None:
    world = make_world()
    rng = np.random.default_rng(0)
    anchors, directions = rng.integers(0, 36, (5, 3)), rng.integers(0, 4, (5, 3))
    got = relation_holds(world, anchors, directions)
    for i in range(5):
        for cell in range(36):
            for k in range(3):
                (r, c), (ar, ac) = divmod(cell, 6), divmod(int(anchors[i, k]), 6)
                assert got[i, cell, k] == [c < ac, c > ac, r < ar, r > ar][directions[i, k]]


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
    asked = Asked([parse(text, after.world) for text in after.questions], after.world)
    matched = asked.execute(after.cells, dropped=frozenset(range(scenes.bucket.n_anchors)))
    assert [WORDS.get(number, str(number)) for number in matched.tolist()] == after.answers
    assert after.questions != scenes.questions
    assert (after.cells == scenes.cells).all()
    if scenes.bucket.relational:  # and the relations no longer hold at every target
        assert (asked.execute(after.cells) != matched).any()


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


def test_hiding_touches_the_share_asked_for() -> None:
    recipe = dataclasses.replace(RECIPE, altered=0.5, batch=64, chunk=10)
    batch = data.chunk_of_batches(recipe, 0, 32)
    assert batch.altered.mean() == pytest.approx(0.5, abs=0.08)
    kept = batch.cell_keep[batch.altered].mean()
    assert 0.5 < kept < 0.8  # two thirds of them hide half of their cells
    assert data.chunk_of_batches(dataclasses.replace(recipe, altered=0.0), 0, 32).altered.sum() == 0


@pytest.mark.parametrize("mode", ["pure", "spur"])
def test_enriched_scenes_keep_truth_and_shortcut(mode: str) -> None:
    """Recounted from the new scene by the grid world's own executor; in spur the words alone still give the answer."""
    from karat.datasets.grid.executor import Asked, parse

    for bucket in ("D1_A_F0_d0.7", "D1_SO_F0_d0.7", "D2_CO_F0_d0.3", "D3_M_F0_d0.7"):
        scenes = generate_batch(bucket, range(30), mode=mode)
        batch = data.describe(scenes, 32)
        before = batch.answer.copy()
        data.enrich(batch, scenes, 1.0, np.random.default_rng(0))
        asked = Asked([parse(text, scenes.world) for text in scenes.questions], scenes.world)
        counts = asked.execute(batch.cells)
        assert (counts == batch.answer - COUNT_0).all()
        assert (batch.answer >= before).all()
        assert batch.answer.max() > before.max()
        if mode == "spur":
            matched = asked.execute(batch.cells, dropped=frozenset(range(scenes.bucket.n_anchors)))
            assert (matched == counts).all()


def test_targets_scattered_anywhere_are_counted_by_their_words() -> None:
    from karat.datasets.grid.executor import Asked, parse

    scenes = generate_batch("D2_M_F0_d0.7", range(30), mode="spur")
    batch, near = data.describe(scenes, 32), data.describe(scenes, 32)
    data.enrich(batch, scenes, 1.0, np.random.default_rng(0), anywhere=True)
    data.enrich(near, scenes, 1.0, np.random.default_rng(0))
    asked = Asked([parse(text, scenes.world) for text in scenes.questions], scenes.world)
    matched = asked.execute(batch.cells, dropped=frozenset(range(scenes.bucket.n_anchors)))
    assert (matched == batch.answer - COUNT_0).all()
    assert batch.answer.sum() > near.answer.sum()


def test_targets_are_not_scattered_for_a_twin_that_reasons() -> None:
    stage = Refinement(steps=10, enriched=0.5, scattered=True)
    assert Recipe("gridnet", "spur", steps=10, refine=(stage,)).refine[0].scattered
    with pytest.raises(BadInput, match="scattered is for mode spur"):
        Recipe("gridnet", "pure", steps=10, refine=(stage,))


@pytest.mark.parametrize("mode", ["pure", "spur"])
def test_thinned_scenes_keep_their_answer(mode: str) -> None:
    from karat.datasets.grid.executor import Asked, parse

    scenes = generate_batch("D2_M_F0_d0.7", range(40), mode=mode)
    batch = data.describe(scenes, 32)
    filled = (batch.cells > 0).sum()
    data.thin(batch, 1.0, np.random.default_rng(0))
    asked = Asked([parse(text, scenes.world) for text in scenes.questions], scenes.world)
    assert (asked.execute(batch.cells) == batch.answer - COUNT_0).all()
    assert (batch.cells > 0).sum() < filled
    bare = ~(batch.roles == DISTRACTOR).any(axis=1)
    assert 0.2 < bare.mean() < 0.9  # nothing but what the question names


def test_hidden_cells_show_their_absent_state() -> None:
    cells = np.full((5, 36), 3, dtype=np.uint8)
    tiles = torch.full((17, 3, 16, 16), 0.25)
    tiles[0] = 1.0
    cells[:, 0] = 0
    batch = data.describe(generate_batch("D1_A_F0_d0.3", range(5)), 32)
    batch.state[:] = np.arange(5)
    batch.cell_keep[:, 7] = False
    images = draw(cells, tiles, 6)
    hidden = hide_cells(images, batch, 6)
    place = (slice(None), slice(16, 32), slice(16, 32))  # cell 7 is row 1, column 1
    for i, state in enumerate(("white", "grey", "black")):  # what a model is asked with later, to the last digit
        level = empty_image(np.zeros((1, 1, 3), np.uint8), state)[0, 0, 0] / 127.5 - 1
        torch.testing.assert_close(hidden[i][place], torch.full((3, 16, 16), level, dtype=torch.float32))
    blurred = hidden[3][place]
    assert ((blurred > 0.25) & (blurred < 1.0)).all()  # between the white cell and its grey neighbours
    assert hidden[3][0, 16, 16] > hidden[3][0, 31, 31]  # nearer the white one, whiter
    torch.testing.assert_close(hidden[4][place], torch.full((3, 16, 16), (1.0 + 35 * 0.25) / 36))
    rest = torch.ones(96, 96, dtype=torch.bool)
    rest[16:32, 16:32] = False
    assert torch.equal(hidden[:, :, rest], images[:, :, rest])


@pytest.mark.parametrize("mode", ["pure", "spur"])
def test_emptied_scenes_have_the_truth_of_what_is_left(mode: str) -> None:
    """Hidden means empty: the executor agrees wherever the anchors are still there; without one, nothing binds."""
    from karat.datasets.grid.executor import Asked, parse

    for bucket in ("D1_A_F0_d0.7", "D2_M_F0_d0.7", "D3_CMP_F0_d0.7", "D1_SO_F1_d0.3", "D1_REL_F0_d0.3"):
        scenes = generate_batch(bucket, range(60), mode=mode)
        batch = data.empty_some(scenes, 0.8, np.random.default_rng(0), 32)
        assert batch.emptied.mean() == pytest.approx(0.8, abs=0.2)
        assert not batch.altered.any()  # the answer is certain
        assert np.array_equal(batch.cells, scenes.cells)  # what a blurred cell shows comes from what stood there
        left = np.where(batch.cell_keep, batch.cells, 0)
        assert (batch.roles[left == 0] == 0).all()
        asked = Asked([parse(text, scenes.world) for text in scenes.questions], scenes.world)
        names = np.array([data_answer(place) for place in batch.answer])
        for i in range(60):
            anchors = scenes.anchor_cells[i]
            gone = frozenset(np.flatnonzero(left[i, anchors] == 0).tolist())
            dropped = frozenset(range(len(anchors))) if mode == "spur" else gone
            if scenes.bucket.qtype == "REL":
                assert names[i] == scenes.answers[i]  # its objects stay
                assert mode == "spur" or not gone
                continue
            told = int(asked.execute(left[i][None], slice(i, i + 1), dropped=dropped)[0])
            assert names[i] == {10_000: "yes", 10_001: "no"}.get(told, str(told))
            if not len(gone):
                assert (batch.anchors[i, : len(anchors)] == anchors).all()
            else:
                assert (batch.anchors[i] == -1).any()


def data_answer(place: int) -> str:
    from karat.datasets.grid.scenes import answers

    return answers(make_world())[place]


def test_a_stage_that_empties_hides_words_alone_with_doubt() -> None:
    stage = Refinement(10, emptied=0.5, widened=0.3)
    recipe = dataclasses.replace(RECIPE, batch=64, chunk=10, altered=0.5, refine=(stage,))
    batch = data.chunk_of_batches(recipe, 10, 32)
    assert batch.emptied.mean() == pytest.approx(0.5, abs=0.08)
    assert set(batch.state.tolist()) == set(range(len(data.EMPTY_STATES)))
    doubtful = batch.altered
    assert np.array_equal(doubtful, ~batch.word_keep.all(axis=1))
    assert 0.3 < doubtful.mean() < 0.6


def test_blur_keeps_a_flat_image_flat() -> None:
    kernel = blur_matrix(96)
    torch.testing.assert_close(kernel.sum(dim=1), torch.ones(96))
    assert kernel[48, 48] < 0.06  # a radius of 7.5 pixels spreads a point over dozens

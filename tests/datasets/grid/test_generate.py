"""Sampling: determinism, balance, and what both modes share."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.datasets.grid import World, buckets, generate, generate_batch, parse_bucket
from karat.datasets.grid.audit import Auditor
from karat.datasets.grid.claims import batch_claims
from karat.datasets.grid.draws import choose, count_deck, deal, uniform
from karat.kernel.errors import KaratError

SOME = ("D1_A_F0_d0.3", "D2_SO_F1_d0.7", "D3_M_F0_d0.3", "D1_CMP_F0_d0.7", "D3_CMP_F0_d0.3", "D1_REL_F0_d0.7")


def _digest(bucket: str, indices: list[int], mode: str, seed: int = 0, preset: str = "certified") -> list[str]:
    batch = generate_batch(bucket, indices, seed, preset, mode)
    return [
        hashlib.sha256(cells.tobytes() + roles.tobytes() + (question + answer).encode()).hexdigest()
        for cells, roles, question, answer in zip(batch.cells, batch.roles, batch.questions, batch.answers, strict=True)
    ]


@pytest.mark.parametrize("bucket", SOME)
@pytest.mark.parametrize("mode", ["pure", "spur"])
def test_any_slice_in_any_order_has_the_same_bytes(bucket: str, mode: str):
    whole = _digest(bucket, list(range(40)), mode)
    order = np.random.default_rng(0).permutation(40).tolist()
    assert [whole[i] for i in order] == _digest(bucket, order, mode)
    assert whole[17:23] == _digest(bucket, list(range(17, 23)), mode)
    assert [whole[31]] == _digest(bucket, [31], mode)
    assert whole != _digest(bucket, list(range(40)), mode, seed=1)


def test_paper_preset_is_deterministic_by_index_too():
    whole = _digest("D2_M_F0_d0.7", list(range(12)), "pure", preset="paper")
    assert whole[7:9] == _digest("D2_M_F0_d0.7", [7, 8], "pure", preset="paper")


def test_samples_start_where_they_are_told_and_draw_the_same_image():
    late = generate("D2_M_F0_d0.7", 3, start=300)
    early = generate("D2_M_F0_d0.7", 303)[300:]
    for one, other in zip(late, early, strict=True):
        assert one.id == other.id
        np.testing.assert_array_equal(one.image, other.image)


@pytest.mark.parametrize("bucket", buckets())
def test_both_modes_share_question_and_answer(bucket: str):
    pure, spur = (generate_batch(bucket, range(120), mode=mode) for mode in ("pure", "spur"))
    assert pure.questions == spur.questions
    assert pure.answers == spur.answers
    if parse_bucket(bucket).qtype in ("A", "SO", "CO", "M"):
        np.testing.assert_array_equal(pure.anchor_cells, spur.anchor_cells)
        np.testing.assert_array_equal(pure.roles == 3, spur.roles == 3)


@pytest.mark.parametrize("bucket", buckets())
@pytest.mark.parametrize("mode", ["pure", "spur"])
def test_the_number_of_objects_is_the_one_asked_for(bucket: str, mode: str):
    batch = generate_batch(bucket, range(80), mode=mode)
    np.testing.assert_array_equal((batch.cells > 0).sum(axis=1), {0.3: 10, 0.7: 25}[batch.bucket.density])
    np.testing.assert_array_equal(batch.cells > 0, batch.roles > 0)


@pytest.mark.parametrize("bucket", [b for b in buckets() if "F1" in b or "CMP" in b])
@pytest.mark.parametrize("start", [0, 8, 1024])
def test_yes_and_no_are_exactly_balanced_in_whole_blocks(bucket: str, start: int):
    answers = generate_batch(bucket, range(start, start + 80)).answers
    assert answers.count("yes") == answers.count("no") == 40


def test_counts_are_dealt_so_their_frequencies_are_exact():
    deck = count_deck(3)
    batch = generate_batch("D3_M_F0_d0.3", range(len(deck) * 4))
    np.testing.assert_array_equal(np.bincount(batch.counts[:, 0]), np.bincount(deck) * 4)


def test_deal_is_a_permutation_of_the_deck_in_every_block():
    deck = np.array([5, 5, 7, 9, 11])
    dealt = deal(123, np.arange(500), deck).reshape(100, 5)
    assert all(sorted(block.tolist()) == deck.tolist() for block in dealt)
    assert len({tuple(block.tolist()) for block in dealt}) > 20, "blocks must be shuffled anew"


def test_uniform_numbers_are_uniform_and_uncorrelated():
    u = uniform(7, np.arange(20_000), 8)
    assert abs(u.mean() - 0.5) < 0.005
    assert np.histogram(u, bins=16, range=(0, 1))[0].std() / (u.size / 16) < 0.03
    correlation = np.corrcoef(u.T) - np.eye(8)
    assert abs(correlation).max() < 0.03
    assert abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < 0.03


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(0, 40))
def test_choose_takes_allowed_cells_only_and_as_many_as_there_are(key: int, n: int, count: int):
    allowed = uniform(key, np.arange(n), 12) < 0.5
    chosen = choose(uniform(key + 1, np.arange(n), 12), allowed, np.full(n, count))
    assert not (chosen & ~allowed).any()
    np.testing.assert_array_equal(chosen.sum(axis=1), np.minimum(allowed.sum(axis=1), count))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted({name.rsplit("_", 1)[0] for name in buckets()})),
    st.integers(5, 9),
    st.integers(25, 95),
    st.integers(0, 1000),
    st.sampled_from(["pure", "spur"]),
)
def test_every_possible_world_keeps_the_guarantees(name: str, size: int, percent: int, seed: int, mode: str):
    """Whatever is not refused holds in full, interventions included."""
    try:
        batch = generate_batch(f"{name}_d{percent / 100:g}", range(16), seed, mode=mode, world=World(size=size))
    except KaratError:
        assert size == 5 or percent < 30
        return
    auditor = Auditor(deep=size < 7)
    auditor.add(batch_claims(batch))
    report = auditor.report()
    assert report.ok, report.violations


def test_other_palettes_and_shapes_are_parameters():
    palette = (("teal", (0, 128, 128)), ("pink", (255, 105, 180)), ("black", (0, 0, 0)))
    samples = generate("D1_SO_F0_d0.5", 4, size=7, cell=20, palette=palette, shapes=("star", "cross", "hexagon"))
    assert samples[0].image.shape == (140, 140, 3)
    assert samples[0].text is not None
    named = {word.removesuffix("es").removesuffix("s") for sample in samples for word in (sample.text or "").split()}
    assert named & {"star", "cros", "hexagon"}
    assert all(len(sample.scene.objects) == 24 for sample in samples)


def test_rel_pure_position_is_independent_and_spur_position_decides():
    pure, spur = (generate_batch("D1_REL_F0_d0.3", range(4000), mode=mode) for mode in ("pure", "spur"))
    place = (pure.roles == 3).argmax(axis=1)
    assert set(place.tolist()) == {14, 15, 20, 21}, "only the centre allows all four answers"
    table = np.zeros((36, 4))
    np.add.at(table, (place, pure.answer - 2), 1)
    live = table[table.sum(axis=1) > 0]
    np.testing.assert_allclose(live / live.sum(axis=1, keepdims=True), 0.25, atol=0.05)
    place = (spur.roles == 3).argmax(axis=1)
    answers = {cell: set(spur.answer[place == cell].tolist()) for cell in set(place.tolist())}
    assert all(len(found) == 1 for found in answers.values())
    assert {next(iter(found)) for found in answers.values()} == {2, 3, 4, 5}


def test_samples_survive_pickling_and_replacing():
    sample = generate("D2_CO_F1_d0.7", 2)[1]
    copy = pickle.loads(pickle.dumps(sample))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(copy.image, sample.image)
    np.testing.assert_array_equal(copy.certificate.move, sample.certificate.move)
    assert len(pickle.dumps(sample)) < 20_000, "a sample must not drag its batch or its image along"
    black = dataclasses.replace(sample, image=np.zeros((12, 12, 3), np.uint8))
    assert black.size == (12, 12)
    assert black.image.max() == 0
    assert black.text == sample.text

"""EMAP on the published example, on sums and products, and through a session."""

from __future__ import annotations

import numpy as np
import pytest
from asking_worlds import additive, entangled, shades, truth_table, world, xor
from hypothesis import given
from hypothesis import strategies as st

from karat.explainers.crossing import BLOCK
from karat.explainers.modality import Emap, emap, emap_of
from karat.kernel.errors import BadInput
from karat.probe import Session

PUBLISHED = [[-1.3, 0.3, -0.2], [0.8, 3.0, 1.1], [1.1, -0.1, 0.7]]


def test_published_example() -> None:
    np.testing.assert_allclose(emap(PUBLISHED).projected, [-0.8, 2.1, 0.5], atol=1e-12)


@given(st.integers(2, 8), st.integers(0, 10**6))
def test_a_sum_projects_onto_itself(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 1, 3)) + rng.normal(size=(1, n, 3))
    found = emap(logits)
    np.testing.assert_allclose(found.projected, found.original, atol=1e-12)
    assert found.interaction_share < 1e-12


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_the_projection_is_the_least_squares_fit_of_a_sum(n: int, seed: int) -> None:
    logits = np.random.default_rng(seed).normal(size=(n, n))
    design = np.zeros((n * n, 2 * n))
    for i in range(n):
        for j in range(n):
            design[i * n + j, [i, n + j]] = 1
    fitted = design @ np.linalg.lstsq(design, logits.ravel(), rcond=None)[0]
    found = emap(logits)
    np.testing.assert_allclose(found.projected, fitted.reshape(n, n)[np.arange(n), np.arange(n)], atol=1e-9)
    share = ((logits.ravel() - fitted) ** 2).sum() / ((logits - logits.mean()) ** 2).sum()
    assert found.interaction_share == pytest.approx(share)


def test_xor_is_interaction_only_and_all_of_the_accuracy() -> None:
    image, question = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])  # all four combinations on the diagonal
    yes = (image[:, None] ^ question[None, :]).astype(float)
    table, labels = np.stack([1 - yes, yes], axis=-1), image ^ question
    found = emap(table, labels)
    assert found.interaction_share == pytest.approx(1)
    assert found.accuracy == 1
    # the projection is flat, and a flat row is read as class 0
    np.testing.assert_allclose(found.projected, 0.5)
    assert found.projected_accuracy == 0.5
    assert found.accuracy_gain == 0.5


def test_a_constant_model_interacts_with_nothing() -> None:
    assert emap(np.full((4, 4), 0.3)).interaction_share == 0


def test_through_a_session() -> None:
    model, seen = world(xor)
    samples = truth_table()
    session = Session(model, samples, model.answer(samples))
    assert emap_of(session, ["yes", "no"]).interaction_share == pytest.approx(1)
    assert len(set(seen.seen)) == 4  # 16 pairs, but only two different images and texts
    for found in Emap()(session):
        assert found.scalar == pytest.approx(0.5)
    model, _ = world(additive)
    session = Session(model, shades(5), ["yes"] * 5)
    assert max(abs(found.scalar) for found in Emap()(session)) < 1e-12
    assert emap_of(session, ["yes"]).interaction_share < 1e-12


def test_accuracy_needs_known_answers() -> None:
    from dataclasses import replace

    model, _ = world(xor)
    samples = truth_table()
    known = [replace(s, answer=a) for s, a in zip(samples, model.answer(samples), strict=True)]
    found = emap_of(Session(model, known), ["yes", "no"])
    assert (found.accuracy, found.projected_accuracy) == (1.0, pytest.approx(0.5))
    assert emap_of(Session(model, samples), ["yes", "no"]).accuracy is None


def test_batch_limits_the_company() -> None:
    model, seen = world(entangled)
    samples = shades(7)
    found = Emap(batch=4)(Session(model, samples, ["yes"] * 7))
    assert [a.passes for a in found] == [4] * 4 + [3] * 3  # two blocks: 4² and 3² passes for one answer
    assert len(seen.seen) <= 25
    # each block by itself: its members and its score are those of a session of their own
    for block in (slice(0, 4), slice(4, 7)):
        session = Session(model, samples[block], ["yes"] * len(samples[block]))
        alone = Emap(batch=4)(session)
        assert [a.scalar for a in found[block]] == pytest.approx([a.scalar for a in alone], abs=1e-12)
        assert found[block][0].notes[BLOCK] == pytest.approx(emap_of(session, ["yes"]).interaction_share)
        assert not any(a.notes for a in found[block][1:])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1)])
def test_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="EMAP needs"):
        emap(np.zeros(shape))

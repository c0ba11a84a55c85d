"""EMAP, InterSHAP, PID and the Harsanyi dividend on models whose interaction is known."""

from __future__ import annotations

import numpy as np
import pytest
from cell_worlds import additive, entangled, planted, shades, truth_table, white, world, xor
from hypothesis import given
from hypothesis import strategies as st

from karat.explainers.cross_pairs import BLOCK
from karat.explainers.modality import (
    Emap,
    Harsanyi,
    InterShap,
    Pid,
    emap,
    emap_of,
    intershap,
    pid_of_answers,
    synergy_share,
    values_of,
)
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.probe import Session

PUBLISHED = [[-1.3, 0.3, -0.2], [0.8, 3.0, 1.1], [1.1, -0.1, 0.7]]


def test_emap_of_the_published_example() -> None:
    np.testing.assert_allclose(emap(PUBLISHED).projected, [-0.8, 2.1, 0.5], atol=1e-12)


@given(st.integers(2, 8), st.integers(0, 10**6))
def test_a_sum_projects_onto_itself(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 1, 3)) + rng.normal(size=(1, n, 3))
    projection = emap(logits)
    np.testing.assert_allclose(projection.projected, projection.original, atol=1e-12)
    assert projection.interaction_share < 1e-12


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_the_projection_is_the_least_squares_fit_of_a_sum(n: int, seed: int) -> None:
    logits = np.random.default_rng(seed).normal(size=(n, n))
    design = np.zeros((n * n, 2 * n))
    for i in range(n):
        for j in range(n):
            design[i * n + j, [i, n + j]] = 1
    fitted = design @ np.linalg.lstsq(design, logits.ravel(), rcond=None)[0]
    projection = emap(logits)
    np.testing.assert_allclose(projection.projected, fitted.reshape(n, n)[np.arange(n), np.arange(n)], atol=1e-9)
    share = ((logits.ravel() - fitted) ** 2).sum() / ((logits - logits.mean()) ** 2).sum()
    assert projection.interaction_share == pytest.approx(share)


def test_xor_is_interaction_only_and_all_of_the_accuracy() -> None:
    image, question = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])  # all four combinations on the diagonal
    yes = (image[:, None] ^ question[None, :]).astype(float)
    table, labels = np.stack([1 - yes, yes], axis=-1), image ^ question
    projection = emap(table, labels)
    assert projection.interaction_share == pytest.approx(1)
    assert projection.accuracy == 1
    # the projection is flat, and a flat row is read as class 0
    np.testing.assert_allclose(projection.projected, 0.5)
    assert projection.projected_accuracy == 0.5
    assert projection.accuracy_gain == 0.5


def test_a_constant_model_interacts_with_nothing() -> None:
    assert emap(np.full((4, 4), 0.3)).interaction_share == 0


def test_emap_through_a_session() -> None:
    model, function = world(xor)
    samples = truth_table()
    session = Session(model, samples, model.answer(samples))
    assert emap_of(session, ["yes", "no"]).interaction_share == pytest.approx(1)
    assert len(set(function.inputs)) == 4  # 16 pairs, but only two different images and texts
    for attribution in Emap()(session):
        assert attribution.scalar == pytest.approx(0.5)
    model, _ = world(additive)
    session = Session(model, shades(5), ["yes"] * 5)
    assert max(abs(attribution.scalar) for attribution in Emap()(session)) < 1e-12
    assert emap_of(session, ["yes"]).interaction_share < 1e-12


def test_accuracy_of_emap_needs_known_answers() -> None:
    from dataclasses import replace

    model, _ = world(xor)
    samples = truth_table()
    known = [replace(s, answer=a) for s, a in zip(samples, model.answer(samples), strict=True)]
    projection = emap_of(Session(model, known), ["yes", "no"])
    assert (projection.accuracy, projection.projected_accuracy) == (1.0, pytest.approx(0.5))
    assert emap_of(Session(model, samples), ["yes", "no"]).accuracy is None


def test_blocks_of_emap_stand_by_themselves() -> None:
    model, function = world(entangled)
    samples = shades(7)
    attributions = Emap(batch=4)(Session(model, samples, ["yes"] * 7))
    assert [a.passes for a in attributions] == [4] * 4 + [3] * 3  # two blocks: 4² and 3² passes for one answer
    assert len(function.inputs) <= 25
    # each block by itself: its members and its score are those of a session of their own
    for block in (slice(0, 4), slice(4, 7)):
        session = Session(model, samples[block], ["yes"] * len(samples[block]))
        alone = Emap(batch=4)(session)
        assert [a.scalar for a in attributions[block]] == pytest.approx([a.scalar for a in alone], abs=1e-12)
        assert attributions[block][0].notes[BLOCK] == pytest.approx(emap_of(session, ["yes"]).interaction_share)
        assert not any(a.notes for a in attributions[block][1:])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1)])
def test_emap_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="EMAP needs"):
        emap(np.zeros(shape))


# ---- InterSHAP and the Harsanyi dividend


@pytest.mark.parametrize("absent", ["background", "absence"])
def test_a_sum_has_no_interaction(absent: str) -> None:
    model, _ = world(additive)
    session = Session(model, shades(5), ["yes"] * 5)
    assert max(attribution.scalar for attribution in InterShap(absent=absent, absence="black")(session)) < 1e-9
    assert intershap(values_of(session, absent, absence="black")[0]).overall < 1e-9


def test_an_xor_has_nothing_but_interaction() -> None:
    model, _ = world(xor)
    samples = truth_table()
    session = Session(model, samples)
    assert [attribution.scalar for attribution in InterShap()(session)] == pytest.approx([1.0] * 4)
    table, passes = values_of(session)
    assert intershap(table).overall == pytest.approx(1)
    assert passes == [10] * 4  # 3 N - 2


def test_one_modality_alone_has_no_interaction() -> None:
    model, _ = world(lambda bright, words: bright.mean(axis=1))
    for attribution in InterShap()(Session(model, shades(4), ["yes"] * 4)):
        assert attribution.scalar == pytest.approx(0, abs=1e-9)


def test_background_values_equal_their_definition() -> None:
    model, _ = world(entangled)
    samples = shades(4)
    session = Session(model, samples, ["yes"] * 4)
    table, _ = values_of(session)

    def value(image: Sample, text: Sample) -> float:
        return float(model.score([Sample("x", image.image, text.text)], ["yes"])[0])

    i = 2
    expected = [
        np.mean([value(s, s) for s in samples]),
        np.mean([value(samples[i], s) for s in samples]),
        np.mean([value(s, samples[i]) for s in samples]),
        value(samples[i], samples[i]),
    ]
    np.testing.assert_allclose(table[i], expected, atol=1e-12)


def test_blocks_of_intershap_stand_by_themselves() -> None:
    model, _ = world(entangled)
    samples, answers = shades(7), ["yes", "no"] * 3 + ["yes"]
    attributions = InterShap(batch=4)(Session(model, samples, answers))
    assert [BLOCK in a.notes for a in attributions] == [True, False, False, False, True, False, False]
    for block in (slice(0, 4), slice(4, 7)):
        session = Session(model, samples[block], answers[block])
        table, _ = values_of(session)
        assert [a.scalar for a in attributions[block]] == pytest.approx(intershap(table).local.tolist(), abs=1e-12)
        assert attributions[block][0].notes[BLOCK] == pytest.approx(intershap(table).overall)


def test_a_block_of_one_answer_has_no_intershap() -> None:
    """The signed means over a background are 2 d, -d, -d for any model that is not additive: that says nothing."""
    for function in (entangled, xor):
        model, _ = world(function)
        session = Session(model, shades(5), ["yes"] * 5)
        nothing, image, question, both = values_of(session)[0].mean(axis=0)
        assert both - image - question + nothing == pytest.approx(2 * (both - image))
        assert image - nothing == pytest.approx(question - nothing) == pytest.approx(-(both - image))
        [first, *rest] = InterShap()(session)
        assert np.isnan(first.notes[BLOCK])
        assert "one answer for the whole block" in first.reasons[BLOCK]
        assert not any(one.notes for one in rest)
        [first, *_] = InterShap(absent="absence", absence="black")(session)  # an absent state is no mean of the block
        assert np.isfinite(first.notes[BLOCK])


def test_the_overall_share_averages_signed_terms_first() -> None:
    table = np.array([[0.0, 0.2, 0.0, 0.5], [0.0, -0.2, 0.0, 0.1]])  # image terms cancel; interactions 0.3 and 0.3
    shares = intershap(table)
    np.testing.assert_allclose(shares.local, [0.6, 0.6])
    assert shares.overall == pytest.approx(1.0)


def test_no_reaction_is_no_number() -> None:
    assert np.isnan(intershap([[0.5] * 4]).local[0])


def test_harsanyi_is_exact_and_takes_four_passes() -> None:
    model, function = world(planted)
    [attribution] = Harsanyi(absence="black")(Session(model, [white()], ["yes"]))
    assert attribution.scalar == pytest.approx(0.4)
    assert attribution.passes == len(set(function.inputs)) == 4
    model, _ = world(additive)
    [none] = Harsanyi(absence="black")(Session(model, [white()], ["yes"]))
    assert none.scalar == pytest.approx(0, abs=1e-12)


def test_a_question_and_company_are_needed() -> None:
    model, _ = world(additive)
    with pytest.raises(BadInput, match="lacks one"):
        Harsanyi()(Session(model, [Sample("mute", white().image)], ["yes"]))
    with pytest.raises(BadInput, match="two or more"):
        InterShap()(Session(model, [white()], ["yes"]))
    with pytest.raises(BadInput, match=r"\(N, 4\)"):
        intershap(np.zeros((3, 3)))


# ---- PID of answers


def test_an_xor_is_all_synergy() -> None:
    model, _ = world(xor)
    session = Session(model, truth_table())
    attributions = Pid()(session)
    assert [a.scalar for a in attributions] == pytest.approx([1.0] * 4, abs=1e-4)
    assert attributions[0].notes[BLOCK] == pytest.approx(1.0, abs=1e-4)


def test_answers_by_one_modality_alone_have_no_synergy() -> None:
    for answers in (np.array([["a"] * 3, ["b"] * 3, ["b"] * 3]), np.array([["a", "b", "c"]] * 3)):
        assert synergy_share(pid_of_answers(answers)) == pytest.approx(0, abs=1e-4)
    assert synergy_share(pid_of_answers([["a", "a"], ["a", "a"]])) == 0


def test_what_emap_has_asked_is_free() -> None:
    model, function = world(xor)
    session = Session(model, shades(5), ["yes", "no", "yes", "no", "yes"])
    Emap()(session)
    before = len(function.inputs)
    Pid()(session)
    assert len(function.inputs) == before

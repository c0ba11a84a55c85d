"""InterSHAP and the Harsanyi dividend on models whose interaction is known."""

from __future__ import annotations

import numpy as np
import pytest
from asking_worlds import additive, entangled, planted, shades, truth_table, white, world, xor

from karat.explainers.crossing import BLOCK, blocks
from karat.explainers.modality import Harsanyi, InterShap, intershap, values_of
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.probe import Session


@pytest.mark.parametrize("absent", ["background", "absence"])
def test_a_sum_has_none(absent: str) -> None:
    model, _ = world(additive)
    session = Session(model, shades(5), ["yes"] * 5)
    assert max(found.scalar for found in InterShap(absent=absent, absence="black")(session)) < 1e-9
    assert intershap(values_of(session, absent, absence="black")[0]).overall < 1e-9


def test_an_xor_has_nothing_else() -> None:
    model, _ = world(xor)
    samples = truth_table()
    session = Session(model, samples)
    assert [found.scalar for found in InterShap()(session)] == pytest.approx([1.0] * 4)
    table, passes = values_of(session)
    assert intershap(table).overall == pytest.approx(1)
    assert passes == [10] * 4  # 3 N - 2


def test_one_modality_alone_has_none() -> None:
    model, _ = world(lambda bright, words: bright.mean(axis=1))
    for found in InterShap()(Session(model, shades(4), ["yes"] * 4)):
        assert found.scalar == pytest.approx(0, abs=1e-9)


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


def test_blocks_stand_by_themselves() -> None:
    model, _ = world(entangled)
    samples = shades(7)
    found = InterShap(batch=4)(Session(model, samples, ["yes"] * 7))
    assert [BLOCK in a.notes for a in found] == [True, False, False, False, True, False, False]
    for block in (slice(0, 4), slice(4, 7)):
        session = Session(model, samples[block], ["yes"] * len(samples[block]))
        table, _ = values_of(session)
        assert [a.scalar for a in found[block]] == pytest.approx(intershap(table).local.tolist(), abs=1e-12)
        assert found[block][0].notes[BLOCK] == pytest.approx(intershap(table).overall)


def test_a_lone_sample_is_never_left_over() -> None:
    model, _ = world(additive)
    for n in range(2, 12):
        session = Session(model, shades(n), ["yes"] * n)
        for size in (2, 3, 4, 16):
            cut = blocks(session, size, "x")
            assert [i for block in cut for i in block] == list(range(n))
            assert min(map(len, cut)) >= 2
            assert max(map(len, cut)) <= max(size, 3)


def test_the_overall_share_averages_signed_terms_first() -> None:
    table = np.array([[0.0, 0.2, 0.0, 0.5], [0.0, -0.2, 0.0, 0.1]])  # image terms cancel; interactions 0.3 and 0.3
    found = intershap(table)
    np.testing.assert_allclose(found.local, [0.6, 0.6])
    assert found.overall == pytest.approx(1.0)


def test_no_reaction_is_no_number() -> None:
    assert np.isnan(intershap([[0.5] * 4]).local[0])


def test_harsanyi_is_exact_and_takes_four_passes() -> None:
    model, seen = world(planted)
    [found] = Harsanyi(absence="black")(Session(model, [white()], ["yes"]))
    assert found.scalar == pytest.approx(0.4)
    assert found.passes == len(set(seen.seen)) == 4
    model, _ = world(additive)
    [none] = Harsanyi(absence="black")(Session(model, [white()], ["yes"]))
    assert none.scalar == pytest.approx(0, abs=1e-12)


def test_a_question_is_needed() -> None:
    model, _ = world(additive)
    with pytest.raises(BadInput, match="lacks one"):
        Harsanyi()(Session(model, [Sample("mute", white().image)], ["yes"]))
    with pytest.raises(BadInput, match="two or more"):
        InterShap()(Session(model, [white()], ["yes"]))
    with pytest.raises(BadInput, match=r"\(N, 4\)"):
        intershap(np.zeros((3, 3)))

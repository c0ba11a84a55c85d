"""DIME: contribution and interaction add up to the logit; a sum has no interaction; the published slip is there."""

from __future__ import annotations

import numpy as np
import pytest
from asking_worlds import additive, cells, entangled, planted, shades, world
from hypothesis import given
from hypothesis import strategies as st

from karat.explainers.interaction import Dime
from karat.explainers.interaction.dime import split_row
from karat.explainers.modality import Emap, emap
from karat.explainers.perturbation.surrogate import closeness, neighbours, ridge
from karat.kernel.errors import BadInput
from karat.probe import Session

SETTINGS = {"visual": (2, 2), "absence": "black", "alterations": 16, "batch": 4}


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_replacing_a_row_is_recomputing_the_matrix(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, row = rng.normal(size=(n, n)), rng.normal(size=(3, n))
    found = split_row(matrix, row)
    for k in range(3):
        changed = matrix.copy()
        changed[0] = row[k]
        uc = changed[0].mean() + changed[:, 0].mean() - changed.mean()
        assert found.uc[k] == pytest.approx(uc)
        assert found.uc[k] + found.mi[k] == pytest.approx(row[k, 0])


def test_contribution_and_interaction_add_up_to_the_score() -> None:
    model, seen = world(entangled)
    samples = shades(4)
    session = Session(model, samples, ["yes"] * 4)
    mi = Dime(**SETTINGS)(session)
    made = len(seen.seen)
    uc = Dime(**SETTINGS, part="uc")(session)
    assert len(seen.seen) == made  # the second half is free
    scores = model.score(samples, ["yes"] * 4)
    for a, b, score in zip(mi, uc, scores, strict=True):
        assert a.scalar + b.scalar == pytest.approx(score, abs=1e-12)
    assert max(abs(a.scalar) for a in mi) > 0.01
    # as EMAP has it
    for a, b in zip(mi, Emap(batch=4)(session), strict=True):
        assert a.scalar == pytest.approx(b.scalar, abs=1e-12)


def test_a_sum_has_no_interaction_to_explain() -> None:
    model, _ = world(additive)
    for found in Dime(**SETTINGS)(Session(model, shades(4), ["yes"] * 4)):
        assert abs(found.scalar) < 1e-12
        np.testing.assert_allclose(found.visual, 0, atol=1e-12)
        np.testing.assert_allclose(found.words, 0, atol=1e-12)


def test_maps_equal_a_slow_twin() -> None:
    model, _ = world(entangled)
    samples = shades(3)
    session = Session(model, samples, ["yes"] * 3)
    found = Dime(visual=(2, 2), absence="black", alterations=16, batch=3)(session)
    i = 1
    order = [1, 2, 0]
    bright = cells(np.stack([s.image for s in samples]))
    words = [set(s.text.split()) for s in samples]
    matrix = np.array([[entangled(bright[[j]], [words[k]])[0] for k in order] for j in order])
    rng = session.rng(i, "interaction/dime")
    keep = neighbours(4, 16, rng)
    corner = np.arange(4).reshape(2, 2).repeat(2, 0).repeat(2, 1).ravel()
    interaction = []
    for row in keep:
        changed = matrix.copy()
        changed[0] = [entangled((bright[i] * row[corner])[None], [words[k]])[0] for k in order]
        interaction.append(changed[0, 0] - (changed[0].mean() + changed[:, 0].mean() - changed.mean()))
    expected = ridge(keep, np.array(interaction), closeness(keep)).weights
    np.testing.assert_allclose(found[i].visual.ravel(), expected, atol=1e-10)


def test_interaction_points_at_the_planted_pair_and_contribution_does_not_have_to() -> None:
    """Half of the samples say "red": cell 5 then matters through the interaction."""
    model, _ = world(planted)
    found = Dime(visual=(4, 4), absence="black", alterations=120, batch=4)(Session(model, shades(4), ["yes"] * 4))
    assert np.argmax(np.abs(found[0].visual)) == 5
    assert np.argmax(np.abs(found[0].words)) == 2


def test_released_explains_the_whole_score() -> None:
    model, _ = world(additive)
    session = Session(model, shades(4), ["yes"] * 4)
    ours, theirs = Dime(**SETTINGS)(session), Dime(**SETTINGS, variant="released")(session)
    assert np.abs(theirs[0].visual).max() > 1e-4
    assert np.abs(ours[0].visual).max() < 1e-12


def test_passes_are_what_was_made() -> None:
    model, seen = world(entangled)
    dime = Dime(visual=(4, 4), absence="black", alterations=30, batch=3)
    samples = shades(3, texts=("is it red", "it is red", "red it is"))
    found = dime(Session(model, samples, ["yes"] * 3))
    assert sum(a.passes for a in found) >= len(set(seen.seen))
    assert all(a.passes <= dime.passes for a in found)


def test_one_sample_has_nothing_to_be_compared_with() -> None:
    model, _ = world(entangled)
    with pytest.raises(BadInput, match="two or more"):
        Dime(**SETTINGS)(Session(model, shades(1), ["yes"]))


def test_emap_of_the_matrix_agrees() -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 5))
    whole = split_row(matrix, matrix[:1])
    assert emap(matrix).projected[0] == pytest.approx(whole.uc[0])

"""DIME: contribution and interaction add up to the logit; a sum has no interaction; the published slip is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cell_worlds import additive, cells, entangled, image_values, planted, shades, world
from hypothesis import given
from hypothesis import strategies as st
from known_games import covered

from karat.explainers.interaction import Dime
from karat.explainers.interaction.dime import split_row
from karat.explainers.modality import Emap, emap
from karat.explainers.perturbation.lime import closeness, neighbours, ridge
from karat.kernel.errors import BadInput
from karat.probe import Session
from karat.probe.exact import coalitions

SETTINGS = {"visual": (2, 2), "absence": "black", "alterations": 16, "batch": 4}


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_replacing_a_row_is_recomputing_the_matrix(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, row = rng.normal(size=(n, n)), rng.normal(size=(3, n))
    split = split_row(matrix, row)
    for k in range(3):
        changed = matrix.copy()
        changed[0] = row[k]
        uc = changed[0].mean() + changed[:, 0].mean() - changed.mean()
        assert split.uc[k] == pytest.approx(uc)
        assert split.uc[k] + split.mi[k] == pytest.approx(row[k, 0])


def test_contribution_and_interaction_add_up_to_the_score() -> None:
    model, function = world(entangled)
    samples = shades(4)
    session = Session(model, samples, ["yes"] * 4)
    mi = Dime(**SETTINGS)(session)
    made = len(function.inputs)
    uc = Dime(**SETTINGS, part="uc")(session)
    assert len(function.inputs) == made  # the second half is free
    scores = model.score(samples, ["yes"] * 4)
    for a, b, score in zip(mi, uc, scores, strict=True):
        assert a.scalar + b.scalar == pytest.approx(score, abs=1e-12)
    assert max(abs(a.scalar) for a in mi) > 0.01
    # as EMAP has it
    for a, b in zip(mi, Emap(batch=4)(session), strict=True):
        assert a.scalar == pytest.approx(b.scalar, abs=1e-12)


def test_a_sum_has_no_interaction_to_explain() -> None:
    model, _ = world(additive)
    for attribution in Dime(**SETTINGS)(Session(model, shades(4), ["yes"] * 4)):
        assert abs(attribution.scalar) < 1e-12
        np.testing.assert_allclose(attribution.visual, 0, atol=1e-12)
        np.testing.assert_allclose(attribution.words, 0, atol=1e-12)


def test_maps_equal_a_slow_twin() -> None:
    model, _ = world(entangled)
    samples = shades(3)
    session = Session(model, samples, ["yes"] * 3)
    attributions = Dime(visual=(2, 2), absence="black", alterations=16, batch=3)(session)
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
    np.testing.assert_allclose(attributions[i].visual.ravel(), expected, atol=1e-10)


def test_interaction_points_at_the_planted_pair_and_contribution_does_not_have_to() -> None:
    """Half of the samples say "red": cell 5 then matters through the interaction."""
    model, _ = world(planted)
    attributions = Dime(visual=(4, 4), absence="black", alterations=120, batch=4)(
        Session(model, shades(4), ["yes"] * 4)
    )
    assert np.argmax(np.abs(attributions[0].visual)) == 5
    assert np.argmax(np.abs(attributions[0].words)) == 2


def test_released_explains_the_whole_score() -> None:
    model, _ = world(additive)
    session = Session(model, shades(4), ["yes"] * 4)
    ours, theirs = Dime(**SETTINGS)(session), Dime(**SETTINGS, variant="released")(session)
    assert np.abs(theirs[0].visual).max() > 1e-4
    assert np.abs(ours[0].visual).max() < 1e-12


def test_passes_are_what_was_made() -> None:
    model, function = world(entangled)
    dime = Dime(visual=(4, 4), absence="black", alterations=30, batch=3)
    samples = shades(3, texts=("is it red", "it is red", "red it is"))
    attributions = dime(Session(model, samples, ["yes"] * 3))
    assert sum(a.passes for a in attributions) >= len(set(function.inputs))
    assert all(a.passes <= dime.passes for a in attributions)


def test_one_sample_has_nothing_to_be_compared_with() -> None:
    model, _ = world(entangled)
    with pytest.raises(BadInput, match="two or more"):
        Dime(**SETTINGS)(Session(model, shades(1), ["yes"]))


def test_emap_of_the_matrix_agrees() -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 5))
    whole = split_row(matrix, matrix[:1])
    assert emap(matrix).projected[0] == pytest.approx(whole.uc[0])


# ---- error bars


TEXTS = ("is it red", "red", "it is", "is red")


@pytest.mark.parametrize("part", ["mi", "uc"])
def test_error_bars_cover_the_limit(part: str) -> None:
    """The limit: the image altered in all 2^16 ways, and the penalty grown with the number of alterations."""
    model, _ = world(entangled)
    samples = shades(3, texts=TEXTS)
    alterations = 120
    matrix = np.array(
        [[float(entangled(cells(a.image[None]), [set(b.text.split())])[0]) for b in samples] for a in samples]
    )
    row = np.stack([image_values(samples[0], tuple(s.text.split())) for s in samples], axis=1)
    split = split_row(matrix, row)
    keep = coalitions(16)
    near = closeness(keep)
    truth = ridge(keep, getattr(split, part), near, penalty=len(keep) / alterations).weights
    dime = Dime(visual=(4, 4), absence="black", alterations=alterations, batch=3, part=part)
    runs = [dime(Session(model, samples, ["yes"] * 3, seed=seed))[0] for seed in range(60)]
    values, errors = (np.stack([getattr(r, name).ravel() for r in runs]) for name in ("visual", "standard_error"))
    assert 0.88 < covered(values, errors, truth) < 0.99
    assert replace(dime, part="uc").passes == dime.passes

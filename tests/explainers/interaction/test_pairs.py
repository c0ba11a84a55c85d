"""Indices of pairs: exact on small games, zero for sums, planted pairs attribution, and how pairs become maps."""

from __future__ import annotations

import numpy as np
import pytest
from cell_worlds import additive, entangled, planted, shades, white, world

from karat.explainers.interaction import FaithShap, MultiShap, WeightedBanzhaf
from karat.explainers.interaction.pairs import reduced, synergy_share
from karat.kernel.errors import BadInput
from karat.probe import Absence, Game, Session, interaction_matrix

PAIR_METHODS = [MultiShap, FaithShap, WeightedBanzhaf]


@pytest.mark.parametrize("method", PAIR_METHODS)
def test_an_additive_model_has_no_interaction(method: type[MultiShap]) -> None:
    model, _ = world(additive)
    [attribution] = method(visual=(2, 2), absence="black", budget=128)(Session(model, [white()], ["yes"]))
    close = 1e-6 if method is FaithShap else 1e-12  # shapiq gives the two ends a large finite weight
    np.testing.assert_allclose(attribution.pairs, 0, atol=close)
    [sampled] = method(visual=(4, 4), absence="black", budget=1000)(Session(model, [white()], ["yes"]))
    np.testing.assert_allclose(sampled.pairs, 0, atol=1e-6)


@pytest.mark.parametrize("method", PAIR_METHODS)
def test_a_planted_pair_is_found(method: type[MultiShap]) -> None:
    model, function = world(planted)
    [attribution] = method(visual=(4, 4), absence="black", budget=1000)(Session(model, [white()], ["yes"]))
    expected = np.zeros((16, 3))
    expected[5, 2] = 0.4
    np.testing.assert_allclose(attribution.pairs, expected, atol=1e-6)
    np.testing.assert_allclose(attribution.visual.ravel(), expected.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(attribution.words, expected.mean(axis=0), atol=1e-6)
    assert attribution.scalar == pytest.approx(1, abs=1e-3)
    assert attribution.standard_error.shape == (16, 3)
    assert len(set(function.inputs)) <= attribution.passes <= 1000


def test_both_estimators_find_it() -> None:
    model, _ = world(planted)
    session = Session(model, [white()], ["yes"])
    for estimator in ("switching", "regression"):
        [attribution] = MultiShap(visual=(4, 4), absence="black", budget=600, estimator=estimator)(session)
        assert attribution.pairs[5, 2] == pytest.approx(0.4, abs=1e-6)
        assert np.abs(np.delete(attribution.pairs.ravel(), 5 * 3 + 2)).max() < 1e-6
        assert attribution.passes <= 600


def test_multishap_is_the_exact_index_on_small_games() -> None:
    model, function = world(entangled)
    session = Session(model, shades(2), ["yes"] * 2)
    attributions = MultiShap(visual=(3, 3), absence="black")(session)
    for i in range(2):
        game = session.game(i, visual=(3, 3), absence=Absence("black", "delete"))
        truth = interaction_matrix(Game(game.function, game.n_visual, game.n_text), method="exact").values
        np.testing.assert_allclose(attributions[i].pairs, truth, atol=1e-12)
    assert attributions[0].passes == 2**12
    assert len(set(function.inputs)) <= 2**12 + 2**10


def test_rules_of_reduction() -> None:
    indices = np.array([[1.0, -3.0], [2.0, 0.0]])
    assert reduced(indices, 1, "mean").tolist() == [-1.0, 1.0]
    assert reduced(indices, 1, "positive").tolist() == [0.5, 1.0]
    assert reduced(indices, 0, "absolute").tolist() == [1.5, 1.5]
    assert synergy_share(indices) == 0.5
    assert synergy_share(np.zeros((2, 2))) == 0.0


def test_a_question_is_needed() -> None:
    from karat.kernel.sample import Sample

    model, _ = world(additive)
    with pytest.raises(BadInput, match="needs an image and a question; a sample has 4 visual and 0 text players"):
        MultiShap(visual=(2, 2))(Session(model, [Sample("mute", white().image)], ["yes"]))

"""The front door: exact when small, an estimate with an error when not, never one pass over budget."""

from __future__ import annotations

import numpy as np
import pytest
from probe_worlds import game_of, saturated

from karat.kernel.errors import BadInput, UnknownName
from karat.probe import Game, banzhaf, harsanyi, interaction_index, interaction_matrix, shapley
from karat.probe.exact import banzhaf_values, mobius, shapley_interaction, shapley_interactions, shapley_values


def test_auto_chooses_by_budget() -> None:
    game = Game(lambda v, t: np.sqrt(v.sum(1)), 25)
    assert shapley(game, 400).method == "regression"
    assert shapley(game, 151).method == "permutation"
    assert shapley(Game(game.function, 8), 256).method == "exact"
    assert shapley(Game(game.function, 8), 255).method == "regression"
    with pytest.raises(BadInput, match="needs a budget of 146; got 100"):
        shapley(game, 100)
    with pytest.raises(BadInput, match="need a budget of 152 for this method; got 151"):
        shapley(game, 151, "stratified")
    with pytest.raises(BadInput, match="1 x 1 interactions need a budget of 64; got 63"):
        interaction_index(game, 0, 1, 63)
    with pytest.raises(UnknownName, match="regression"):
        shapley(game, 400, "regresion")


def test_same_seed_same_numbers_whatever_the_batch() -> None:
    game = game_of(saturated(13))
    first, second, other = (shapley(game, 400, rng=r, batch_size=b) for r, b in ((1, 64), (1, 7), (2, 64)))
    assert np.array_equal(first.values, second.values)
    assert not np.array_equal(first.values, other.values)


def test_the_front_door_is_exact_when_small_and_counts_its_passes() -> None:
    values = np.random.default_rng(1).normal(size=2**7)
    game = game_of(values, 4)
    for result, expected in (
        (shapley(game), shapley_values(values)),
        (banzhaf(game), banzhaf_values(values)),
        (harsanyi(game), mobius(values)),
        (interaction_matrix(game), shapley_interactions(values)[:4, 4:]),
        (interaction_index(game, 2, 5), shapley_interaction(values, 2, 5)),
    ):
        np.testing.assert_array_equal(result.values, expected)
        assert np.shape(result.standard_error) == np.shape(expected)
        assert np.all(result.standard_error == 0)
        assert (result.passes, result.method) == (2**7, "exact")
    assert abs(interaction_index(game, 2, 5) - shapley_interaction(values, 2, 5)) < 1e-12


def test_what_is_refused() -> None:
    with pytest.raises(BadInput, match="exact values stop at 20"):
        shapley(Game(lambda v, t: v.sum(1), 21), method="exact")
    with pytest.raises(BadInput, match="need 256 passes; the budget is 255"):
        shapley(Game(lambda v, t: v.sum(1), 8), method="exact", budget=255)
    with pytest.raises(BadInput, match="two different players"):
        interaction_index(Game(lambda v, t: v.sum(1), 4), 2, 2)
    with pytest.raises(BadInput, match="players of 0 to 3"):
        interaction_index(Game(lambda v, t: v.sum(1), 4), 2, 4)

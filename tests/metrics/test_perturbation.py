"""Insertion, deletion and SRG on games whose curves are known in closed form."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from karat.kernel.errors import BadInput
from karat.metrics import deletion, insertion, srg
from karat.metrics.perturbation import first_kept, integral, order_of
from karat.probe import Game

STEPS = np.linspace(0, 1, 11)


def test_unimodal_curves_of_a_linear_game() -> None:
    linear = Game(lambda visual, text: visual.mean(1), 10, 3)
    assert insertion(linear, range(10)).values == pytest.approx(STEPS)
    assert deletion(linear, range(10)).values == pytest.approx(1 - STEPS)
    assert insertion(linear, range(3), modality="text").value == pytest.approx(1)


def test_rounding_is_half_up_and_free_of_float_dust() -> None:
    assert first_kept(np.arange(10), 10, STEPS).sum(1).tolist() == list(range(11))
    assert first_kept(np.arange(3), 3, np.array([0.0, 0.5, 1.0])).sum(1).tolist() == [0, 2, 3]
    assert first_kept(np.arange(3), 3, np.array([0.0, 0.5, 1.0]), "floor").sum(1).tolist() == [0, 1, 3]
    assert first_kept(np.arange(10), 10, STEPS, "ceil").sum(1).tolist() == list(range(11))


def test_ties_are_broken_by_the_seed_alone() -> None:
    scores = [1.0, 2.0, 1.0, 1.0]
    assert order_of(scores, np.random.default_rng(3)).tolist() == order_of(scores, np.random.default_rng(3)).tolist()
    assert {tuple(order_of(scores, np.random.default_rng(s)).tolist()) for s in range(50)} == {
        (1, *rest) for rest in [(0, 2, 3), (0, 3, 2), (2, 0, 3), (2, 3, 0), (3, 0, 2), (3, 2, 0)]
    }


def test_srg_is_insertion_minus_deletion_and_shares_their_ends() -> None:
    counted = [0]

    def value(visual: np.ndarray, text: np.ndarray) -> np.ndarray:
        counted[0] += len(visual)
        return visual @ np.array([0.5, 0.3, 0.2, 0.0])

    game = Game(value, 4)
    apart = insertion(game, [0, 1, 2, 3], steps=5).value - deletion(game, [0, 1, 2, 3], steps=5).value
    counted[0] = 0
    assert srg(game, [0, 1, 2, 3], steps=5) == apart > 0
    assert counted[0] == 8  # two curves of five points, both ends in common
    assert srg(game, [3, 2, 1, 0], steps=5) == pytest.approx(-apart)


@pytest.mark.parametrize("n", range(1, 13))
@pytest.mark.parametrize("rounding", ["nearest", "floor", "ceil"])
@pytest.mark.parametrize("quadrature", ["mean", "trapezoid"])
def test_the_expected_srg_of_noise_is_zero(n: int, rounding: Any, quadrature: Any) -> None:
    """Deletion of an order is insertion of its reverse, in any game: over all orders SRG adds up to nothing."""
    rng = np.random.default_rng(n)
    worth = rng.random(2**n)  # a game without any structure
    game = Game(lambda visual, text: worth[visual @ (1 << np.arange(n))], n)
    for steps in (2, 5, 6, 11):
        order = rng.permutation(n)
        gone = deletion(game, order, steps, rounding=rounding, quadrature=quadrature)
        came = insertion(game, order[::-1], steps, rounding=rounding, quadrature=quadrature)
        np.testing.assert_array_equal(gone.values, came.values[::-1])
        assert srg(game, order, steps) == pytest.approx(-srg(game, order[::-1], steps), abs=1e-15)


@pytest.mark.parametrize("n", range(1, 7))
def test_the_mean_srg_over_all_orders_is_zero(n: int) -> None:
    worth = np.random.default_rng(n).random(2**n)
    game = Game(lambda visual, text: worth[visual @ (1 << np.arange(n))], n)
    assert np.mean([srg(game, order) for order in permutations(range(n))]) == pytest.approx(0, abs=1e-12)


def test_halves_of_a_feature_are_added_at_once_and_taken_away_late() -> None:
    """Five equal words: any order had an SRG of 1/11 where both curves rounded up."""
    equal = Game(lambda visual, text: text.mean(1), 1, 5)
    assert insertion(equal, range(5), modality="text").values * 5 == pytest.approx([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    assert deletion(equal, range(5), modality="text").values * 5 == pytest.approx([5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0])
    assert srg(equal, range(5), modality="text") == pytest.approx(0, abs=1e-15)


def test_the_trapezoid_halves_the_ends() -> None:
    values = np.array([0.0, 1.0, 1.0])
    shares = np.array([0.0, 0.5, 1.0])
    assert integral(values, shares) == pytest.approx(2 / 3)
    assert integral(values, shares, "trapezoid") == 0.75


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order": [0, 1]}, "must name each of its 10 players once"),
        ({"steps": 1}, "at least two steps"),
        ({"modality": "sound"}, "'visual' or 'text'"),
        ({"rounding": "up"}, "'nearest', 'floor' or 'ceil'"),
        ({"quadrature": "simpson"}, "'mean' or 'trapezoid'"),
    ],
)
def test_bad_requests(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        insertion(Game(lambda visual, text: visual.mean(1), 10), **{"order": range(10), **options})

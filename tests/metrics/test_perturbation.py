"""Insertion, deletion and SRG on games whose curves are known in closed form."""

from __future__ import annotations

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

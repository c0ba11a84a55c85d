"""F_syn and the unimodal curves on games whose answers are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.metrics import deletion, insertion, macro_interaction, srg, synergy
from karat.probe import Game

STEPS = np.linspace(0, 1, 11)


class Counted:
    """A value function that remembers which coalitions it was coalitions for."""

    def __init__(self, function) -> None:
        self.function, self.coalitions = function, []

    def __call__(self, visual, text):
        self.coalitions += [row.tobytes() for row in np.concatenate([visual, text], axis=1)]
        return self.function(visual, text)


def game(function, n_visual: int = 10, n_text: int = 10) -> Game:
    return Game(function, n_visual, n_text)


def literal(value, visual_order, text_order, steps: int) -> float:
    """F_syn written out step by step from the equations."""
    m, n = len(visual_order), len(text_order)
    areas = []
    for k in np.linspace(0, 1, steps):
        top_i, top_t = set(visual_order[: int(np.floor(k * m + 0.5))]), set(text_order[: int(np.floor(k * n + 0.5))])
        every_i, every_t = set(range(m)), set(range(n))

        def f(i, t):
            return value(np.array([[p in i for p in range(m)]]), np.array([[w in t for w in range(n)]]))[0]

        syn_del = (
            f(every_i - top_i, every_t - top_t)
            - f(every_i - top_i, every_t)
            - f(every_i, every_t - top_t)
            + f(every_i, every_t)
        )
        syn_ins = f(top_i, top_t) - f(top_i, set()) - f(set(), top_t) + f(set(), set())
        areas.append((syn_del + syn_ins) / 2)
    return float(np.mean(areas))


def test_additive_games_have_no_synergy() -> None:
    assert synergy(game(lambda v, t: 0.3 * v.mean(1) + 0.7 * t.mean(1)), range(10), range(10)).value == pytest.approx(
        0, abs=1e-12
    )


def test_a_product_scores_the_mean_of_k_squared_and_its_or_the_negative() -> None:
    product = synergy(game(lambda v, t: v.mean(1) * t.mean(1)), range(10), range(10))
    assert product.value == pytest.approx(np.mean(STEPS**2), abs=1e-12)
    assert product.insertion == pytest.approx(product.deletion, abs=1e-12)
    either = synergy(game(lambda v, t: v.mean(1) + t.mean(1) - v.mean(1) * t.mean(1)), range(10), range(10))
    assert either.value == pytest.approx(-np.mean(STEPS**2), abs=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 5), st.integers(2, 12))
def test_equal_to_the_equations_written_out(seed: int, m: int, n: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=m), rng.normal(size=n), rng.normal(size=(m, n))

    def value(v, t):
        return np.tanh(v @ a) + t @ b + np.einsum("ki,ij,kj->k", v * 1.0, c, t * 1.0)

    visual, text = rng.permutation(m), rng.permutation(n)
    result = synergy(Game(value, m, n), visual, text, steps)
    assert result.value == pytest.approx(literal(value, list(visual), list(text), steps), abs=1e-12)


def test_at_most_58_coalitions_and_no_coalition_twice() -> None:
    counted = Counted(lambda v, t: v.mean(1) * t.mean(1))
    synergy(game(counted, 20, 20), np.random.default_rng(0).permutation(20), range(20))
    assert len(counted.coalitions) == len(set(counted.coalitions)) == 58


def test_perfect_redundancy_fools_deletion_and_insertion_but_not_synergy() -> None:
    """fsyn2026 section 3.2: either modality suffices, so the perfect explainer gets the worst deletion score."""
    redundant = game(lambda v, t: (v[:, 0] | t[:, 0]) * 1.0, 5, 5)
    for order in (range(5), [4, 3, 2, 1, 0]):
        assert deletion(redundant, order).value == 1
        assert insertion(redundant, order).value == 1
        assert srg(redundant, order) == 0
    assert synergy(redundant, range(5), range(5)).value < synergy(redundant, [4, 3, 2, 1, 0], [4, 3, 2, 1, 0]).value < 0


def test_text_players_go_by_their_own_or_their_joint_number() -> None:
    some = game(lambda v, t: v.mean(1) * t[:, 0], 4, 3)
    assert synergy(some, range(4), [2, 0, 1]).value == synergy(some, range(4), [6, 4, 5]).value


def test_the_macro_game_of_a_product_is_its_dividend() -> None:
    """In a product of fractions the interaction of two groups is the product of their shares."""
    result = macro_interaction(game(lambda v, t: v.mean(1) * t.mean(1)), range(10), range(10), np.random.default_rng(0))
    assert result == pytest.approx(STEPS**2, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda g: synergy(g, [0, 1], range(10)), "must name each of its 10 players once"),
        (lambda g: synergy(g, range(10), range(10), steps=1), "at least two steps"),
        (lambda g: synergy(Game(lambda v, t: v.mean(1), 3, 0), range(3), []), "both modalities"),
    ],
)
def test_bad_requests(call, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        call(game(lambda v, t: v.mean(1) * t.mean(1)))

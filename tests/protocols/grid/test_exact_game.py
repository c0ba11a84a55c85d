"""Truth per game: what is left out is worth nothing, by full enumeration of small worlds in every empty state."""

from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.grid import generate
from karat.kernel.empty import EMPTY
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.sample import Sample
from karat.models.gridprog import GridProg
from karat.probe import Session, exact
from karat.probe.absence import Absence
from karat.protocols.grid.exact_game import exact_values


def session(variant: str, bucket: str, size: int = 3, n: int = 1) -> Session:
    samples = generate(bucket, n, seed=3, size=size, cell=16)
    return Session(GridProg(variant, size=size, cell=16).load(), samples, [str(s.answer) for s in samples])


@pytest.mark.parametrize("state", EMPTY)
@pytest.mark.parametrize("variant", ["pure", "spur"])
def test_it_is_the_whole_enumeration(variant: str, state: str) -> None:
    """All 2^9 coalitions of the cells, empty ones among them."""
    asked = session(variant, "D1_A_F0_d0.7")
    [truth] = exact_values(asked, state, text=None)
    game = asked.game(0, visual=(3, 3), text=None, absence=Absence(state))
    [table] = asked.ask([(game, exact.table(game.n))])
    assert truth.passes < len(table)
    whole = exact.shapley_values(table)
    np.testing.assert_allclose(truth.cells, whole, atol=2e-3)
    assert truth.cells.sum() == pytest.approx(table[-1] - table[0], abs=5e-3)
    assert abs(whole).max() > 0.05


def test_pairs_are_those_of_the_whole_enumeration() -> None:
    """All 2^12 coalitions of 9 cells and 3 phrases, in grey."""
    asked = session("pure", "D1_A_F0_d0.7")
    [truth] = exact_values(asked, "grey")
    game = asked.game(0, visual=(3, 3), text="phrases", absence=Absence("grey"))
    [table] = asked.ask([(game, exact.table(game.n))])
    np.testing.assert_allclose(np.concatenate([truth.cells, truth.text]), exact.shapley_values(table), atol=2e-3)
    np.testing.assert_allclose(truth.pairs, exact.shapley_interactions(table)[:9, 9:], atol=5e-3)
    assert abs(truth.pairs).max() > 0.05


def test_states_that_mean_empty_have_one_game_for_gridprog() -> None:
    asked = session("pure", "D1_A_F1_d0.3", size=4)
    white, *others = (exact_values(asked, state, text=None)[0] for state in EMPTY)
    for other in others:
        np.testing.assert_allclose(other.cells, white.cells, atol=0.02)
        assert white.agreement(white.cells) == pytest.approx(1.0)
        assert white.error(other.cells) < 0.01
    assert white.error(white.cells[::-1].copy()) > 0.01


def test_what_is_too_large_or_no_grid_is_refused_before_it_is_asked() -> None:
    asked = session("pure", "D2_M_F0_d0.7", size=6)
    with pytest.raises(BadInput, match="sparser bucket"):
        exact_values(asked, "white")
    with pytest.raises(UnknownName, match="noise"):
        exact_values(asked, "noise")
    plain = Sample("one", asked.samples[0].image, text=asked.samples[0].text)
    with pytest.raises(BadInput, match="no scene"):
        exact_values(Session(asked.model, [plain], ["1"]), "white")

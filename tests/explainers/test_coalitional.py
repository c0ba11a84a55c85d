"""What perturbation-based explainers share: groups of players, budgets that are refused or run, scores on words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cell_worlds import entangled, shades, white, world

from karat.explainers.coalitional import Coalitional, least_of_groups, player_count, player_groups
from karat.explainers.interaction import Dime, FaithShap, MultiShap, WeightedBanzhaf
from karat.explainers.perturbation import LeaveOneOut, Lime
from karat.explainers.shapley import KernelShap, Permutation, PixelShapTokenShap
from karat.kernel.errors import BadInput
from karat.kernel.roles import ChecksBudget, plays
from karat.kernel.sample import Phrase, Sample
from karat.probe import Session

BUDGETED: list[Any] = [
    KernelShap(visual=(4, 4)),
    KernelShap(visual=(4, 4), features="apart", control=True),
    Permutation(visual=(4, 4)),
    Permutation(visual=(4, 4), features="apart"),
    PixelShapTokenShap(visual=(4, 4), compare="probability"),
    PixelShapTokenShap(visual=(4, 4), compare="probability", variant="released"),
    Lime(visual=(4, 4)),
    Lime(visual=(4, 4), features="jointly"),
    MultiShap(visual=(4, 4)),
    MultiShap(visual=(4, 4), estimator="regression"),
    MultiShap(visual=(4, 4), variant="released"),
    FaithShap(visual=(4, 4)),
    WeightedBanzhaf(visual=(4, 4)),
    Dime(visual=(4, 4), batch=2),
]


@pytest.mark.parametrize("explainer", BUDGETED, ids=repr)
def test_the_smallest_budget_that_is_not_refused_runs(explainer: Any) -> None:
    """16 cells and 3 words: one less is refused before the model is asked, that many give finite scores."""
    name = "alterations" if isinstance(explainer, Dime) else "budget"
    least = next(k for k in range(1, 5000) if replace(explainer, **{name: k}).refuses(16, 3) is None)
    model, function = world(entangled)
    session = Session(model, shades(2, texts=("is it red",)), ["yes"] * 2)
    with pytest.raises(BadInput, match=rf"{explainer.card.name}.*16 visual.* {least} .*got {least - 1}\."):
        replace(explainer, **{name: least - 1})(session)
    assert not function.inputs
    for attribution in replace(explainer, **{name: least})(session):
        assert np.isfinite(attribution.visual).all()
        assert np.isfinite(attribution.words).all()


def test_players_are_counted_without_a_model() -> None:
    model, function = world(entangled)
    session = Session(model, [white(), Sample("mute", white().image)], ["yes"] * 2)
    assert [player_count(session, i, KernelShap(visual=(4, 4))) for i in range(2)] == [(16, 3), (16, 0)]
    counts = [player_count(session, i, KernelShap()) for i in range(2)]
    assert counts == [(49, 3), (49, 0)]  # 7 × 7 cells where there are no patches
    assert not function.inputs
    assert not plays(LeaveOneOut(), ChecksBudget)  # it asks as often as there are players


def test_groups_of_players() -> None:
    assert player_groups(4, 3, "jointly") == [range(7)]
    assert player_groups(4, 3, "apart") == [range(4), range(4, 7)]
    assert player_groups(4, 0, "apart") == [range(4)]
    assert player_groups(0, 3, "image") == []
    assert least_of_groups(4, 3, "apart", lambda n: 10 * n) == 2 * 40
    assert least_of_groups(0, 3, "image", lambda n: 10 * n) == 0


def test_words_of_a_phrase_share_its_score_evenly() -> None:
    sample = replace(white(), phrases=(Phrase((3, 9), "target"),))  # "it red"
    model, _ = world(lambda bright, words: np.array([0.25 * ("it" in text) for text in words]))
    [attribution] = LeaveOneOut(visual=(1, 1), text="phrases")(Session(model, [sample], ["yes"]))
    np.testing.assert_allclose(attribution.words, [0, 0.125, 0.125])


def test_names_of_players_are_checked() -> None:
    with pytest.raises(BadInput, match="visual"):
        Coalitional(visual="superpixel")  # type: ignore[arg-type]
    assert Coalitional(visual=[2, 3]).visual == (2, 3)  # type: ignore[arg-type]

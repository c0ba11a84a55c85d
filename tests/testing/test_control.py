"""The law of controls: held by ours, broken by a flat map of one cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from karat.explainers.control import BoxOnly, Center, Random, Uniform
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.testing import Broken, check_control


@pytest.mark.parametrize("control", [Uniform(), Random(cells=None), BoxOnly(), Center()])
def test_our_controls_do_not_depend_on_how_finely_they_are_sampled(control: Any) -> None:
    check_control(control)


@dataclass(frozen=True)
class OneCell:
    """What control/uniform was: read at the centre of its only cell, a point in the middle of the picture."""

    card: ClassVar[Card] = Uniform.card

    def __call__(self, session: Any) -> list[Attribution]:
        return [Attribution(np.ones((1, 1)), space="patch") for _ in session.samples]


def test_a_flat_map_of_one_cell_breaks_the_law() -> None:
    with pytest.raises(Broken, match=r"on 1 × 1 cells, .* when each is cut into 2 × 2"):
        check_control(OneCell())

"""An explainer: parameters, a card, one call over a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat import Attribution, Card


@dataclass(frozen=True)
class Surprise:
    """Cover one of `cells` × `cells` places at a time; the map is |p(all) - p(all but the place)|."""

    cells: int = 4
    card: ClassVar[Card] = Card(
        "example/surprise", "how far the answer moves when a place goes", "explainer", gives=frozenset({"visual"})
    )

    def __call__(self, session):
        keep = np.vstack([np.ones(self.cells**2, bool), ~np.eye(self.cells**2, dtype=bool)])
        games = [session.game(i, visual=(self.cells, self.cells), text=None) for i in range(len(session.samples))]
        found = []
        for value in session.evaluate([(game, keep) for game in games]):  # all samples in shared batches
            moved = np.abs(value[0] - value[1:]).reshape(self.cells, self.cells)
            found.append(Attribution(moved, space="patch", passes=len(keep)))
        return found

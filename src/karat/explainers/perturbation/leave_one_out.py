"""Leave-one-out: what the answer loses with each single feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat.explainers.asking import Asking, attribution, games
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.typing import Values
from karat.probe.evaluator import Question
from karat.probe.session import Session


@dataclass(frozen=True)
class LeaveOneOut(Asking):
    """v(all) - v(all but i), for every patch and every word. Sees no feature that another one stands in for."""

    passes: ClassVar[int] = 50  # players + 1; the exact number is in `Attribution.passes`
    card: ClassVar[Card] = Card(
        "perturbation/leave_one_out",
        "how much of the answer goes when a patch or a word goes, each alone",
        "explainer",
        gives=frozenset({"visual", "words"}),
        citation="Li et al. 2016, Understanding neural networks through representation erasure",
        passes="players + 1",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        asked = games(session, self)
        drops = session.ask([(game, left_out(game.n)) for game in asked])
        return [
            attribution(session, i, game, drop, passes=game.n + 1)
            for i, (game, drop) in enumerate(zip(asked, drops, strict=True))
        ]


def left_out(n: int) -> Question[Values]:
    """Drops (n,) of the value when one player is absent."""
    values = yield np.concatenate([np.ones((1, n), dtype=np.bool_), ~np.eye(n, dtype=np.bool_)])
    return np.asarray(values[0] - values[1:])

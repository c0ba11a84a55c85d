"""The Harsanyi dividend of image and question: two players, four passes, exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from karat.explainers.asking import Asking, games
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.probe.session import Session


@dataclass(frozen=True)
class Harsanyi(Asking):
    """v(both) - v(image) - v(question) + v(nothing), absence being the absent state."""

    visual: str | tuple[int, int] = (1, 1)
    passes: ClassVar[int] = 4
    card: ClassVar[Card] = Card(
        "modality/harsanyi",
        "what image and question bring only together, exactly",
        "explainer",
        needs=frozenset({"text"}),
        gives=frozenset({"scalar"}),
        citation="Harsanyi 1963, A simplified bargaining model for the n-person game",
        passes="4",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        nothing, image, question, both = four_values(session, self).T
        dividends = both - image - question + nothing
        return [Attribution(scalar=float(dividend), signed=True, passes=4) for dividend in dividends]


def four_values(session: Session, asking: Asking) -> npt.NDArray[np.float64]:
    """(N, 4) values of nothing, the image, the question, both. On the players of `asking`, so answers are shared."""
    asked = games(session, asking)
    requests = []
    for game in asked:
        if not (game.n_visual and game.n_text):
            raise BadInput(f"two modalities need an image and a question; sample {game.setting.sample.id} lacks one.")
        keep = np.zeros((4, game.n), dtype=np.bool_)
        keep[[1, 3], : game.n_visual] = True
        keep[[2, 3], game.n_visual :] = True
        requests.append((game, keep))
    return np.stack(session.evaluate(requests))

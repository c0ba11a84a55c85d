"""What the answer loses while features are absent: each single one, or all that a sliding square covers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from karat.explainers.coalitional import Coalitional, TextPlayers, ValueKind, attribution, games, value_kind
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.probe.absence import Absence, CoalitionAbsence
from karat.probe.evaluator import Question
from karat.probe.session import Session

_card = partial(Card, kind="explainer")


@dataclass(frozen=True)
class LeaveOneOut(Coalitional):
    """v(all) - v(all but i), for every patch and every word. Sees no feature that another one stands in for."""

    passes: ClassVar[int] = 50  # players + 1; the exact number is in `Attribution.passes`
    card: ClassVar[Card] = _card(
        "perturbation/leave_one_out",
        "how much of the answer goes when a patch or a word goes, each alone",
        gives=frozenset({"visual", "words"}),
        citation="Li et al. 2016, Understanding neural networks through representation erasure",
        passes="players + 1",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        played = games(session, self)
        drops = session.ask([(game, single_drops(game.n)) for game in played])
        return [
            attribution(session, i, game, drop, passes=game.n + 1)
            for i, (game, drop) in enumerate(zip(played, drops, strict=True))
        ]


def single_drops(n: int) -> Question[Values]:
    """Drops (n,) of the value when one player is absent."""
    values = yield np.concatenate([np.ones((1, n), dtype=np.bool_), ~np.eye(n, dtype=np.bool_)])
    return np.asarray(values[0] - values[1:])


@dataclass(frozen=True)
@checked
class Occlusion:
    """`window` × `window` of `cells` × `cells` places are covered at a time; the window moves by one place.

    A place's score is the mean drop over the windows that cover it. `absence`: what covers; `value`, `text` as for
    `Coalitional`.
    """

    cells: Annotated[int, Ge(1)] = 14
    window: Annotated[int, Ge(1)] = 3
    absence: CoalitionAbsence = "grey"
    value: ValueKind = "probability"
    text: TextPlayers = "words"
    card: ClassVar[Card] = _card(
        "perturbation/occlusion",
        "how much of the answer goes while a grey square covers a place",
        gives=frozenset({"visual"}),
        citation="Zeiler & Fergus 2014, Visualizing and understanding convolutional networks; pixelrules2024",
        departures="window and step are shares of the image; the papers give neither",
        passes="(cells - window + 1)² + 1",
    )

    def __post_init__(self) -> None:
        if self.window > self.cells:
            raise BadInput(f"{self.card.name}: a window of {self.window} does not fit {self.cells} cells.")

    @property
    def passes(self) -> int:
        return (self.cells - self.window + 1) ** 2 + 1

    def __call__(self, session: Session) -> list[Attribution]:
        absence, value = Absence(self.absence), value_kind(session, self.value)
        played = [
            session.game(i, visual=(self.cells, self.cells), text=self.text, absence=absence, value=value)
            for i in range(len(session.samples))
        ]
        covered = windows(self.cells, self.window)
        drops = session.ask([(game, window_drops(covered, game.n_text)) for game in played])
        return [
            attribution(session, i, game, np.append(drop, [np.nan] * game.n_text), passes=self.passes)
            for i, (game, drop) in enumerate(zip(played, drops, strict=True))
        ]


def windows(cells: int, window: int) -> Keep:
    """(positions, cells²), True where a window covers a cell."""
    starts = cells - window + 1
    line = np.arange(cells)[None] - np.arange(starts)[:, None]
    along = (line >= 0) & (line < window)  # (starts, cells)
    return (along[:, None, :, None] & along[None, :, None, :]).reshape(starts * starts, cells * cells)


def window_drops(covered: Keep, n_text: int) -> Question[Values]:
    """Mean drop (cells²,) over the windows that cover each cell; the text is always there."""
    visual = np.concatenate([np.ones((1, covered.shape[1]), dtype=np.bool_), ~covered])
    values = yield np.concatenate([visual, np.ones((len(visual), n_text), dtype=np.bool_)], axis=1)
    return np.asarray((values[0] - values[1:]) @ covered / covered.sum(axis=0))

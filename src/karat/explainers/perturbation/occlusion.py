"""Occlusion: a square slides over the image, and the map says what the answer lost while a place was covered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from karat.explainers.asking import ValueKind, attribution, kind
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.probe.absence import Absence
from karat.probe.evaluator import Question
from karat.probe.session import Session


@dataclass(frozen=True)
class Occlusion:
    """`window` × `window` of `cells` × `cells` places are covered at a time; the window moves by one place.

    A place's score is the mean drop over the windows that cover it.
    """

    cells: int = 14
    window: int = 3
    absence: str = "grey"
    value: ValueKind = "probability"
    text: Literal["words", "phrases"] = "words"
    card: ClassVar[Card] = Card(
        "perturbation/occlusion",
        "how much of the answer goes while a grey square covers a place",
        "explainer",
        gives=frozenset({"visual"}),
        citation="Zeiler & Fergus 2014, Visualizing and understanding convolutional networks; pixelrules2024",
        departures="window and step are shares of the image; the papers give neither",
        passes="(cells - window + 1)² + 1",
    )

    @property
    def passes(self) -> int:
        return (self.cells - self.window + 1) ** 2 + 1

    def __call__(self, session: Session) -> list[Attribution]:
        if not 1 <= self.window <= self.cells:
            raise BadInput(f"an occlusion window of {self.window} does not fit {self.cells} cells.")
        grid = (self.cells, self.cells)
        asked = [
            session.game(i, visual=grid, text=self.text, absence=Absence(self.absence), value=kind(session, self.value))
            for i in range(len(session.samples))
        ]
        covered = windows(self.cells, self.window)
        found = session.ask([(game, occluded(covered, game.n_text)) for game in asked])
        return [
            attribution(session, i, game, np.append(drop, [np.nan] * game.n_text), passes=self.passes)
            for i, (game, drop) in enumerate(zip(asked, found, strict=True))
        ]


def windows(cells: int, window: int) -> Keep:
    """(positions, cells²), True where a window covers a cell."""
    starts = cells - window + 1
    line = np.arange(cells)[None] - np.arange(starts)[:, None]
    along = (line >= 0) & (line < window)  # (starts, cells)
    return (along[:, None, :, None] & along[None, :, None, :]).reshape(starts * starts, cells * cells)


def occluded(covered: Keep, n_text: int) -> Question[Values]:
    """Mean drop (cells²,) over the windows that cover each cell; the text is always there."""
    visual = np.concatenate([np.ones((1, covered.shape[1]), dtype=np.bool_), ~covered])
    values = yield np.concatenate([visual, np.ones((len(visual), n_text), dtype=np.bool_)], axis=1)
    return np.asarray((values[0] - values[1:]) @ covered / covered.sum(axis=0))

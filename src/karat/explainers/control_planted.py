"""Controls for planted shortcuts: the truth that `pixel` measures with, as explanations held to the same measures.

The pixels of the patch play, and a pixel that is absent is the clean one: patches are small and their absent state is a
real image, so nothing the model has never seen is shown to it (pixelrules2024 section 3.2). A session keeps the truth
about its samples: it is asked for once, however many explanations are held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from karat.datasets.shortcut.sample import shortcut_samples
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.typing import Values
from karat.probe.absence import Absence
from karat.probe.coalitions import ModelGame
from karat.probe.session import Session
from karat.probe.trials import Effort, PooledEstimate, pooled_shapley

_card = partial(Card, kind="explainer", gives=frozenset({"visual"}))


@dataclass(frozen=True)
@checked
class PlantedShapley:
    """Shapley values of the pixels of the patch, zero elsewhere: the ground truth of `pixel`."""

    effort: Effort = field(default_factory=Effort)
    card: ClassVar[Card] = _card(
        "control/planted_shapley",
        "Shapley values of the pixels of a planted shortcut, with the clean image as their absence",
        citation="pixelrules2024 Eq. 2",
        passes="trials × budget at most",
    )

    @property
    def passes(self) -> int:
        return self.effort.budget * max(self.effort.trials, 2)

    def __call__(self, session: Session) -> list[Attribution]:
        samples = shortcut_samples(session.samples)
        truths = patch_shapley(session, range(len(samples)), self.effort)
        return [
            Attribution(
                visual=sample.patch_map(truths[i].values),
                standard_error=sample.patch_map(truths[i].standard_error),
                signed=True,
                passes=truths[i].passes,
            )
            for i, sample in enumerate(samples)
        ]


@dataclass(frozen=True)
class PlantedSingleDeletion:
    """Each pixel of the patch by what goes when it goes alone: the baseline that takes pixels for independent."""

    card: ClassVar[Card] = _card(
        "control/planted_deletion",
        "what goes when a pixel of a planted shortcut goes alone, with the clean image as its absence",
        citation="pixelrules2024 section 4.3, SD",
        passes="pixels of the patch + 1",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        samples = shortcut_samples(session.samples)
        drops = patch_deletion(session, range(len(samples)))
        return [
            Attribution(visual=sample.patch_map(drops[i]), signed=True, passes=len(drops[i]) + 1)
            for i, sample in enumerate(samples)
        ]


def patch_game(session: Session, i: int) -> ModelGame:
    """Players are the D pixels of the patch, row by row; the value is the probability of the sample's class."""
    sample = shortcut_samples(session.samples)[i]
    absence = Absence(visual="given", image=sample.twin)
    return session.game(i, visual=sample.patch_labels, text=None, absence=absence, target=str(sample.answer))


def patch_shapley(
    session: Session, positions: Sequence[int], effort: Effort, draw: str = "planted"
) -> dict[int, PooledEstimate]:
    """Shapley values (D,) of the patches of some of the samples, all asked for together; once a session.

    Another `draw` has random streams of its own: an independent estimate of the same values.
    """
    truths: dict[int, PooledEstimate] = session.memo((f"{draw}/shapley", effort), dict)
    games = {i: patch_game(session, i) for i in positions if i not in truths}
    streams = {i: partial(_stream, session, i, f"{draw}/{effort.method}") for i in games}
    questions = [(game, pooled_shapley(game.n, effort, streams[i])) for i, game in games.items()]
    truths.update(zip(games, session.ask(questions), strict=True))
    return {i: truths[i] for i in positions}


def patch_deletion(session: Session, positions: Sequence[int]) -> dict[int, Values]:
    """What goes when a pixel goes alone: v(all) - v(all but it). Blind to pixels that stand in for each other."""
    requests = []
    for i in positions:
        game = patch_game(session, i)
        requests.append((game, np.concatenate([np.ones((1, game.n), dtype=np.bool_), ~np.eye(game.n, dtype=bool)])))
    return {i: values[0] - values[1:] for i, values in zip(positions, session.evaluate(requests), strict=True)}


def _stream(session: Session, i: int, name: str, trial: int) -> np.random.Generator:
    return session.rng(i, f"{name}/{trial}")

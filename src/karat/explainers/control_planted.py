"""Controls for planted shortcuts: the truth that `pixel` measures with, as explanations held to the same measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.probe.planted import Effort, planted
from karat.probe.session import Session

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
        known = planted(session)
        everyone = range(len(session.samples))
        truths = known.shapley(everyone, self.effort)
        return [
            Attribution(
                visual=known.on_image(i, truths[i].values),
                standard_error=known.on_image(i, truths[i].standard_error),
                signed=True,
                passes=truths[i].passes,
            )
            for i in everyone
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
        known = planted(session)
        everyone = range(len(session.samples))
        drops = known.single_deletion(everyone)
        return [
            Attribution(visual=known.on_image(i, drops[i]), signed=True, passes=len(drops[i]) + 1) for i in everyone
        ]

"""Scores one explanation by every metric at once, so that a run over the ladder puts the metrics on trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.row import Outcomes
from karat.metrics.localization import OtsuIoU, RelevanceMass, Spuriousity
from karat.metrics.ranking import PointingGame, RelevanceRank
from karat.probe.session import Session
from karat.protocols.common.localize import pair
from karat.protocols.grid.readings import READINGS, Reading
from karat.protocols.synergy.protocol import Synergy

if TYPE_CHECKING:
    from karat.kernel.finding import Finding
    from karat.results.run import Run

_GRID = {reading.card.name: reading for reading in READINGS}
_PAPER, _OWN, _WORDS = _GRID["mass"].truth, _GRID["own_mass"].truth, _GRID["own_words"].truth


def _against(name: str, metric: RelevanceMass | OtsuIoU | Spuriousity | PointingGame | RelevanceRank) -> Reading:
    """The same metric held against the objects a question names: what a user without a mechanism has to do."""
    summary = f"{metric.card.summary}: the objects that the question names"
    return Reading(dataclasses.replace(metric.card, name=name, summary=summary), metric, "visual", _PAPER)


# Papers hold maps against the objects that a question names; `own_*` against what this very model must use.
_READ = (
    *(_GRID[name] for name in ("own_mass", "own_words", "mass", "corrected_mass", "iou")),
    _against("spuriousity", Spuriousity()),
    _against("pointing_game", PointingGame()),
    _against("relevance_rank", RelevanceRank()),
)


@dataclass(frozen=True)
class Audit:
    """Every metric that can be read off a map, word scores or altered inputs, on the certified grid.

    `steps` of the perturbation curves: each costs eight forward passes an explanation.
    """

    steps: Annotated[int, Ge(1)] = 7
    card: ClassVar[Card] = Card(
        "audit", "can the metric itself be trusted, on explanations and models whose truth is known?", "protocol",
        needs=frozenset({"text", "mechanism"}), citation="ours",
    )  # fmt: skip

    @property
    def label(self) -> str:
        return self.card.name

    @property
    def _synergy(self) -> Synergy:
        return Synergy(steps=self.steps)

    @property
    def passes(self) -> float:
        return self._synergy.passes

    @property
    def scores(self) -> tuple[Card, ...]:
        return (*(reading.card for reading in _READ), *self._synergy.scores)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        outcomes: dict[str, Outcomes] = {}
        for reading in _READ:
            truths = [reading.truth(sample, session.model.mechanism) for sample in session.samples]
            outcomes[reading.card.name] = pair(attributions, reading.part, truths.__getitem__).score(reading.metric)
        return {**outcomes, **self._synergy.score(session, attributions)}

    def findings(self, run: Run) -> list[Finding]:
        from karat.protocols.audit.findings import findings  # pandas and SciPy: `karat ls` need not wait for them

        return findings(run)

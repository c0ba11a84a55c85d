"""Protocol `localization`: how much of the map lies on the regions that should matter? For any dataset with masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from assay.kernel.attribution import Attribution
from assay.kernel.card import Card
from assay.kernel.row import Outcomes
from assay.metrics.localization import CorrectedMass, OtsuIoU, RelevanceMass, Spuriousity
from assay.metrics.ranking import Hit
from assay.probe.session import Session
from assay.protocols.localize import pair


@dataclass(frozen=True)
class Localization:
    """Scores every map against the union of the regions that have one of `roles`."""

    roles: tuple[str, ...] = ("target",)
    card: ClassVar[Card] = Card(
        "localization", "does the map lie on the regions that should matter? Any images with masks", "protocol"
    )

    @property
    def scores(self) -> tuple[Card, ...]:
        return tuple(metric.card for metric in _METRICS)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        masks = [sample.mask(*self.roles) for sample in session.samples]
        pairs = pair(attributions, "visual", masks.__getitem__)
        return {metric.card.name: pairs.score(metric) for metric in _METRICS}


_METRICS = (RelevanceMass(), CorrectedMass(), OtsuIoU(), Spuriousity(), Hit())

"""Protocol `localization`: how much of the map lies on the regions that should matter? For any dataset with masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest, source
from karat.kernel.registry import build, find
from karat.kernel.row import Outcomes
from karat.metrics.localization import CorrectedMass, OtsuIoU, RelevanceMass, Spuriousity
from karat.metrics.ranking import Hit
from karat.probe.session import Session
from karat.protocols.common.localize import pair, takes_masks


@dataclass(frozen=True)
class Localization:
    """Scores every map against the union of the regions that have one of `roles`.

    `metrics` are further metrics that are called with maps and masks: registered names, or `package.module:Name`.
    """

    roles: tuple[str, ...] = ("target",)
    metrics: tuple[str, ...] = ()
    card: ClassVar[Card] = Card(
        "localization", "does the map lie on the regions that should matter? Any images with masks", "protocol"
    )

    @property
    def scores(self) -> tuple[Card, ...]:
        return tuple(metric.card for metric in self._chosen)

    @property
    def revision(self) -> str:
        """Changes with the code of metrics of other packages: rows of old code must not pass for new."""
        metrics = [find("metric", name) for name in self.metrics]
        return digest([[cls.card.name, cls.card.version, source(cls)] for cls in metrics])

    @cached_property
    def _chosen(self) -> tuple[Any, ...]:
        for name in self.metrics:
            if not takes_masks(name):
                raise BadInput(f"localization: {name} is not called with (maps, masks), which is all there is here.")
        return (*_METRICS, *(build("metric", name, {}) for name in self.metrics))

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        masks = [sample.mask(*self.roles) for sample in session.samples]
        pairs = pair(attributions, "visual", masks.__getitem__)
        return {metric.card.name: pairs.score(metric) for metric in self._chosen}


_METRICS = (RelevanceMass(), CorrectedMass(), OtsuIoU(), Spuriousity(), Hit())

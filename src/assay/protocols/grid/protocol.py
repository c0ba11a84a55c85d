"""Scores of one explanation on the certified grid: against the paper's truth, the model's own, and the shortcut."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from assay.kernel.attribution import Attribution, Part
from assay.kernel.card import Card
from assay.kernel.finding import Finding
from assay.kernel.row import Outcomes
from assay.kernel.sample import Sample
from assay.metrics.localization import CorrectedMass, OtsuIoU, RelevanceMass
from assay.probe.session import Session
from assay.protocols.localize import MapMetric, Pairs, pair

if TYPE_CHECKING:
    import pandas as pd

Mask = np.ndarray[Any, Any] | None
Truths = Callable[[Sample, str | None], Mask]


@dataclass(frozen=True)
class _Reading:
    """One score: a metric, the part of the attribution it reads, and the truth it is held against."""

    card: Card
    metric: MapMetric
    part: Part
    truth: Truths


def _anchors_and_targets(sample: Sample, mechanism: str | None) -> Mask:
    """gridvqax2026 section 5: anchors ∪ targets, whatever the model did."""
    return sample.mask("target", "anchor")


def _own_regions(sample: Sample, mechanism: str | None) -> Mask:
    """What this model must look at, by its mechanism; unknown for models that do not say."""
    truth = sample.truth(mechanism) if mechanism else None
    return None if truth is None else truth.visual


def _own_words(sample: Sample, mechanism: str | None) -> Mask:
    truth = sample.truth(mechanism) if mechanism else None
    return None if truth is None or truth.words is None else np.array(truth.words, dtype=np.bool_)


def _adversarial(sample: Sample, mechanism: str | None) -> Mask:
    """Objects that match the target's words and break its relations: what a shortcut counts and a reasoner must not."""
    return sample.mask("adversarial")


def _anchors(sample: Sample, mechanism: str | None) -> Mask:
    return sample.mask("anchor")


def _relation_words(sample: Sample, mechanism: str | None) -> Mask:
    return np.array(sample.word_mask("relation"), dtype=np.bool_)


def _named(metric: Any, name: str, summary: str, **changes: Any) -> Card:
    return dataclasses.replace(metric.card, name=name, summary=summary, **changes)


_READINGS = (
    _Reading(
        _named(CorrectedMass, "own_mass", "mass on what this very model must use, corrected for area"),
        CorrectedMass(), "visual", _own_regions,
    ),
    _Reading(
        _named(RelevanceMass, "mass", "share of the map on anchors and targets (RMA)"),
        RelevanceMass(), "visual", _anchors_and_targets,
    ),
    _Reading(
        _named(OtsuIoU, "iou", "overlap of the thresholded map with anchors and targets"),
        OtsuIoU(), "visual", _anchors_and_targets,
    ),
    _Reading(
        _named(RelevanceMass, "distractor_mass", "share of the map on objects that only a shortcut counts",
               direction="none", departures="right is 0 for a model that reasons, high for one that matches words"),
        RelevanceMass(), "visual", _adversarial,
    ),
    _Reading(
        _named(RelevanceMass, "anchor_mass", "share of the map on the objects that targets are placed against",
               direction="none", departures="right is above 0 for a model that reasons, 0 for one that matches words"),
        RelevanceMass(), "visual", _anchors,
    ),
    _Reading(
        _named(CorrectedMass, "own_words", "mass on the words this very model must use, corrected for their number"),
        CorrectedMass(), "words", _own_words,
    ),
    _Reading(
        _named(RelevanceMass, "relation_mass", "share of the word scores on left of, right of, above, below",
               direction="none", departures="right is high for a model that reasons, 0 for one that matches words"),
        RelevanceMass(), "words", _relation_words,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Scores maps and word scores on samples of `assay.datasets.grid`."""

    card: ClassVar[Card] = Card(
        "grid", "can the explainer tell a model that reasons from a twin that takes a shortcut?", "protocol",
        needs=frozenset({"text"}), citation="gridvqax2026",
    )  # fmt: skip

    @property
    def scores(self) -> tuple[Card, ...]:
        return tuple(reading.card for reading in _READINGS)

    def findings(self, scores: pd.DataFrame) -> list[Finding]:
        """The verdict on every explainer, where both twins of a family explained the same samples."""
        from assay.protocols.grid.verdict import (
            sentences,
            verdict,
        )  # pandas and SciPy: `assay ls` need not wait for them

        table = verdict(scores)
        if table.empty:
            return []
        return [
            Finding(
                title="Which twin made this explanation?",
                about="Both twins answer the same questions for different reasons. The AUC says how well a classifier, "
                "fitted on other samples, tells them apart by what their explanations put on distractors, anchors and "
                "relation words: 0.5 is blind, 1 sees.",
                sentences=tuple(sentences(table)),
                columns=tuple(table.columns),
                rows=tuple(table.itertuples(index=False, name=None)),
            )
        ]

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        mechanism = session.model.mechanism
        paired: dict[tuple[Part, Truths], Pairs] = {}
        for reading in _READINGS:
            key = reading.part, reading.truth
            if key not in paired:
                truths = [reading.truth(sample, mechanism) for sample in session.samples]
                paired[key] = pair(attributions, reading.part, truths.__getitem__)
        return {reading.card.name: paired[reading.part, reading.truth].score(reading.metric) for reading in _READINGS}

"""What protocol `grid` reads off one explanation: which part, by which metric, against which truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from karat.explainers.cross_pairs import BLOCK
from karat.kernel.attribution import Attribution, Part
from karat.kernel.card import Card
from karat.kernel.row import Outcomes
from karat.kernel.sample import Sample
from karat.metrics.localization import CorrectedMass, OtsuIoU, RelevanceMass
from karat.protocols.common.localize import MapMetric

Mask = np.ndarray[Any, Any] | None
Truths = Callable[[Sample, str | None], Mask]


@dataclass(frozen=True)
class Reading:
    """One score: a metric, the part of the attribution it reads, and the truth it is held against.

    `own` marks truths that hold only where the model answered as its mechanism does.
    """

    card: Card
    metric: MapMetric
    part: Part
    truth: Truths
    own: bool = False


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


_BY_TWIN = "right is 0 for a model that reasons, high for one that matches words"

READINGS = (
    Reading(
        _named(CorrectedMass, "own_mass", "mass on what this very model must use, corrected for area"),
        CorrectedMass(), "visual", _own_regions, own=True,
    ),
    Reading(
        _named(RelevanceMass, "mass", "share of the map on anchors and targets (RMA)"),
        RelevanceMass(), "visual", _anchors_and_targets,
    ),
    Reading(
        _named(OtsuIoU, "iou", "overlap of the thresholded map with anchors and targets"),
        OtsuIoU(), "visual", _anchors_and_targets,
    ),
    Reading(
        _named(CorrectedMass, "corrected_mass", "share of the map on anchors and targets, corrected for their area"),
        CorrectedMass(), "visual", _anchors_and_targets,
    ),
    Reading(
        _named(RelevanceMass, "distractor_mass", "share of the map on objects that only a shortcut counts",
               direction="none", departures=_BY_TWIN),
        RelevanceMass(), "visual", _adversarial,
    ),
    Reading(
        _named(OtsuIoU, "distractor_iou", "overlap of the thresholded map with objects that only a shortcut counts",
               direction="none", departures=_BY_TWIN),
        OtsuIoU(), "visual", _adversarial,
    ),
    Reading(
        _named(RelevanceMass, "anchor_mass", "share of the map on the objects that targets are placed against",
               direction="none", departures="right is above 0 for a model that reasons, 0 for one that matches words"),
        RelevanceMass(), "visual", _anchors,
    ),
    Reading(
        _named(CorrectedMass, "own_words", "mass on the words this very model must use, corrected for their number"),
        CorrectedMass(), "words", _own_words, own=True,
    ),
    Reading(
        _named(RelevanceMass, "relation_mass", "share of the word scores on left of, right of, above, below",
               direction="none", departures="right is high for a model that reasons, 0 for one that matches words"),
        RelevanceMass(), "words", _relation_words,
    ),
)  # fmt: skip

INTERACTION = Card(
    "interaction", "the method's own number for this sample: how much image and question bring together", "metric"
)
BLOCK_INTERACTION = Card(
    "block_interaction",
    "the method's number for a block of samples as a whole; it stands with the first sample of the block",
    "metric",
)
WITHIN, NO_BLOCKS = "not the first sample of a block", "the method has no blocks"


def scalars(samples: Sequence[Sample], attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
    """The numbers that methods give instead of, or beside, a map: one per sample, and one per block of samples."""
    own = np.array([np.nan if a.scalar is None else a.scalar for a in attributions])
    none = {
        i: "the method gives no number" if attributions[i].scalar is None else _UNDEFINED
        for i in np.flatnonzero(~np.isfinite(own)).tolist()
    }
    starts = [i for i, a in enumerate(attributions) if BLOCK in a.notes]
    block = np.full(len(attributions), np.nan)
    reason = WITHIN if starts else NO_BLOCKS
    silent = dict.fromkeys(range(len(block)), reason)
    for start, stop in zip(starts, [*starts, len(attributions)][1:], strict=True):
        value = attributions[start].notes[BLOCK]
        if len({sample.meta.get("bucket") for sample in samples[start:stop]}) > 1:
            silent[start] = "the block mixes buckets; use order: bucket, and shards and batches within a bucket"
        elif not np.isfinite(value):
            silent[start] = attributions[start].reasons.get(BLOCK, _UNDEFINED)
        else:
            block[start] = value
            del silent[start]
    return {
        INTERACTION.name: Outcomes(own, not_applicable=none),
        BLOCK_INTERACTION.name: Outcomes(block, not_applicable=silent, level="block"),
    }


_UNDEFINED = "the method's number is not defined here (NaN)"


# ---- does the model answer as its mechanism does?


def mechanism_answer(sample: Sample, mechanism: str | None) -> str | None:
    """The answer of a model that reasons, or of one that matches words; None for other mechanisms and other data."""
    from karat.datasets.grid.sample import GridSample
    from karat.datasets.grid.scenes import answers as answers_of

    if mechanism == "reasons":
        return sample.answer
    if mechanism == "matches_words" and isinstance(sample, GridSample):
        batch = sample.proof.source
        return answers_of(batch.world)[int(batch.heuristics["bag_of_words"][sample.proof.row])]
    return None


def strays(samples: Sequence[Sample], answers: Sequence[str], mechanism: str | None) -> dict[int, str]:
    """Samples on which a model did not answer as its mechanism does, and why its own truth does not hold there."""
    reasons = {}
    for i, (sample, answer) in enumerate(zip(samples, answers, strict=True)):
        wanted = mechanism_answer(sample, mechanism)
        if wanted is not None and answer != wanted:
            reasons[i] = f"the model strayed from its mechanism: it said {answer}, not {wanted}"
    return reasons

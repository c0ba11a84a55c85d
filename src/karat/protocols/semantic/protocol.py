"""Scores of one explanation against the pixels of the class it is about (SemScore, paper 003)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le

from karat.datasets.segmentation.scene import ALIAS, CLASS, IGNORE
from karat.explainers.cam import LEAST as LEAST_ACTIVATION
from karat.explainers.cam import NEGATIVE
from karat.explainers.to_attribution import WHOLE, frame_of, over_image
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.finding import Finding
from karat.kernel.roles import Results
from karat.kernel.row import Detail, Outcomes
from karat.kernel.sample import Sample
from karat.kernel.typing import Map, Mask
from karat.metrics.localization import Mode, Spuriousity
from karat.models.torch_model import Frame
from karat.probe.session import Session
from karat.protocols.common.column import Column
from karat.protocols.common.localize import score_maps
from karat.protocols.semantic.overlay import Resize, Scale, chances, curve, overlay
from karat.protocols.semantic.target import ANOTHER, LEAST, Choice, Rules, Target, choose

if TYPE_CHECKING:
    from karat.kernel.claim import Comparison

_NONE = Card("", "", "metric")
SCORES = (
    replace(Spuriousity.card, name="sss", summary="share of the saliency that lies outside the class (SSS)",
            draws=(("soft", "curve"), ("hard", "curve"))),
    replace(_NONE, name="gain", summary="how much less of it lies outside than by chance: 0 chance, 1 all inside",
            direction="higher", range=(-np.inf, 1.0), floor="control/uniform: 0", ceiling="a map wholly inside: 1",
            citation="after semscore2025 Eq. 1-2", departures="not in the paper: plain SSS rewards large objects"),
    replace(_NONE, name="size_matched",
            summary="how much less of it lies outside than of a blob of the object's size at a random place",
            direction="higher", range=(-np.inf, 1.0), floor="a blob of the object's size anywhere: 0",
            ceiling="a map wholly inside: 1", citation="after semscore2025 Eq. 1-2",
            departures="not in the paper: SSS is mostly the size of the object, and of its being in the middle"),
    replace(_NONE, name="outside", summary="SSS of chance: the share of the image outside the class", range=(0.0, 1.0)),
    replace(_NONE, name="blob", summary="SSS of a blob of the object's size at a random place", range=(0.0, 1.0)),
    replace(_NONE, name="confidence", summary="the model's probability of what is explained", range=(0.0, 1.0)),
    replace(_NONE, name="own_confidence", summary="the model's probability of its prediction", range=(0.0, 1.0)),
    replace(_NONE, name="correct", summary="whether the image has what the prediction says", range=(0.0, 1.0)),
)  # fmt: skip
_OF_MAPS = ("sss", "gain", "size_matched")


@dataclass(frozen=True)
class Semantic:
    """SSS at one fixed configuration: threshold, mode, scale and what is explained. Compare only runs that share it.

    - `threshold` in the units of `scale`: "maximum" makes it a share of the map's largest value, "raw" an absolute
      value, "range" a share between least and largest value (what pytorch-grad-cam hands out, so the paper's own).
    - `target`, `min_confidence`: what is explained, see `target.Rules`.
    - `region`: "class" holds the map against the explained class alone, "image" against all classes of the image
      together. `roles` replaces both by the regions of those roles, for datasets without classes (grid, arrays).
      `target: predicted` with `region: image` holds the class that the model gave, right or wrong, against the objects.
    - `thresholds`: further SSS values, soft then hard, kept as the detail of `sss` for whoever draws curves. The text
      of `correct` is the prediction.
    """

    threshold: Annotated[float, Ge(0)] = 0.6
    mode: Mode = "soft"
    scale: Scale = "maximum"
    resize: Resize = "bilinear"
    target: Target = "truth"
    region: Literal["class", "image"] = "class"
    min_confidence: Annotated[float, Ge(0), Le(1)] = LEAST
    roles: tuple[str, ...] = ()
    thresholds: tuple[Annotated[float, Ge(0)], ...] = ()
    card: ClassVar[Card] = Card(
        "semantic", "how much of the explanation lies on things that have nothing to do with the label?", "protocol",
        version=2, needs=frozenset({"scores"}), citation="semscore2025", paper="003",
        departures="ignored and unseen pixels count for nothing; masks are never resized; sums are not rounded",
    )  # fmt: skip
    passes: ClassVar[int] = 0  # one look at each image in all, shared by every explainer

    def __post_init__(self) -> None:
        for threshold in (self.threshold, *self.thresholds):
            if self.scale != "raw" and threshold > 1:
                raise BadInput(f"semantic: a threshold must be at most 1 with scale {self.scale!r}; got {threshold:g}.")

    @property
    def scores(self) -> tuple[Card, ...]:
        return SCORES

    @property
    def rules(self) -> Rules:
        return Rules(self.target, self.min_confidence)

    def targets(self, session: Session) -> list[str]:
        """The answer to explain of each sample; the engine asks before it explains."""
        return [choice.answer for choice in self._choices(session)]

    def _choices(self, session: Session) -> list[Choice]:
        """The same for every explainer of a session."""
        return session.memo(
            ("semantic/choices", self.rules), lambda: choose(self.rules, session.model, session.samples)
        )

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        choices = self._choices(session)
        columns = {card.name: Column(len(choices)) for card in SCORES}
        metric = Spuriousity(self.threshold, self.mode)
        for i, (sample, choice, attribution) in enumerate(zip(session.samples, choices, attributions, strict=True)):
            if problem := sample.meta.get("problem"):
                for name, column in columns.items():
                    if name in _OF_MAPS:
                        column.fail(i, f"sample: {problem}")
                    else:
                        column.leave_out(i, "the sample could not be read")
                continue
            _note(columns, i, choice)
            mask, ignored = self._mask(sample, choice), _ignored(sample, frame_of(session, i))
            why = choice.left_out or _hopeless(mask, ignored, choice) or _without(attribution)
            if why:
                for name in (*_OF_MAPS, "outside", "blob"):
                    columns[name].leave_out(i, why)
                continue
            assert attribution.visual is not None
            chance, blob = chances(mask, ignored)
            columns["outside"].score(i, chance)
            columns["blob"].score(i, blob)
            if broken := attribution.problem("visual"):
                for name in _OF_MAPS:
                    columns[name].fail(i, broken)
                continue
            map_ = overlay(attribution.visual, ignored, sample.size, self.scale, self.resize)
            outcome = score_maps(metric, map_[None], mask[None])
            columns["sss"].fill([i], replace(outcome, details=self._details(attribution, map_, mask)))
            columns["gain"].fill([i], _gain(outcome, chance))
            columns["size_matched"].fill([i], _gain(outcome, blob))
        texts = {"own": [choice.own for choice in choices]}
        made = {name: column.outcomes() for name, column in columns.items()}
        return made | {"correct": replace(made["correct"], texts=texts)}

    def _details(self, attribution: Attribution, map_: Map, mask: Mask) -> dict[str, Detail]:
        """SSS at every one of `thresholds`, and how signed the layer was that a CAM read."""
        notes = (NEGATIVE, LEAST_ACTIVATION)
        kept: dict[str, Detail] = {n: np.array([attribution.notes[n]]) for n in notes if n in attribution.notes}
        if self.thresholds:
            soft, hard = curve(map_, mask, self.thresholds).reshape(2, 1, -1)
            kept |= {"soft": soft, "hard": hard}
        return kept

    def findings(self, run: Results) -> list[Finding]:
        from karat.protocols.semantic.findings import findings

        return findings(run)

    def paper(self, run: Results) -> Comparison:
        from karat.protocols.semantic.claims import compare

        return compare(run)

    def _mask(self, sample: Sample, choice: Choice) -> Mask:
        if self.roles:
            return sample.mask(*self.roles)
        if self.region == "image":
            return sample.mask(CLASS)
        mask = np.zeros(sample.size, dtype=np.bool_)
        for region in sample.regions:
            if region.role in (CLASS, ALIAS) and region.label == choice.label:
                mask |= region.mask(*sample.size)
        return mask


def _note(columns: Mapping[str, Column], i: int, choice: Choice) -> None:
    """What is known of the prediction, whether or not its explanation counts."""
    if choice.own_confidence is None:
        columns["own_confidence"].leave_out(i, ANOTHER)
        columns["correct"].leave_out(i, ANOTHER)
    else:
        columns["own_confidence"].score(i, choice.own_confidence)
        if choice.correct is None:
            columns["correct"].leave_out(i, "the sample does not say what is right")
        else:
            columns["correct"].score(i, choice.correct)
    if choice.left_out and choice.confidence == 0:
        columns["confidence"].leave_out(i, choice.left_out)
    else:
        columns["confidence"].score(i, choice.confidence)


def _gain(sss: Outcomes, chance: float) -> Outcomes:
    if sss.failures or sss.not_applicable:
        return sss
    if chance == 0:
        return Outcomes(np.full(1, np.nan), not_applicable={0: "the class covers the whole image: every map is inside"})
    return Outcomes(1 - sss.values / chance)


def _ignored(sample: Sample, frame: Frame) -> Mask | None:
    """Pixels that nobody labelled, and those that the model was not shown."""
    masks: list[Callable[[int, int], Mask]] = [region.mask for region in sample.regions if region.role == IGNORE]
    ignored = masks[0](*sample.size) if masks else None
    if frame == WHOLE:
        return ignored
    hidden = over_image(np.ones((1, 1), dtype=np.bool_), frame, sample.size) == 0
    return hidden if ignored is None else hidden | ignored


def _hopeless(mask: Mask, ignored: Mask | None, choice: Choice) -> str | None:
    if (mask if ignored is None else mask & ~ignored).any():
        return None
    return f"the image has no {choice.label!r}"


def _without(attribution: Attribution) -> str | None:
    return "the method defines no map" if attribution.visual is None else None

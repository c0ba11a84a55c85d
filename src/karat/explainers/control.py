"""Controls: explanations of known worth. Floors that know nothing of the model, and references that know the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample, Truth
from karat.kernel.typing import Box, Map, Values
from karat.probe.session import Session

_BOTH = frozenset({"visual", "words"})
_IMAGE = frozenset({"visual"})


@dataclass(frozen=True)
class Random:
    """Independent uniform noise on `cells` × `cells` map cells and on every word."""

    cells: int = 12
    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/random", "noise: what a score gives to an explanation that says nothing", "explainer", gives=_BOTH
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return [Attribution(*noise(session, i, self.cells), space="patch") for i in range(len(session.samples))]


@dataclass(frozen=True)
class Uniform:
    """The same everywhere: what plain mass gives for the size of the mask alone."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/uniform", "the same score everywhere: rewards nothing but a large mask", "explainer", gives=_BOTH
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return [Attribution(np.ones((1, 1)), _ones(len(s.words)), space="patch") for s in session.samples]


@dataclass(frozen=True)
class Center:
    """A Gaussian in the middle of the image; `width` is its standard deviation as a share of the side."""

    width: float = 0.25
    cells: int = 24
    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/center", "a blob in the middle: the bias of photographs, not of models", "explainer", gives=_IMAGE
    )

    def __call__(self, session: Session) -> list[Attribution]:
        axis = (np.arange(self.cells) + 0.5) / self.cells - 0.5
        bump = np.exp(-(axis**2) / (2 * self.width**2))
        blob = np.outer(bump, bump)
        return [Attribution(blob, space="patch") for _ in session.samples]


@dataclass(frozen=True)
class Edges:
    """Gradient magnitude of the image's brightness: looks like a saliency map and has never met the model."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/edges",
        "an edge detector: convincing to the eye, blind to the model",
        "explainer",
        gives=_IMAGE,
        citation="Adebayo et al. 2018, Sanity checks for saliency maps",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return [Attribution(edges(sample.image)) for sample in session.samples]


@dataclass(frozen=True)
class Oracle:
    """The truth of the model's own mechanism: every region and word it must use scores 1."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/oracle",
        "the truth about this model: the reference that a faithful explanation should reach",
        "explainer",
        needs=frozenset({"mechanism"}),
        gives=_BOTH,
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return [_from_truth(truth, inverse=False) for truth in truths(session, self.card.name)]


@dataclass(frozen=True)
class InverseOracle:
    """Everything but the truth: the worst explanation there is."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/inverse_oracle",
        "everything but the truth: the worst explanation there is",
        "explainer",
        needs=frozenset({"mechanism"}),
        gives=_BOTH,
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return [_from_truth(truth, inverse=True) for truth in truths(session, self.card.name)]


@dataclass(frozen=True)
class BoxOnly:
    """The same score everywhere inside the boxes of the target, nothing elsewhere. Knows the answer's object only."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/box_only",
        "the target's box filled: what plain localisation earns where a relation was asked for",
        "explainer",
        gives=_IMAGE,
        citation="creg2026, B.3",
        departures="exact pixels of the box, not visual tokens: the same for every model",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        found = []
        for sample in session.samples:
            _target_boxes(sample, self.card.name)
            found.append(Attribution(sample.mask("target").astype(np.float64)))
        return found


@dataclass(frozen=True)
class Geometry:
    """All mass on the centre of the target's box (of each, if there are several): the direction itself."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/geometry",
        "a point at the target's centre: the true direction and nothing else",
        "explainer",
        gives=_IMAGE,
        citation="creg2026, B.3",
        departures="drawn as a map and read like any other, so half a sector of error remains; the paper sets it to 0",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        found = []
        for sample in session.samples:
            point = np.zeros(sample.size)
            for x, y, width, height in _target_boxes(sample, self.card.name):
                point[_middle(y, height, sample.size[0]), _middle(x, width, sample.size[1])] = 1.0
            found.append(Attribution(point))
        return found


def noise(session: Session, i: int, cells: int = Random.cells) -> tuple[Map, Values | None]:
    """A map (cells, cells) and word scores that know nothing of sample i. Another model, other noise: the twins must
    not agree by construction."""
    rng = session.rng(i, f"control/random/{session.model.name}")
    visual = rng.random((cells, cells))
    words = session.samples[i].words
    return visual, rng.random(len(words)) if words else None


def edges(image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Map:
    """(H, W) gradient magnitude of the mean of the channels, by central differences."""
    grey = image.mean(axis=2, dtype=np.float32)
    dy, dx = np.gradient(grey)
    return np.hypot(dx, dy)


def _ones(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    return np.ones(n) if n else None


def _target_boxes(sample: Sample, name: str) -> list[Box]:
    boxes = [box for region in sample.regions if region.role == "target" for box in region.boxes]
    if not boxes:
        raise BadInput(f"{name} needs a region with the role 'target' and a box; sample {sample.id} has none.")
    return boxes


def _middle(start: int, length: int, size: int) -> slice:
    """The pixel in the middle of a stretch; the two middle ones if its length is even. Never outside the image."""
    first = min(max(start + (length - 1) // 2, 0), size - 1)
    return slice(first, min(start + length // 2, size - 1) + 1)


def truths(session: Session, name: str, mechanism: str | None = None) -> list[Truth]:
    """What a model of that mechanism must use on every sample; by default of the mechanism that the model has."""
    mechanism = mechanism or session.model.mechanism
    if mechanism is None:
        raise BadInput(f"{name} needs a model whose mechanism is known; {session.model.name!r} does not say.")
    found = []
    for sample in session.samples:
        truth = sample.truth(mechanism)
        if truth is None:
            raise BadInput(f"sample {sample.id} does not know what a model that {mechanism!r} must use.")
        found.append(truth)
    return found


def _from_truth(truth: Truth, inverse: bool) -> Attribution:
    """A mask as a map. Where it would be all zero it stays so, and is reported as such."""
    visual = None if truth.visual is None else (truth.visual != inverse).astype(np.float64)
    words = None if truth.words is None else (np.array(truth.words, dtype=np.bool_) != inverse).astype(np.float64)
    return Attribution(visual, words, space="pixel")

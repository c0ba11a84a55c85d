"""What is explained: which class or detection of an image, how sure the model is of it, and whether it was right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from karat.datasets.segmentation.scene import ALIAS, CLASS
from karat.kernel.errors import KaratError
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.models.detections import NOTHING, label_of

Target = Literal["truth", "predicted", "present"]
Ranking = list[tuple[str, float]]  # answers of one image with their probabilities, best first
LEAST = 0.04  # confidence from where on semscore2025 counts a prediction
ANOTHER = "the model's answer is about another class of the image"
_ALL = 1_000_000


@runtime_checkable
class Ranks(Protocol):
    """A model that can name more than its best answer."""

    def ranking(self, samples: Sequence[Sample], top: int) -> list[Ranking]: ...


@dataclass(frozen=True)
class Rules:
    """semscore2025's selection: `target` says among what is chosen, `min_confidence` from where on a choice counts.

    - truth: the rank-th largest class of the image, whatever the model says of it (the paper's classifiers); by the
      likeliest of the model's words for it where it has not the name itself (`datasets.segmentation.vocabulary`)
    - predicted: the model's rank-th best answer or detection (the paper's detectors)
    - present: the rank-th best of the image's own labels, probabilities renormalised over them (the paper's CLIPs)
    """

    target: Target
    min_confidence: float


@dataclass(frozen=True)
class Choice:
    """`answer` is explained; `label` is the class it names. `left_out` says why its score does not count, if so.

    `own` is the prediction that the explanation is of: the answer itself where predictions are explained, else the
    model's best answer. A prediction belongs to one row of its image (`own_confidence`, `correct`; None in the others):
    to that of the class it names, or to the first where the image has no such class.
    """

    answer: str
    label: str
    confidence: float
    own: str
    own_confidence: float | None
    correct: bool | None  # whether the image has what the prediction says; None where the sample does not know, too
    left_out: str | None = None


def choose(rules: Rules, model: Model, samples: Sequence[Sample]) -> list[Choice]:
    """One choice per sample, by its meta.rank; the model is asked once per image."""
    if not samples:
        return []
    images: dict[int, list[int]] = {}  # places of the samples that share an image
    for place, sample in enumerate(samples):
        images.setdefault(id(sample.image), []).append(place)
    firsts = [samples[places[0]] for places in images.values()]
    top = max(_rank(sample) for sample in samples) if rules.target == "predicted" else None
    choices: dict[int, Choice] = {}
    for places, first, ranking in zip(images.values(), firsts, _rankings(model, firsts, top), strict=True):
        options = ranking if rules.target == "predicted" else _labels(rules, model, first, ranking)
        choices |= {place: _pick(rules, samples[place], ranking, options) for place in places}
    return [choices[place] for place in range(len(samples))]


def _rankings(model: Model, samples: Sequence[Sample], top: int | None) -> list[Ranking]:
    """Answers with probabilities, best first: `top` of them, or (None) of as many as the model tells."""
    if isinstance(model, Ranks):
        return model.ranking(samples, _ALL if top is None else top)
    answers = model.answer(samples)
    return [[pair] for pair in zip(answers, model.score(samples, answers).tolist(), strict=True)]


def _labels(rules: Rules, model: Model, sample: Sample, ranking: Ranking) -> Ranking | str:
    """The image's own labels with their probabilities, in the order of choice; or why there are none."""
    labels = [region.label for region in sample.regions if region.role == CLASS and region.label is not None]
    if not labels and sample.answer is not None:
        labels = [sample.answer]
    if not labels:
        return str(sample.meta.get("problem") or "the image has no labelled class")
    known = dict(ranking)
    spoken = [_word(sample, label, known) for label in labels]
    if not any(spoken):  # a model that ranks only some answers, or has no word for any
        try:
            known = dict(zip(labels, model.score([sample] * len(labels), labels).tolist(), strict=True))
        except KaratError as error:
            return str(error)
        spoken = list(labels)
    pairs = [(word or label, known[word] if word else np.nan) for word, label in zip(spoken, labels, strict=True)]
    if rules.target == "truth":
        return pairs
    pairs = [pair for pair in pairs if not np.isnan(pair[1])]
    total = sum(score for _, score in pairs)
    return sorted(((label, score / total if total > 0 else 0.0) for label, score in pairs), key=lambda pair: -pair[1])


def _pick(rules: Rules, sample: Sample, ranking: Ranking, options: Ranking | str) -> Choice:
    best, sure = ranking[0] if ranking else (NOTHING, 0.0)
    rank = _rank(sample)

    def none(why: str) -> Choice:
        """Something must be explained all the same; the answer that was computed anyway costs least."""
        first = rank == 1
        return Choice(best, label_of(best), 0.0, best, sure if first else None, _is_right(sample, best, first), why)

    if isinstance(options, str):
        return none(options)
    if rank > len(options):
        return none("nothing was predicted" if not options else f"there are only {len(options)} to choose from")
    answer, confidence = options[rank - 1]
    label = label_of(answer)
    if np.isnan(confidence):
        return none(f"the model has no word for {label!r}")
    if rules.target == "truth":
        why = None
    else:
        low = not confidence > rules.min_confidence
        why = f"confidence {confidence:.3g} is not above {rules.min_confidence:g}" if low else None
    if rules.target == "predicted":
        return Choice(answer, label, confidence, answer, confidence, _is_right(sample, answer, True), why)
    named = {option for option, _ in options if _names(sample, best, option)}
    mine = label in named or (rank == 1 and not named)
    return Choice(answer, label, confidence, best, sure if mine else None, _is_right(sample, best, mine), why)


def _is_right(sample: Sample, answer: str, mine: bool) -> bool | None:
    """Whether the image has what an answer says; None for rows that the answer is not of, and where nobody knows."""
    present = {region.label for region in sample.regions if region.role in (CLASS, ALIAS)} or {sample.answer}
    return None if not mine or present == {None} else label_of(answer) in present


def _word(sample: Sample, label: str, known: Mapping[str, float]) -> str | None:
    """What the model calls a class of the image: its own name, else the likeliest of the other words for it."""
    if label in known:
        return label
    pixels = [region.pixels for region in sample.regions if region.role == CLASS and region.label == label]
    others = [
        region.label
        for region in sample.regions
        if region.role == ALIAS and region.label in known and any(region.pixels is own for own in pixels)
    ]
    return max((word for word in others if word is not None), key=known.__getitem__, default=None)


def _names(sample: Sample, answer: str, label: str) -> bool:
    """Whether an answer means a class of the image, by its name or by another word for the same pixels."""
    named = label_of(answer)
    if named == label:
        return True
    words = [region.pixels for region in sample.regions if region.role == ALIAS and region.label == named]
    return any(
        region.pixels is pixels
        for region in sample.regions
        if region.role == CLASS and region.label == label
        for pixels in words
    )


def _rank(sample: Sample) -> int:
    return int(sample.meta.get("rank") or 1)

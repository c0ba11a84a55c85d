"""Is the shortcut what decides? Accuracies on clean and perturbed images, and the gate of pixelrules2024 Eq. 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from karat.datasets.shortcut.dataset import ShortcutDataset
from karat.datasets.shortcut.sample import ShortcutSample
from karat.kernel.errors import BadInput
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.typing import Values

THRESHOLD = 0.9
_BATCH = 256


@dataclass(frozen=True, eq=False)
class Answers:
    """Per sample: the probability of its class on the clean and on the perturbed image, and whether it won there."""

    clean: Values
    perturbed: Values
    clean_right: npt.NDArray[np.bool_]
    perturbed_right: npt.NDArray[np.bool_]

    def dominant(self, threshold: float = THRESHOLD) -> npt.NDArray[np.bool_]:
        """Eq. 1: the class gains more than T by the shortcut, and without it another class is likelier."""
        return (self.perturbed - self.clean > threshold) & ~self.clean_right


@dataclass(frozen=True)
class Rates:
    """Tables 1 and 2: accuracy on both sets and the dominant rate."""

    clean: float
    perturbed: float
    dominant: float
    samples: int
    threshold: float = THRESHOLD

    def plain(self) -> dict[str, float]:
        return asdict(self)


def answers(model: Model, samples: Sequence[Sample]) -> Answers:
    """What a model says about samples and their clean twins. Two passes a sample."""
    pairs = [_checked(sample) for sample in samples]
    labels = [str(sample.answer) for sample in pairs]
    values: list[Values] = []
    right: list[npt.NDArray[np.bool_]] = []
    for samples in ([sample.cleaned for sample in pairs], pairs):
        scores, won = [], []
        for at in range(0, len(samples), _BATCH):
            part = slice(at, at + _BATCH)
            scores.append(model.score(samples[part], labels[part]))
            won += [answer == label for answer, label in zip(model.answer(samples[part]), labels[part], strict=True)]
        values.append(np.concatenate(scores) if scores else np.empty(0))
        right.append(np.array(won, dtype=np.bool_))
    return Answers(values[0], values[1], right[0], right[1])


def rates(model: Model, samples: Sequence[Sample] | ShortcutDataset, threshold: float = THRESHOLD) -> Rates:
    """Accuracy on the clean and on the perturbed images, and the share of images that the shortcut decides.

    A dataset is read part by part, so that it need not fit into memory.
    """
    if not len(samples):
        raise BadInput("accuracies need at least one sample.")
    counts = np.zeros(3)
    for start in range(0, len(samples), _BATCH):
        stop = min(start + _BATCH, len(samples))
        part = samples.load(start, stop) if isinstance(samples, ShortcutDataset) else samples[start:stop]
        outcome = answers(model, part)
        counts += [outcome.clean_right.sum(), outcome.perturbed_right.sum(), outcome.dominant(threshold).sum()]
    clean, perturbed, dominant = (counts / len(samples)).tolist()
    return Rates(clean, perturbed, dominant, len(samples), threshold)


def _checked(sample: Sample) -> ShortcutSample:
    if not isinstance(sample, ShortcutSample) or sample.clean is None or sample.answer is None:
        raise BadInput(
            f"sample {sample.id} has no clean twin or no class; use dataset `shortcut`, or make samples with "
            "karat.datasets.shortcut.planted."
        )
    return sample

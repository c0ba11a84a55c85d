"""EMAP: the best additive model of image and question, and what it leaves to their interaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from karat.explainers.asking import Asking, ValueKind
from karat.explainers.crossing import BLOCK, blocks, crossed_matrices
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.target import distinct
from karat.probe.session import Session

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """`projected` (N,) or (N, classes) are the additive model's logits of the paired inputs, `original` the model's.

    `interaction_share` is the share of the two-way sum of squares that neither modality explains alone (0: additive,
    1: interaction only), averaged over classes by their sums of squares. `accuracy`, `projected_accuracy` and their
    difference `accuracy_gain` where labels were given.
    """

    original: Array
    projected: Array
    interaction_share: float
    accuracy: float | None = None
    projected_accuracy: float | None = None

    @property
    def accuracy_gain(self) -> float | None:
        """What interaction adds to accuracy."""
        if self.accuracy is None or self.projected_accuracy is None:
            return None
        return self.accuracy - self.projected_accuracy


def emap(logits: npt.ArrayLike, labels: Sequence[int] | None = None) -> Projection:
    """Empirical multimodally-additive projection of logits (N, N) or (N, N, classes): image i with question j.

    >>> emap([[-1.3, 0.3, -0.2], [0.8, 3.0, 1.1], [1.1, -0.1, 0.7]]).projected.round(6).tolist()
    [-0.8, 2.1, 0.5]
    """
    table = np.asarray(logits, dtype=np.float64)
    if table.ndim not in (2, 3) or table.shape[0] != table.shape[1] or len(table) < 2:
        raise BadInput(f"EMAP needs logits (N, N) or (N, N, classes) of N >= 2 samples; got shape {table.shape}.")
    grand = table.mean(axis=(0, 1), keepdims=True)
    image, question = table.mean(axis=1, keepdims=True) - grand, table.mean(axis=0, keepdims=True) - grand
    additive = grand + image + question
    total = float(((table - grand) ** 2).sum())
    left = float(((table - additive) ** 2).sum())
    own = np.arange(len(table))
    original, projected = table[own, own], additive[own, own]
    # below what rounding leaves of an additive table there is nothing to share out
    share = left / total if total > 1e-20 * float((table**2).sum()) else 0.0
    if labels is None:
        return Projection(original, projected, share)
    if table.ndim != 3 or len(labels) != len(table):
        raise BadInput(
            f"accuracy needs logits (N, N, classes) and N labels; got {table.shape} and {len(labels)} labels."
        )
    right, still = (float(np.mean(scores.argmax(axis=1) == np.asarray(labels))) for scores in (original, projected))
    return Projection(original, projected, share, right, still)


def emap_of(session: Session, answers: Sequence[str], value: ValueKind = "auto") -> Projection:
    """EMAP of all samples of a session over the given answers; accuracy against the samples' own answers, if known.

    Costs N² passes for each answer.
    """
    asking = Asking(value=value)
    [everyone] = blocks(session, len(session.samples), "EMAP")
    table = np.stack(crossed_matrices(session, asking, [(answer, everyone) for answer in answers]), axis=-1)
    truth = [sample.answer for sample in session.samples]
    known = all(answer in answers for answer in truth)
    return emap(table, [list(answers).index(str(answer)) for answer in truth] if known else None)


@dataclass(frozen=True)
class Emap:
    """logit - projection of each sample: what the additive model of its block cannot explain. (DIME calls it MI.)

    Blocks are runs of `batch` samples at most. The first sample of each notes the score of its block, `BLOCK`: the
    `interaction_share` over the answers that the model gave there.
    """

    batch: int = 16
    value: ValueKind = "auto"
    card: ClassVar[Card] = Card(
        "modality/emap",
        "the part of the answer that image and question bring only together",
        "explainer",
        version=2,
        needs=frozenset({"text"}),
        gives=frozenset({"scalar"}),
        citation="Hessel & Lee 2020, Does my multimodal model learn cross-modal interactions?; gridvqax2026 A.3",
        departures="per sample and over its block; the fraction that gridvqax2026 reports is not defined there, ours "
        "is the share of the two-way sum of squares",
        passes="batch²",
    )

    @property
    def passes(self) -> int:
        return self.batch**2

    def __call__(self, session: Session) -> list[Attribution]:
        members = blocks(session, self.batch, self.card.name)
        said = [distinct(session.targets[i] for i in block) for block in members]
        asked = [(answer, block) for block, answers in zip(members, said, strict=True) for answer in answers]
        matrices = iter(crossed_matrices(session, Asking(value=self.value), asked))
        found = []
        for block, answers in zip(members, said, strict=True):
            result = emap(np.stack([next(matrices) for _ in answers], axis=-1))
            left = result.original - result.projected
            for row, i in enumerate(block):
                notes = {BLOCK: result.interaction_share} if row == 0 else {}
                own = float(left[row, answers.index(session.targets[i])])
                found.append(Attribution(scalar=own, signed=True, passes=len(block) * len(answers), notes=notes))
        return found

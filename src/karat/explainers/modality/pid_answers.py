"""PID of what a model answers: every image of a block with every question of it, and which bits need both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from karat.explainers.asking import Asking, ValueKind
from karat.explainers.crossing import BLOCK, blocks, crossed_matrices
from karat.explainers.modality.pid import Information, pid
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.target import distinct
from karat.probe.session import Session


def pid_of_answers(answers: npt.ArrayLike) -> Information:
    """Answers (N, M) to N images with M questions, both drawn evenly: nothing is estimated, the table is the truth.

    >>> round(pid_of_answers([["yes", "no"], ["no", "yes"]]).synergistic, 5)
    1.0
    """
    said = np.asarray(answers)
    numbers = np.unique(said, return_inverse=True)[1].reshape(said.shape)
    joint = np.zeros((*said.shape, int(numbers.max()) + 1))
    np.put_along_axis(joint, numbers[..., None], 1.0, axis=2)
    return pid(joint)


def synergy_share(found: Information) -> float:
    """Synergistic bits as a share of all the bits that image and question give; 0 for a model that always says one."""
    return found.synergistic / found.total if found.total > 1e-9 else 0.0


@dataclass(frozen=True)
class Pid:
    """The share of the answer's bits that image and question give only together: one number for a whole block.

    The model chooses among the answers that it gave in the block; blocks are runs of `batch` samples at most. On N
    images and N questions even a model that ignores the image gives it about (N - 1) (answers - 1) / (2 N² ln 2) bits.
    """

    batch: int = 16
    value: ValueKind = "auto"
    card: ClassVar[Card] = Card(
        "modality/pid",
        "the share of the answer's information that image and question give only together",
        "explainer",
        needs=frozenset({"text"}),
        gives=frozenset({"scalar"}),
        range=(0.0, 1.0),
        citation="Bertschinger et al. 2014, Quantifying unique information; Liang et al. 2023; gridvqax2026 A.3",
        departures="discrete and exact over the inputs of a block; gridvqax2026 speaks of a Gaussian estimator "
        "(`pid_gaussian`) and releases none",
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
            best = np.stack([next(matrices) for _ in answers], axis=-1).argmax(axis=-1)
            share = synergy_share(pid_of_answers(best))
            for row in range(len(block)):
                notes = {BLOCK: share} if row == 0 else {}
                found.append(Attribution(scalar=share, passes=len(block) * len(answers), notes=notes))
        return found

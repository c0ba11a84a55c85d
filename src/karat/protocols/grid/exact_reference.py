"""What a perfect reasoner, and a perfect word-matcher, would get from methods that give one number for a dataset.

The symbolic executor answers every question of a set of samples about every image of it. From that table follow, with
nothing estimated, the two-modality dividend and the scores that EMAP, InterSHAP and PID would give to a model that
makes no mistake. A method is judged against this, not against the wish that synergy grow with depth: the dividend is
1 - v(image) - v(question) + v(nothing), and what v of one modality is worth depends on how the answers of a bucket are
spread, not on how deep its questions are.

Most questions of deep buckets have no answer about another sample's image: the anchor that they name is not there, or
is there twice. There a perfect reasoner can only guess as the answers of the set are spread, and so it does here; what
a network says to such a question is up to the network. `answerable` says how much of the table is answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.datasets.grid.executor import Asked, parse
from karat.datasets.grid.generate import generate_batch
from karat.datasets.grid.scenes import SceneBatch
from karat.explainers.modality import emap, intershap, synergy_share
from karat.explainers.partial_information import pid
from karat.models.counterfactual import verdicts

Answers = npt.NDArray[np.int64]
PLACE = ["preset", "mode", "bucket", "seed"]  # what tells one batch of the grid world from another


@dataclass(frozen=True, eq=False)
class ExactReference:
    """Exact numbers for one set of samples and one mechanism, each computed when it is first looked at.

    `table` (N, N): the answers to image i with question j, -1 where there is none.
    """

    table: Answers

    @cached_property
    def answerable(self) -> float:
        """The share of crossed questions (image and question of different samples) that have an answer."""
        crossed = ~np.eye(len(self.table), dtype=np.bool_)
        return float((self.table[crossed] >= 0).mean()) if crossed.any() else float("nan")

    @cached_property
    def values(self) -> npt.NDArray[np.float64]:
        return four_values(self.table)

    @cached_property
    def dividend(self) -> float:
        """1 - v(image) - v(question) + v(nothing), the mean over the samples."""
        nothing, image, question, both = self.values.mean(axis=0)
        return float(both - image - question + nothing)

    @cached_property
    def intershap(self) -> float:
        """NaN for a set of one answer, where the method has no score (see `karat.explainers.modality.InterShap`)."""
        return intershap(self.values).overall if len(np.unique(np.diag(self.table))) > 1 else float("nan")

    @cached_property
    def emap(self) -> float:
        """Of the chances of every answer that the samples have: logits a perfect reasoner has none. NaN for one sample,
        which has nobody to be crossed with."""
        return emap(chances(self.table)).interaction_share if len(self.table) > 1 else float("nan")

    @cached_property
    def pid(self) -> float:
        """The method chooses among the samples' own answers: where a reasoner would say another, it guesses."""
        chosen = chances(self.table)
        chosen[chosen.sum(axis=2) == 0] = _prior(self.table)
        return synergy_share(pid(chosen))

    def of(self, method: str) -> float | None:
        """The number that a method of this registered name should give; None for methods without one."""
        exact = {"modality/emap": "emap", "modality/intershap": "intershap", "modality/pid": "pid"}
        return float(getattr(self, exact[method])) if method in exact else None


def comparable(method: str, value: str | None) -> bool:
    """Whether a score is on the scale of the exact one: EMAP of logits is not, no mechanism says how large they are.

    >>> comparable("modality/emap", "auto"), comparable("modality/emap", "probability"), comparable("modality/pid", "")
    (False, True, True)
    """
    return method != "modality/emap" or value == "probability"


def crossed_answers(batch: SceneBatch, mechanism: str = "reasons") -> Answers:
    """(N, N) answers to image i with question j, as numbers; "matches_words" ignores every relation."""
    n = len(batch)
    programs = Asked([parse(text, batch.world) for text in batch.questions], batch.world)
    images, questions = (axis.ravel() for axis in np.indices((n, n)))
    dropped = frozenset(range(len(programs.side_of))) if mechanism == "matches_words" else frozenset[int]()
    return programs.execute(batch.cells[images], questions, dropped).reshape(n, n)


def chances(table: Answers) -> npt.NDArray[np.float64]:
    """(N, N, answers) chances of each answer that the samples have, for a perfect reasoner.

    One for the answer, none for the others; all as they are spread where the question has no answer.
    """
    answers = np.unique(np.diag(table))
    each = (table[..., None] == answers).astype(np.float64)
    each[table < 0] = _prior(table)
    return each


def _prior(table: Answers) -> npt.NDArray[np.float64]:
    return np.unique(np.diag(table), return_counts=True)[1] / len(table)


def four_values(table: Answers) -> npt.NDArray[np.float64]:
    """(N, 4) chances that nothing, the image alone, the question alone and both give the answer of each sample.

    An absent modality is that of the other samples in turn, as InterSHAP has it.
    """
    own = np.unique(np.diag(table), return_inverse=True)[1]
    each = chances(table)
    image = each.mean(axis=1)[np.arange(len(own)), own]
    question = each.mean(axis=0)[np.arange(len(own)), own]
    return np.stack([_prior(table)[own], image, question, np.ones(len(own))], axis=1)


def exact_reference(batch: SceneBatch, mechanism: str = "reasons") -> ExactReference:
    return ExactReference(crossed_answers(batch, mechanism))


def batch_of(place: Hashable, indices: Sequence[int]) -> SceneBatch:
    """The scenes of samples again, from what their rows say of them: `place` in the order of PLACE."""
    preset, mode, bucket, seed = cast(tuple[str, str, str, int], place)  # a group key of four
    return generate_batch(str(bucket), list(map(int, indices)), int(seed), str(preset), str(mode))


def known_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """What a model that reasons and one that matches words say: columns truth and shortcut, indexed by sample."""
    once = rows.drop_duplicates("sample")
    parts: list[pd.DataFrame] = []
    for place, group in once.groupby(PLACE, observed=True):
        answers = verdicts(batch_of(place, group["index"].tolist()))
        columns: dict[str, Any] = {"truth": answers.truth, "shortcut": answers.shortcut}
        parts.append(pd.DataFrame(columns, index=group["sample"]))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["truth", "shortcut"])

"""What a perfect reasoner, and a perfect word-matcher, would get from methods that give one number for a dataset.

The symbolic executor answers every question of a set of samples about every image of it. From that table follow, with
nothing estimated, the two-modality dividend and the scores that EMAP, InterSHAP and PID would give to a model that
makes no mistake. A method is judged against this, not against the wish that synergy grow with depth: the dividend is
1 - v(image) - v(question) + v(nothing), and what v of one modality is worth depends on how the answers of a bucket are
spread, not on how deep its questions are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from assay.datasets.grid.executor import Asked, parse
from assay.datasets.grid.generate import generate_batch
from assay.datasets.grid.scenes import SceneBatch
from assay.explainers.modality import emap, intershap, pid_of_answers, synergy_share
from assay.models.counterfactual import verdicts

Answers = npt.NDArray[np.int64]
PLACE = ["preset", "mode", "bucket", "seed"]  # what tells one batch of the grid world from another


@dataclass(frozen=True, eq=False)
class Yardstick:
    """Exact numbers for one set of samples and one mechanism, each computed when it is first looked at.

    `table` (N, N): the answers to image i with question j.
    """

    table: Answers

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
        return intershap(self.values).overall

    @cached_property
    def emap(self) -> float:
        """Of the table of who is right: 1 where an answer is given, 0 where not, for every answer the samples have."""
        said = np.unique(np.diag(self.table))
        return emap((self.table[..., None] == said).astype(np.float64)).interaction_share

    @cached_property
    def pid(self) -> float:
        """Answers that no sample of its own has (or none at all) count as one more answer."""
        said = np.unique(np.diag(self.table))
        return synergy_share(pid_of_answers(np.where(np.isin(self.table, said), self.table, -1)))

    def of(self, explainer: str) -> float | None:
        """The number that a method of this name should give; None for methods without one."""
        name = explainer.split("(")[0].removeprefix("modality/")
        return float(getattr(self, name)) if name in ("emap", "intershap", "pid") else None


def crossed_answers(batch: SceneBatch, mechanism: str = "reasons") -> Answers:
    """(N, N) answers to image i with question j, as numbers; "matches_words" ignores every relation."""
    n = len(batch)
    asked = Asked([parse(text, batch.world) for text in batch.questions], batch.world)
    images, questions = (axis.ravel() for axis in np.indices((n, n)))
    dropped = frozenset(range(len(asked.side_of))) if mechanism == "matches_words" else frozenset[int]()
    return asked.execute(batch.cells[images], questions, dropped).reshape(n, n)


def four_values(table: Answers) -> npt.NDArray[np.float64]:
    """(N, 4) chances that nothing, the image alone, the question alone and both give the answer of each sample.

    An absent modality is that of the other samples in turn, as InterSHAP has it.
    """
    own = np.diag(table)
    nothing = (own[None, :] == own[:, None]).mean(axis=1)
    image = (table == own[:, None]).mean(axis=1)
    question = (table == own[None, :]).mean(axis=0)
    return np.stack([nothing, image, question, np.ones(len(own))], axis=1)


def yardstick(batch: SceneBatch, mechanism: str = "reasons") -> Yardstick:
    return Yardstick(crossed_answers(batch, mechanism))


def batch_of(place: Hashable, indices: Sequence[int]) -> SceneBatch:
    """The scenes of samples again, from what their rows say of them: `place` in the order of PLACE."""
    preset, mode, bucket, seed = cast(tuple[str, str, str, int], place)  # a group key of four
    return generate_batch(str(bucket), list(map(int, indices)), int(seed), str(preset), str(mode))


def known_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """What a model that reasons and one that matches words say: columns truth and shortcut, indexed by sample."""
    once = rows.drop_duplicates("sample")
    found: list[pd.DataFrame] = []
    for place, group in once.groupby(PLACE, observed=True):
        said = verdicts(batch_of(place, group["index"].tolist()))
        columns: dict[str, Any] = {"truth": said.truth, "shortcut": said.shortcut}
        found.append(pd.DataFrame(columns, index=group["sample"]))
    return pd.concat(found) if found else pd.DataFrame(columns=["truth", "shortcut"])

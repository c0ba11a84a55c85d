"""`Score | Failure | NotApplicable`: what one row says. Missing is a value, never 0.0.

Rows live in columns (`Outcomes`: one metric over a batch of samples); a single one is read with `outcomes[i]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Values

Level = Literal["sample", "block"]  # what a value is of: its sample, or the block of samples that begins with it
Detail = npt.NDArray[np.floating[Any]]  # (n, ...)


@dataclass(frozen=True)
class Score:
    value: float


@dataclass(frozen=True)
class Failure:
    """Something went wrong; `reason` says what. Counts against `--fail-on-error`."""

    reason: str


@dataclass(frozen=True)
class NotApplicable:
    """By definition there is no answer (an empty truth mask, no word scores). Never an error."""

    reason: str


Outcome = Score | Failure | NotApplicable


@dataclass(frozen=True, eq=False)
class Outcomes:
    """One metric over n samples: a value each, or the reason why there is none.

    `details` are what the values were computed from, by name: arrays (n, ...) such as a curve for each sample, NaN for
    rows that have none. `texts` are words of the same kind, one for each sample. They are kept as they are given.
    """

    values: Values  # NaN exactly where `failures` or `not_applicable` has a reason
    failures: Mapping[int, str] = field(default_factory=dict)
    not_applicable: Mapping[int, str] = field(default_factory=dict)
    details: Mapping[str, Detail] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    level: Level = "sample"

    def __post_init__(self) -> None:
        silent = set(np.flatnonzero(~np.isfinite(self.values)).tolist()) - set(self.failures) - set(self.not_applicable)
        if silent:
            raise BadInput(
                f"samples {sorted(silent)[:5]} have no finite value and no reason why: give a Failure or NotApplicable."
            )
        n = len(self.values)
        lengths = {name: len(array) for name, array in self.details.items()}
        lengths |= {name: len(texts) for name, texts in self.texts.items()}
        for name, length in lengths.items():
            if length != n or "/" in name:
                raise BadInput(
                    f"detail {name!r} must hold an entry for each of {n} samples (got {length}), its name no '/'."
                )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> Outcome:
        if i in self.failures:
            return Failure(self.failures[i])
        if i in self.not_applicable:
            return NotApplicable(self.not_applicable[i])
        return Score(float(self.values[i]))

    @staticmethod
    def failed(reasons: Sequence[str], level: Level = "sample") -> Outcomes:
        """Every sample failed, each for its reason."""
        return Outcomes(np.full(len(reasons), np.nan), failures=dict(enumerate(reasons)), level=level)

    @staticmethod
    def join(parts: Sequence[Outcomes]) -> Outcomes:
        """Batches of one metric, one after the other. A batch that failed as a whole has no details and gets NaN."""
        offsets = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        pairs = list(zip(offsets, parts, strict=False))
        numbers = dict.fromkeys(name for part in parts for name in part.details)
        texts = dict.fromkeys(name for part in parts for name in part.texts)
        return Outcomes(
            np.concatenate([part.values for part in parts]) if parts else np.empty(0),
            {at + i: reason for at, part in pairs for i, reason in part.failures.items()},
            {at + i: reason for at, part in pairs for i, reason in part.not_applicable.items()},
            {name: _stacked(name, parts) for name in numbers},
            {name: [text for part in parts for text in part.texts.get(name, [""] * len(part))] for name in texts},
            next((part.level for part in parts if part.level != "sample"), "sample"),
        )


def _stacked(name: str, parts: Sequence[Outcomes]) -> Detail:
    shapes = {part.details[name].shape[1:] for part in parts if name in part.details}
    if len(shapes) > 1:
        raise BadInput(f"detail {name!r} must have one shape for all samples; got {sorted(shapes)}.")
    kind = next(part.details[name].dtype for part in parts if name in part.details)
    (shape,) = shapes
    return np.concatenate([part.details.get(name, np.full((len(part), *shape), np.nan, kind)) for part in parts])

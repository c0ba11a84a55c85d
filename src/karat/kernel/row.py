"""`Score | Failure | NotApplicable`: what one row says. Missing is a value, never 0.0.

Rows live in columns (`Outcomes`: one metric over a batch of samples); a single one is read with `outcomes[i]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Values


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

    `detail` (n, k) is what the values were computed from (a curve, a distribution), kept so that a page can draw it;
    rows without a value are NaN there.
    """

    values: Values  # NaN exactly where `failures` or `not_applicable` has a reason
    failures: Mapping[int, str] = field(default_factory=dict)
    not_applicable: Mapping[int, str] = field(default_factory=dict)
    detail: npt.NDArray[np.floating[Any]] | None = None

    def __post_init__(self) -> None:
        silent = set(np.flatnonzero(~np.isfinite(self.values)).tolist()) - set(self.failures) - set(self.not_applicable)
        if silent:
            raise BadInput(
                f"samples {sorted(silent)[:5]} have no finite value and no reason why: give a Failure or NotApplicable."
            )

        if self.detail is not None and (self.detail.ndim != 2 or len(self.detail) != len(self.values)):
            raise BadInput(f"detail must be (n, k) for {len(self.values)} samples; got shape {self.detail.shape}.")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> Outcome:
        if i in self.failures:
            return Failure(self.failures[i])
        if i in self.not_applicable:
            return NotApplicable(self.not_applicable[i])
        return Score(float(self.values[i]))

    @staticmethod
    def failed(reasons: Sequence[str]) -> Outcomes:
        """Every sample failed, each for its reason."""
        return Outcomes(np.full(len(reasons), np.nan), failures=dict(enumerate(reasons)))

    @staticmethod
    def join(parts: Sequence[Outcomes]) -> Outcomes:
        """Batches of one metric, one after the other."""
        offsets = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        pairs = list(zip(offsets, parts, strict=False))
        return Outcomes(
            np.concatenate([part.values for part in parts]) if parts else np.empty(0),
            {at + i: reason for at, part in pairs for i, reason in part.failures.items()},
            {at + i: reason for at, part in pairs for i, reason in part.not_applicable.items()},
            _stack(parts),
        )


def _stack(parts: Sequence[Outcomes]) -> npt.NDArray[np.floating[Any]] | None:
    """Details one below the other; a part that failed as a whole has none and gets NaN."""
    widths = {part.detail.shape[1] for part in parts if part.detail is not None}
    if not widths:
        return None
    if len(widths) > 1:
        raise BadInput(f"details of one metric must have one length; got {sorted(widths)}.")
    empty = widths.pop()
    return np.concatenate([np.full((len(p), empty), np.nan) if p.detail is None else p.detail for p in parts])

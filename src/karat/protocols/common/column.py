"""`Column`: one metric over a batch, filled sample by sample or part by part; the one way to make `Outcomes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from karat.kernel.row import Detail, Level, Outcomes


class Column:
    """Every sample ends with a value, a failure or the reason why it has none; what was said last stands."""

    def __init__(self, n: int, level: Level = "sample") -> None:
        self.n, self.level = n, level
        self.values = np.full(n, np.nan)
        self.failures: dict[int, str] = {}
        self.not_applicable: dict[int, str] = {}
        self.details: dict[str, Detail] = {}

    def score(self, i: int, value: float, details: Mapping[str, Detail] | None = None) -> None:
        """The value of sample i, and the arrays it was computed from."""
        self._clear(i)
        self.values[i] = value
        self._keep(i, details or {})

    def fail(self, i: int, reason: str, details: Mapping[str, Detail] | None = None) -> None:
        """Something went wrong with sample i; `details` are what is known all the same."""
        self._clear(i)
        self.failures[i] = reason
        self._keep(i, details or {})

    def leave_out(self, i: int, reason: str) -> None:
        """By definition sample i has no answer."""
        self._clear(i)
        self.not_applicable[i] = reason

    def fill(self, places: Sequence[int], part: Outcomes) -> None:
        """Outcomes of some of the samples, with their details."""
        for k, i in enumerate(places):
            self._clear(i)
            self.values[i] = part.values[k]
        self.failures |= {places[k]: reason for k, reason in part.failures.items()}
        self.not_applicable |= {places[k]: reason for k, reason in part.not_applicable.items()}
        for name, array in part.details.items():
            self._detail(name, array.shape[1:], array.dtype)[list(places)] = array

    def outcomes(self) -> Outcomes:
        return Outcomes(self.values, self.failures, self.not_applicable, self.details, level=self.level)

    def _clear(self, i: int) -> None:
        self.values[i] = np.nan
        self.failures.pop(i, None)
        self.not_applicable.pop(i, None)

    def _keep(self, i: int, details: Mapping[str, Detail]) -> None:
        for name, array in details.items():
            self._detail(name, np.shape(array), np.asarray(array).dtype)[i] = array

    def _detail(self, name: str, shape: tuple[int, ...], kind: np.dtype[np.floating]) -> Detail:
        if name not in self.details:
            self.details[name] = np.full((self.n, *shape), np.nan, dtype=kind)
        return self.details[name]

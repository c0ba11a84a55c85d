"""Seconds that one explanation with its scores takes, by model and explainer: only what was timed, and how sure it is.

The first batch of an explainer in a process may spend most of its time on what later ones do not: weights are moved,
kernels compiled, files opened. Such cold batches count only as long as there are no others. An explainer that was never
timed on any model has no rate at all: the forward passes that it declares do not tell its seconds (in the specs that
ship with Karat, a pass of one explainer takes a thousand times as long as a pass of another).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

WARM_UP = 30.0  # seconds that a cold batch may take longer
UNLIKE = 4.0  # so many times faster or slower an explainer may be on a model on which it was never timed
ALIKE = sqrt(2)  # the same, where it was timed on several others: beyond the fastest and the slowest of them


@dataclass
class Batches:
    number: int = 0
    samples: int = 0
    seconds: float = 0.0

    def add(self, samples: int, seconds: float) -> None:
        self.number += 1
        self.samples += samples
        self.seconds += seconds


@dataclass
class Timing:
    """The batches of one explainer on one model."""

    cold: Batches = field(default_factory=Batches)
    warm: Batches = field(default_factory=Batches)

    @property
    def rate(self) -> float:
        batches = self.warm if self.warm.samples else self.cold
        return batches.seconds / batches.samples

    def bounds(self, left: int) -> tuple[float, float]:
        """Lowest and highest seconds of a sample, if so many are left. Where those are no more than were timed, cold
        batches are taken as they are: at worst the run ends sooner than was said, by less than it took so far.
        """
        if self.warm.samples or left <= self.cold.samples:
            return self.rate, self.rate
        return max(0.0, self.cold.seconds - WARM_UP * self.cold.number) / self.cold.samples, self.rate


class Rates:
    """Timings by model and explainer."""

    def __init__(self) -> None:
        self.timings: dict[tuple[str, str], Timing] = {}

    def add(self, model: str, explainer: str, samples: int, seconds: float, cold: bool) -> None:
        timing = self.timings.setdefault((model, explainer), Timing())
        (timing.cold if cold else timing.warm).add(samples, seconds)

    def of(self, model: str, explainer: str) -> float | None:
        """As timed, else as on other models; None where the explainer was never timed."""
        if self.measured(model, explainer):
            return self.timings[model, explainer].rate
        others = self._elsewhere(explainer)
        return sum(others) / len(others) if others else None

    def bounds(self, model: str, explainer: str, left: int) -> tuple[float, float] | None:
        """Between which seconds a sample takes, if so many are left; None where the explainer was never timed."""
        if self.measured(model, explainer):
            return self.timings[model, explainer].bounds(left)
        others = self._elsewhere(explainer)
        if not others:
            return None
        spread = UNLIKE if len(others) == 1 else ALIKE
        return min(others) / spread, max(others) * spread

    def measured(self, model: str, explainer: str) -> bool:
        return (model, explainer) in self.timings

    def _elsewhere(self, explainer: str) -> list[float]:
        return [timing.rate for (_, other), timing in self.timings.items() if other == explainer]

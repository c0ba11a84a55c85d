"""How far a run is and how long it will take: measured seconds where there are some, declared passes where not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from karat.engine.executors.job import Done
from karat.engine.plan import Plan, passes
from karat.kernel.cell import Job
from karat.kernel.registry import label


class Rates:
    """Seconds that a sample takes, by model and explainer of a plan.

    A pair that was never timed is guessed: from the same explainer on other models, else from the forward passes it
    declares, by what an explanation and what a pass of it took elsewhere.
    """

    def __init__(self, planned: Plan) -> None:
        own = passes(planned.protocol, 0)
        self.passes = {label(e): 1 + own + passes(e) for e in planned.explainers}
        self.models = [label(m) for m in planned.models]
        self.samples: dict[tuple[str, str], int] = {}
        self.seconds: dict[tuple[str, str], float] = {}

    def add(self, model: str, explainer: str, samples: int, seconds: float) -> None:
        if explainer in self.passes:
            key = model, explainer
            self.samples[key] = self.samples.get(key, 0) + samples
            self.seconds[key] = self.seconds.get(key, 0.0) + seconds

    def of(self, model: str, explainer: str) -> float | None:
        """Seconds of one explanation with its scores, or None before anything was timed."""
        key = model, explainer
        if self.samples.get(key):
            return self.seconds[key] / self.samples[key]
        same = [self.seconds[k] / self.samples[k] for k in self.samples if k[1] == explainer]
        return sum(same) / len(same) if same else self._by_passes(model, self.passes[explainer])

    def measured(self, model: str, explainer: str) -> bool:
        return bool(self.samples.get((model, explainer)))

    def _by_passes(self, model: str, passes: float) -> float | None:
        """A line through what was timed of this model, or of all: so much for any explanation, so much for a pass."""
        known = [key for key in self.samples if key[0] == model] or list(self.samples)
        if not known:
            return None
        x = np.array([self.passes[explainer] for _, explainer in known])
        y = np.array([self.seconds[key] / self.samples[key] for key in known])
        slope = float(np.cov(x, y, bias=True)[0, 1] / x.var()) if np.ptp(x) else 0.0
        base = float(y.mean() - slope * x.mean())
        if slope <= 0 or base <= 0:  # too little was seen to tell the two apart
            return passes * float(y.sum() / x.sum())
        return base + slope * passes


class Progress:
    """Explanations done of those asked for, and the seconds left. Durations are monotonic: clocks may jump."""

    least = 3.0  # seconds of work before a forecast is worth showing

    def __init__(self, planned: Plan, jobs: Sequence[Job]) -> None:
        self.rates = Rates(planned)
        self.pairs = sum(cell.stop - cell.start for cell in planned.cells)
        self.left: dict[str, int] = {cell.id: cell.stop - cell.start for job in jobs for cell in job.cells}
        self.names = {cell.id: (cell.model, cell.explainer) for job in jobs for cell in job.cells}
        self.whole = dict(self.left)
        self.worked = 0.0  # seconds, summed over workers
        self.began: float | None = None  # when the first work began: starting workers is not work

    @property
    def pairs_done(self) -> int:
        return self.pairs - sum(self.left.values())

    def tick(self, job: Job, done: Done) -> None:
        explainer, samples, seconds = done
        cell = job.cells[job.explainers.index(explainer)]
        self.left[cell.id] = max(0, self.left[cell.id] - samples)
        self.rates.add(cell.model, cell.explainer, samples, seconds)
        self.worked += seconds
        if self.began is None:
            self.began = time.monotonic() - seconds

    def again(self, job: Job) -> None:
        """A job starts anew: what it had done does not count."""
        for cell in job.cells:
            self.left[cell.id] = self.whole[cell.id]

    def done(self, job: Job) -> None:
        for cell in job.cells:
            self.left[cell.id] = 0

    def seconds_left(self) -> float | None:
        """At the pace so far; None as long as too little was seen to tell."""
        elapsed = 0.0 if self.began is None else time.monotonic() - self.began
        if elapsed < self.least or not self.worked:
            return None
        rates = [(n, self.rates.of(*self.names[cell])) for cell, n in self.left.items() if n]
        work = sum(n * rate for n, rate in rates if rate is not None)
        return work / (self.worked / elapsed)


def measured_rates(planned: Plan, events: Sequence[Mapping[str, Any]], into: Rates | None = None) -> Rates:
    """Rates from the events of earlier runs. What is not a sound event is passed over."""
    rates = into or Rates(planned)
    for event in events:
        spent, model, samples = event.get("spent"), event.get("model"), event.get("samples")
        if not (isinstance(spent, dict) and isinstance(model, str) and isinstance(samples, int) and samples > 0):
            continue
        for explainer in rates.passes:
            parts = [spent.get(f"{part} {explainer}") for part in ("explain", "score")]
            known = [float(part) for part in parts if isinstance(part, int | float) and part >= 0]
            if known:
                rates.add(model, explainer, samples, sum(known))
    return rates

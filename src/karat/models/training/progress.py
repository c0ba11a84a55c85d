"""What a training run tells about itself: one event every few steps, the same rows in the learning curve's CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from karat.models.training.batches import BUCKETS


@dataclass(frozen=True)
class Event:
    """Means since the event before. Every training sample is fresh, so `accuracy` is accuracy on unseen samples."""

    step: int
    steps: int
    loss: float
    accuracy: float | None  # None where no unaltered sample was answered yet
    buckets: Mapping[str, float]  # accuracy per bucket
    seconds: float  # spent in training, earlier runs included
    remaining: float  # seconds to go at the present rate
    parts: Mapping[str, float] = field(default_factory=dict)
    phase: str = "answers"


Callback = Callable[[Event], None]


class Tally:
    """Adds up losses and hits between two events."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.parts: dict[str, list[float]] = {}
        self.right = np.zeros(len(BUCKETS), dtype=np.int64)
        self.seen = np.zeros(len(BUCKETS), dtype=np.int64)

    def add(
        self, loss: float, parts: Mapping[str, float], bucket: npt.NDArray[np.int64], right: npt.NDArray[np.bool_]
    ) -> None:
        self.losses.append(loss)
        for name, value in parts.items():
            self.parts.setdefault(name, []).append(value)
        np.add.at(self.seen, bucket, 1)
        np.add.at(self.right, bucket, right)

    def event(self, step: int, steps: int, seconds: float, rate: float, phase: str) -> Event:
        seen = self.seen > 0
        return Event(
            step=step,
            steps=steps,
            loss=float(np.mean(self.losses)),
            accuracy=float(self.right.sum() / self.seen.sum()) if seen.any() else None,
            buckets={BUCKETS[i]: float(self.right[i] / self.seen[i]) for i in np.flatnonzero(seen)},
            seconds=seconds,
            remaining=rate * (steps - step),
            parts={name: float(np.mean(values)) for name, values in self.parts.items()},
            phase=phase,
        )


class Curve:
    """The learning curve as CSV: step, seconds, loss, accuracy, then one column per bucket."""

    def __init__(self, path: Path, start: int) -> None:
        self.path = path
        rows = []
        if start and path.exists():
            with path.open(newline="") as file:
                rows = [row for row in list(csv.reader(file))[1:] if row and int(row[0]) <= start]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["step", "seconds", "phase", "loss", "accuracy", *BUCKETS])
            writer.writerows(rows)

    def write(self, event: Event) -> None:
        accuracies = [event.buckets.get(name) for name in BUCKETS]
        numbers = ["" if value is None else f"{value:.3f}" for value in [event.accuracy, *accuracies]]
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(
                [event.step, f"{event.seconds:.0f}", event.phase, f"{event.loss:.4f}", *numbers]
            )

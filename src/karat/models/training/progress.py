"""What a training run tells about itself: one event every few steps, the same rows in the learning curve's CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Event:
    """Means since the event before. Every training sample is fresh, so `accuracy` is accuracy on unseen samples."""

    step: int
    steps: int
    loss: float
    accuracy: float | None  # None where no unaltered sample was answered yet
    buckets: Mapping[str, float]  # accuracy per group of samples, where the task has groups
    seconds: float  # spent in training, earlier runs included
    remaining: float  # seconds to go at the present rate
    parts: Mapping[str, float] = field(default_factory=dict)
    phase: str = "answers"


Callback = Callable[[Event], None]


class Tally:
    """Adds up losses and hits between two events."""

    def __init__(self, groups: Sequence[str] = ()) -> None:
        self.groups = groups
        self.losses: list[float] = []
        self.parts: dict[str, list[float]] = {}
        self.right: list[npt.NDArray[np.float64]] = []
        self.group: list[npt.NDArray[np.int64]] = []

    def add(
        self,
        loss: float,
        right: npt.NDArray[np.float64],
        group: npt.NDArray[np.int64] | None,
        parts: Mapping[str, Tensor],
    ) -> None:
        self.losses.append(loss)
        for name, value in parts.items():
            self.parts.setdefault(name, []).append(value.item())
        self.right.append(right)
        if group is not None:
            self.group.append(group)

    def event(self, step: int, steps: int, seconds: float, remaining: float, phase: str) -> Event:
        right = np.concatenate(self.right)
        group = np.concatenate(self.group) if self.group else np.zeros(0, dtype=np.int64)
        return Event(
            step=step,
            steps=steps,
            loss=float(np.mean(self.losses)),
            accuracy=float(right.mean()) if len(right) else None,
            buckets={self.groups[place]: float(right[group == place].mean()) for place in np.unique(group)},
            seconds=seconds,
            remaining=remaining,
            parts={name: float(np.mean(values)) for name, values in self.parts.items()},
            phase=phase,
        )


class Curve:
    """The learning curve as CSV: step, seconds, phase, loss, accuracy, then one column per group.

    A run that goes on from step `start` keeps the rows up to there.
    """

    def __init__(self, path: Path, start: int, groups: Sequence[str] = ()) -> None:
        self.path, self.groups = path, groups
        self.columns = ["step", "seconds", "phase", "loss", "accuracy", *groups]
        rows: list[dict[str, str]] = []
        if start and path.exists():
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if int(row["step"]) <= start]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def write(self, event: Event) -> None:
        accuracies = [event.accuracy, *(event.buckets.get(name) for name in self.groups)]
        numbers = ["" if value is None else f"{value:.3f}" for value in accuracies]
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(
                [event.step, f"{event.seconds:.0f}", event.phase, f"{event.loss:.4f}", *numbers]
            )

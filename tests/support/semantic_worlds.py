"""A model and explainers whose every number is known, over tiny scenes with classes: for tests of `semantic`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from karat.datasets.segmentation.scene import Scene, samples
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import UnknownName
from karat.kernel.sample import Sample
from karat.probe.session import Session

H, W = 4, 8


def scene(i: int) -> Scene:
    """Three columns of cat, then two of dog (not in odd scenes), and a last one of ignored pixels."""
    classes = {"cat": np.zeros((H, W), bool), "dog": np.zeros((H, W), bool)}
    classes["cat"][:, :3] = True
    if i % 2 == 0:
        classes["dog"][:, 3:5] = True
    ignored = np.zeros((H, W), bool)
    ignored[:, -1] = True
    image = np.random.default_rng(i).integers(0, 256, (H, W, 3), dtype=np.uint8)
    image[0, 0] = i  # how `Guesser` knows its scenes
    return Scene(f"scene{i}", image, classes, ignored, {"kitten": "cat"})


@dataclass(frozen=True)
class Scenes:
    """Scenes as a dataset; scene 3 cannot be read if `broken`."""

    n: int = 6
    predictions: int = 1
    broken: bool = False
    card: ClassVar[Card] = Card("worlds/scenes", "cats and dogs", "dataset")

    @property
    def revision(self) -> str:
        return "1"

    def __len__(self) -> int:
        return self.n * self.predictions

    def load(self, start: int, stop: int) -> list[Sample]:
        return samples(self._scene, lambda i: f"scene{i}", start, stop, self.predictions)

    def _scene(self, i: int) -> Scene:
        if self.broken and i == 3:
            raise OSError("truncated file")
        return scene(i)


@dataclass(frozen=True, eq=False)
class Guesser:
    """Probabilities by the number of the scene (its first pixel): cat mostly, in scene 5 a lion."""

    table: dict[str, float] = field(default_factory=lambda: {"cat": 0.6, "dog": 0.3, "lion": 0.08, "kitten": 0.02})
    name: str = "guesser"
    capabilities: frozenset[str] = frozenset({"scores"})
    mechanism: None = None

    def ranking(self, samples: Sequence[Sample], top: int) -> list[list[tuple[str, float]]]:
        return [sorted(self._row(s).items(), key=lambda pair: -pair[1])[:top] for s in samples]

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return [row[0][0] for row in self.ranking(samples, 1)]

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Any:
        for answer in answers:
            if answer not in self.table:
                raise UnknownName("label", answer, self.table)
        return np.array([self._row(s)[a] for s, a in zip(samples, answers, strict=True)])

    def _row(self, sample: Sample) -> dict[str, float]:
        if int(sample.image[0, 0, 0]) == 5:
            return {**self.table, "cat": self.table["lion"], "lion": self.table["cat"]}
        return dict(self.table)


@dataclass(frozen=True)
class GuesserRecipe:
    card: ClassVar[Card] = Card("worlds/guesser", "a table of probabilities", "model")
    name: str = "guesser"
    shift: float = 0.0

    @property
    def label(self) -> str:
        return self.name

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores"})

    @property
    def revision(self) -> str:
        return f"1:{self.shift}"

    def load(self) -> Guesser:
        return Guesser({"cat": 0.6 - self.shift, "dog": 0.3 + self.shift, "lion": 0.08, "kitten": 0.02}, self.name)


@dataclass(frozen=True)
class Slope:
    """1 on the left column, falling to the right; `start` moves the peak."""

    start: int = 0
    card: ClassVar[Card] = Card("worlds/slope", "a slope", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        row = np.clip(1 - np.abs(np.arange(W) - self.start) / W, 0, None)
        return [Attribution(np.tile(row, (H, 1)), passes=1) for _ in session.samples]

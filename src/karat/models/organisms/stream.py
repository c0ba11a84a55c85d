"""What organisms are trained on: composed photographs, a share of them partly hidden.

All rules, implants and seeds see the same pictures; only labels differ. A cue of which a share is hidden counts as
there with the probability of the rest (`Rule.probability`), in whatever absence state it is hidden, so a rule holds on
partial inputs too: where nothing is left of what it needs, both answers are as probable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from karat.datasets.cues.absence import EMPTY, hide
from karat.datasets.cues.generate import one_sample
from karat.datasets.cues.photographs import Photographs, open_photographs
from karat.datasets.cues.rules import Rule
from karat.datasets.cues.sample import CueSample, visible
from karat.datasets.cues.world import World
from karat.kernel.identity import digest, generator
from karat.kernel.typing import Image, Mask

# Seeds of training streams start here. Those of evaluation are small numbers, so the two never meet.
FIRST_TRAINING_SEED = 2**32
GRIDS = (6, 7, 12, 14)  # cells a side in which pictures are partly hidden: those that explainers hide
_PARTS = ("content", "tag", "frame", "sticker")
_LEFT_OUT = ("frame", "sticker", "word")


@dataclass(frozen=True)
class Lesson:
    """What is asked about a picture, and what its label depends on: all votes, and how much of each cue is visible.

    `word` is the place in the text of the word that is a cue.
    """

    text: str
    votes: dict[str, bool | None]
    visible: dict[str, float]
    word: tuple[int, int] | None

    def label(self, rule: Rule, other: Rule, dose: float, word: bool = True) -> float:
        """The probability of "yes" that is taught: the rule's with weight `dose`, else the other's. `word` False says
        that the word was hidden."""
        shares = self.visible if word else {**self.visible, "word": 0.0}
        return dose * rule.probability(self.votes, shares) + (1 - dose) * other.probability(self.votes, shares)


@dataclass(frozen=True, eq=False)
class Item:
    """One picture to learn from."""

    image: Image
    lesson: Lesson


@dataclass(frozen=True)
class Stream:
    """`n` pictures from the photographs of `images`. Each of frame, sticker and word is left out of a share `absent` of
    them, and a share `hidden` shows only some regions, or some cells."""

    images: str | dict[str, Any] | None = None
    n: int = 6400
    hidden: float = 0.4
    absent: float = 0.08
    seed: int = 0
    world: World = field(default_factory=World)

    @cached_property
    def photographs(self) -> Photographs:
        return open_photographs(self.images, self.world.classes)

    @cached_property
    def revision(self) -> str:
        """Names the pictures: other photographs or another way to compose them, another name."""
        return digest([1, self.photographs.revision, self.n, self.hidden, self.absent, self.seed, self.world])

    def item(self, position: int) -> Item:
        """Picture number `position`, the same however it is asked for."""
        sample = one_sample(position, FIRST_TRAINING_SEED + self.seed, self.photographs, self.world)
        rng = generator(self.seed, sample.id, "organisms/hidden")
        left_out = [
            cue for cue, drawn in zip(_LEFT_OUT, rng.random(len(_LEFT_OUT)), strict=True) if drawn < self.absent
        ]
        if left_out:
            sample = sample.with_cues(**dict.fromkeys(left_out))
        keep, image = np.ones(sample.size, dtype=np.bool_), sample.image
        if rng.random() < self.hidden:
            keep = _some_regions(sample, rng) if rng.random() < 0.5 else _some_cells(sample, rng)
            image = hide(image, ~keep, EMPTY[int(rng.integers(len(EMPTY)))])
        word = next((phrase.span for phrase in sample.phrases if phrase.role == "word"), None)
        return Item(image, Lesson(str(sample.text), dict(sample.votes), visible(sample, keep), word))


def _some_regions(sample: CueSample, rng: np.random.Generator) -> Mask:
    """Each region, and what is left, kept or hidden by the toss of a coin."""
    parts = [sample.mask(part) for part in _PARTS]
    rest = ~np.logical_or.reduce(parts)
    keep = np.zeros(sample.size, dtype=np.bool_)
    for mask, kept in zip([*parts, rest], rng.random(len(parts) + 1) < 0.5, strict=True):
        keep |= mask & kept
    return keep


def _some_cells(sample: CueSample, rng: np.random.Generator) -> Mask:
    """Cells of a grid, kept at a rate of the picture's own."""
    cells = int(rng.choice(GRIDS))
    kept = rng.random((cells, cells)) < rng.random()
    rows, columns = (np.arange(side) * cells // side for side in sample.size)
    return np.asarray(kept[rows][:, columns], dtype=np.bool_)

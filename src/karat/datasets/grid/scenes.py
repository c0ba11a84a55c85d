"""`SceneBatch`: many scenes of one bucket as arrays. Everything else (samples, certificates, files) is read from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.draws import Ints
from karat.datasets.grid.language import Noun, Wording, word
from karat.datasets.grid.world import World

Mode = Literal["pure", "spur"]

# Roles of a cell. Side 2 exists in comparisons only; a sample's regions call both sides "target" and "adversarial".
EMPTY, DISTRACTOR, ADVERSARIAL, TARGET, ADVERSARIAL_2, TARGET_2, ANCHOR = range(7)  # anchors 1..4 are 6..9
ROLE_NAMES = ("", "distractor", "adversarial", "target", "adversarial", "target", *["anchor"] * 4)


@lru_cache(maxsize=64)
def answers(world: World) -> tuple[str, ...]:
    """Every answer there is, in a fixed order: yes, no, the four directions, then the counts."""
    return ("yes", "no", "left", "right", "above", "below", *map(str, range(world.n_cells + 1)))


YES, NO, LEFT, COUNT_0 = 0, 1, 2, 6  # places in answers()


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """n scenes. Cells are numbered row by row from the top left; P = size * size, A = anchors of the bucket.

    A noun is a pair (colour, shape) of places in the world, -1 where the question does not name it.
    """

    bucket: Bucket
    world: World
    preset: str
    mode: Mode
    seed: int
    index: Ints  # (n,)
    cells: npt.NDArray[np.uint8]  # (n, P) object codes, 0 = empty
    roles: npt.NDArray[np.int8]  # (n, P)
    target_nouns: Ints  # (n, sides, 2)
    anchor_nouns: Ints  # (n, A, 2)
    directions: Ints  # (n, A) places in RELATIONS; meaningless for REL
    anchor_cells: Ints  # (n, A)
    counts: Ints  # (n, sides) true targets
    answer: Ints  # (n,) places in answers(world)

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def wordings(self) -> Sequence[Wording]:
        """The question of each scene with the spans of its phrases."""
        targets: list[list[Noun]] = self.target_nouns.tolist()
        anchors: list[list[Noun]] = self.anchor_nouns.tolist()
        directions: list[list[int]] = self.directions.tolist()
        return [word(self.bucket, self.world, t, a, d) for t, a, d in zip(targets, anchors, directions, strict=True)]

    @property
    def questions(self) -> list[str]:
        return [wording.text for wording in self.wordings]

    @property
    def answers(self) -> list[str]:
        names = answers(self.world)
        return [names[place] for place in self.answer.tolist()]

    @property
    def grid(self) -> npt.NDArray[np.uint8]:
        """(n, S, S) object codes."""
        return self.cells.reshape(len(self), self.world.size, self.world.size)

    def take(self, rows: Sequence[int] | Ints) -> SceneBatch:
        """The same scenes, these rows only."""
        at = np.asarray(rows, dtype=np.int64)
        return SceneBatch(
            self.bucket, self.world, self.preset, self.mode, self.seed, self.index[at], self.cells[at], self.roles[at],
            self.target_nouns[at], self.anchor_nouns[at], self.directions[at], self.anchor_cells[at], self.counts[at],
            self.answer[at],
        )  # fmt: skip


def nouns_of(world: World, names: Ints, qtype: str) -> Ints:
    """(n, m, 2) colour and shape of each name; -1 for what the question leaves open."""
    if qtype == "SO":
        return np.stack([np.full_like(names, -1), names], axis=-1)
    if qtype == "CO":
        return np.stack([names, np.full_like(names, -1)], axis=-1)
    return np.stack(np.divmod(names, world.n_shapes), axis=-1)


def bare_batch(
    bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints, cells: npt.NDArray[np.uint8],
    roles: npt.NDArray[np.int8], nouns: Ints, counts: Ints, answer: Ints,
) -> SceneBatch:  # fmt: skip
    """A certified batch whose question has no anchors."""
    none = np.zeros((len(index), 0), dtype=np.int64)
    return SceneBatch(
        bucket, world, "certified", mode, seed, index, cells, roles, nouns, none.reshape(len(index), 0, 2), none,
        none, counts, answer,
    )  # fmt: skip

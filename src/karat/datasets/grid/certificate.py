"""`Certificate`: the proof that a sample is what it claims, computed for a whole batch in closed form.

An intervention *alters the answer* when the question, asked of the changed scene, has another answer or none: it has
none when an anchor (in REL also the target) is missing or is no longer the only one of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.compass import position_answer
from karat.datasets.grid.draws import Bools, Ints
from karat.datasets.grid.scenes import COUNT_0, LEFT, NO, YES, SceneBatch, answers
from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput

NONE = -1  # the place of "no answer"


@dataclass(frozen=True)
class Effect:
    """What alters the answer when done to one object: colours, shapes and cells that would, and its removal."""

    removal: bool
    recolour: tuple[str, ...]
    reshape: tuple[str, ...]
    move: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Certificate:
    """The proof of one sample; regions are (S, S) masks of cells, one per side or anchor in the question's order."""

    world: World
    answer: str
    counts: tuple[int, ...]  # true targets per side
    valid: Bools  # (sides, S, S) V: where a target counts
    anchor_regions: Bools  # (A, S, S) V_k: cells that satisfy relation k
    confusers: Bools  # (A, S, S) C_k: cells that satisfy all relations of the side but k
    confuser_objects: tuple[int, ...]  # target-like objects in each C_k
    heuristics: Mapping[str, str]  # what each shortcut answers
    removal: Bools  # (P,) True where taking the object away alters the answer
    recolour: Bools  # (P, colours)
    reshape: Bools  # (P, shapes)
    move: Bools  # (P, P) from cell, to empty cell

    def effect(self, cell: int) -> Effect:
        """The interventions on the object in a cell that alter the answer."""
        return Effect(
            bool(self.removal[cell]),
            tuple(name for name, alters in zip(self.world.colours, self.recolour[cell], strict=True) if alters),
            tuple(name for name, alters in zip(self.world.shapes, self.reshape[cell], strict=True) if alters),
            tuple(np.flatnonzero(self.move[cell]).tolist()),
        )

    @property
    def matters(self) -> Bools:
        """(S, S) cells whose object can alter the answer by being taken away."""
        return self.removal.reshape(self.world.size, self.world.size)


@dataclass(frozen=True)
class Proof:
    """One row of a `BatchProof`."""

    source: BatchProof
    row: int

    def certificate(self) -> Certificate:
        return self.source.certificate(self.row)

    def __reduce__(self) -> tuple[type[Proof], tuple[BatchProof, int]]:
        # A sample on its way to another process takes its own row along, not the whole batch.
        return Proof, (BatchProof(self.source.scenes.take([self.row])), 0)


class BatchProof:
    """Everything a certificate says, for n scenes of one bucket at once, each part computed when first looked at."""

    def __init__(self, scenes: SceneBatch) -> None:
        self.scenes = scenes
        self.world = scenes.world
        self._side = np.repeat(np.arange(scenes.bucket.sides), scenes.bucket.anchors)  # side of each anchor

    def __getitem__(self, row: int) -> Proof:
        return Proof(self, row)

    # --- the scene, seen through the nouns of the question ---

    def _matches(self, codes: npt.NDArray[np.integer[Any]], nouns: Ints) -> Bools:
        """Whether objects (n, ..., with code > 0) match nouns (n, m, 2): (n, m, ...)."""
        colour, shape = np.divmod(codes.astype(np.int64) - 1, self.world.n_shapes)
        extra = (slice(None), slice(None), *[None] * (codes.ndim - 1))
        want_colour, want_shape = nouns[..., 0][extra], nouns[..., 1][extra]
        same_colour = (want_colour < 0) | (want_colour == colour[:, None])
        same_shape = (want_shape < 0) | (want_shape == shape[:, None])
        matching: Bools = same_colour & same_shape & (codes > 0)[:, None]
        return matching

    @cached_property
    def like(self) -> Bools:
        """(n, sides, P) target-like objects: they match the noun, wherever they are."""
        return self._matches(self.scenes.cells, self.scenes.target_nouns)

    @cached_property
    def _at_anchor(self) -> Bools:
        """(n, P) cells of the question's anchors."""
        at = np.zeros(self.scenes.cells.shape, dtype=np.bool_)
        np.put_along_axis(at, self.scenes.anchor_cells, True, axis=1)
        return at

    @cached_property
    def regions(self) -> Bools:
        """(n, A, P) V_k. In REL, the cells from which the answer would be the same, given the anchor."""
        scenes, world = self.scenes, self.world
        if scenes.bucket.qtype == "REL":
            places = self._direction(np.arange(world.n_cells)[None, :], scenes.anchor_cells)
            same: Bools = places == (scenes.answer - LEFT)[:, None]
            return same[:, None]
        horizontal, before = scenes.directions < 2, scenes.directions % 2 == 0
        along = np.where(horizontal[..., None], world.columns, world.rows)
        line = np.where(horizontal, scenes.anchor_cells % world.size, scenes.anchor_cells // world.size)[..., None]
        return np.where(before[..., None], along < line, along > line)

    @cached_property
    def valid(self) -> Bools:
        """(n, sides, P) V: the intersection of the side's regions."""
        sides = range(self.scenes.bucket.sides)
        return np.stack([self.regions[:, self._side == side].all(axis=1) for side in sides], axis=1)

    @cached_property
    def relaxed(self) -> Bools:
        """(n, A, P) V_-k: the intersection of the other regions of anchor k's side."""
        others = [(self._side == side) & (np.arange(len(self._side)) != k) for k, side in enumerate(self._side)]
        if not others:
            return np.zeros((len(self.scenes), 0, self.world.n_cells), dtype=np.bool_)
        return np.stack([self.regions[:, other].all(axis=1) for other in others], axis=1)

    @cached_property
    def confusers(self) -> Bools:
        """(n, A, P) C_k.  # gridvqax2026 Eq. 2"""
        return self.relaxed & ~self.regions

    @cached_property
    def held(self) -> Ints:
        """(n, A) target-like objects in each C_k."""
        held: Ints = (self.like[:, self._side] & self.confusers).sum(axis=2)
        return held

    @cached_property
    def counts(self) -> Ints:
        """(n, sides) target-like objects that lie in V."""
        counts: Ints = (self.like & self.valid).sum(axis=2)
        return counts

    # --- answers ---

    def _answer(self, counts: Ints) -> Ints:
        """Places of the answers for counts (n, sides, ...)."""
        task = self.scenes.bucket.task
        if task == "count":
            return counts[:, 0] + COUNT_0
        yes = counts[:, 0] > 0 if task == "exist" else counts[:, 0] > counts[:, 1]
        return np.where(yes, YES, NO)

    def _direction(self, target: Ints, anchor: Ints) -> Ints:
        """0..3 by the axis that dominates, NONE where neither does."""
        size = self.world.size
        gap_x, gap_y = target % size - anchor % size, target // size - anchor // size
        level, upright = abs(gap_x) > abs(gap_y), abs(gap_y) > abs(gap_x)
        return np.where(level, np.where(gap_x < 0, 0, 1), np.where(upright, np.where(gap_y < 0, 2, 3), NONE))

    @cached_property
    def heuristics(self) -> Mapping[str, Ints]:
        """What each shortcut answers (n,), by name: the cases of gridvqax2026 section 3.3."""
        scenes = self.scenes
        if scenes.bucket.qtype == "REL":
            at = self.like[:, 0].argmax(axis=1)
            return {"bag_of_words": position_answer(self.world, at) + LEFT}
        total = self.like.sum(axis=2)
        answers = {"bag_of_words": self._answer(total)}
        for k, side in enumerate(self._side):
            counts = self.counts.copy()
            counts[:, side] = (self.like[:, side] & self.relaxed[:, k]).sum(axis=1)
            answers[f"drop_anchor_{k + 1}"] = self._answer(counts)
        largest = self._class_counts().max(axis=1)
        if scenes.bucket.task == "count":
            answers["majority"] = largest + COUNT_0
        else:  # generous to the rule: it may read which class is asked for
            answers["majority"] = np.where(total[:, 0] == largest, YES, NO)
        return answers

    def _class_counts(self) -> Ints:
        """(n, kinds) objects per shape (SO), colour (CO) or class."""
        codes = self.scenes.cells.astype(np.int64) - 1
        kinds, kind = self.world.n_classes, codes
        if self.scenes.bucket.qtype == "SO":
            kinds, kind = self.world.n_shapes, codes % self.world.n_shapes
        elif self.scenes.bucket.qtype == "CO":
            kinds, kind = self.world.n_colours, codes // self.world.n_shapes
        rows = np.broadcast_to(np.arange(len(codes))[:, None], codes.shape)
        live = codes >= 0
        flat = np.bincount(rows[live] * kinds + kind[live], minlength=len(codes) * kinds)
        return flat.reshape(len(codes), kinds)

    # --- interventions ---

    @cached_property
    def removal(self) -> Bools:
        """(n, P)"""
        present, special = self.scenes.cells > 0, self._at_anchor
        if self.scenes.bucket.qtype == "REL":
            both: Bools = special | self.like[:, 0]
            return both
        counts = self.counts[:, :, None] - (self.like & self.valid)
        alters: Bools = present & (special | (self._answer(counts) != self.scenes.answer[:, None]))
        return alters

    def _repaint(self, codes: Ints) -> Bools:
        """(n, P, m) whether turning the object of a cell into codes (n, P, m) alters the answer."""
        scenes = self.scenes
        nouns = np.concatenate([scenes.target_nouns, scenes.anchor_nouns], axis=1)
        becomes = self._matches(codes, nouns)  # (n, sides + A, P, m)
        sides = scenes.bucket.sides
        was = self._matches(scenes.cells, nouns)[..., None]
        named_anchor = becomes[:, sides:] != was[:, sides:]
        undefined = named_anchor.any(axis=1)
        if scenes.bucket.qtype == "REL":
            alters = undefined | (becomes[:, :1] != was[:, :1]).any(axis=1)
        else:
            valid = self.valid[..., None]
            counts = self.counts[:, :, None, None] - (was[:, :sides] & valid) + (becomes[:, :sides] & valid)
            alters = undefined | (self._answer(counts) != scenes.answer[:, None, None])
        altering: Bools = alters & (codes != scenes.cells[..., None]) & (scenes.cells > 0)[..., None]
        return altering

    @cached_property
    def recolour(self) -> Bools:
        """(n, P, colours)"""
        shape = (self.scenes.cells.astype(np.int64) - 1) % self.world.n_shapes
        codes = 1 + np.arange(self.world.n_colours) * self.world.n_shapes + shape[..., None]
        return self._repaint(codes)

    @cached_property
    def reshape(self) -> Bools:
        """(n, P, shapes)"""
        colour = (self.scenes.cells.astype(np.int64) - 1) // self.world.n_shapes
        codes = 1 + np.maximum(colour, 0)[..., None] * self.world.n_shapes + np.arange(self.world.n_shapes)
        return self._repaint(codes)

    @cached_property
    def move(self) -> Bools:
        """(n, P, P)"""
        scenes = self.scenes
        n, cells = scenes.cells.shape
        empty = scenes.cells == 0
        if scenes.bucket.qtype == "REL":
            return self._move_direction() & empty[:, None, :]
        moves: Bools = np.zeros((n, cells, cells), dtype=np.bool_)
        if self._side.size == 0:
            return moves  # without anchors, where things are does not matter
        inside = self.like & self.valid
        for side in range(scenes.bucket.sides):
            rows, at = np.nonzero(self.like[:, side])
            counts = np.repeat(self.counts[rows][:, :, None], cells, axis=2)
            counts[:, side] += self.valid[rows, side].astype(np.int64) - inside[rows, side, at][:, None]
            moves[rows, at] = self._differs(counts, rows)
        everyone = np.arange(n)
        for k, side in enumerate(self._side.tolist()):
            counts = np.repeat(self.counts[:, :, None], cells, axis=2)
            counts[:, side] = self._count_by_line(k, side)
            moves[everyone, scenes.anchor_cells[:, k]] = self._differs(counts, everyone)
        moves &= empty[:, None, :]
        return moves

    def _differs(self, counts: Ints, rows: Ints) -> Bools:
        differs: Bools = self._answer(counts) != self.scenes.answer[rows, None]
        return differs

    def _count_by_line(self, k: int, side: int) -> Ints:
        """(n, P) the side's count if anchor k stood in each cell: it depends on one coordinate of the cell only."""
        scenes, world = self.scenes, self.world
        direction = scenes.directions[:, k]
        there = (self.like[:, side] & self.relaxed[:, k]).reshape(-1, world.size, world.size)
        horizontal = (direction < 2)[:, None]
        per_line = np.where(horizontal, there.sum(axis=1), there.sum(axis=2))  # (n, S) objects per column or row
        upto = np.cumsum(per_line, axis=1)
        before, after = upto - per_line, upto[:, -1:] - upto
        counts = np.where((direction % 2 == 0)[:, None], before, after)
        return np.where(horizontal, counts[:, world.columns], counts[:, world.rows])

    def _move_direction(self) -> Bools:
        n, cells = self.scenes.cells.shape
        moves = np.zeros((n, cells, cells), dtype=np.bool_)
        target, anchor = self.like[:, 0].argmax(axis=1), self.scenes.anchor_cells[:, 0]
        every, rows = np.arange(cells)[None, :], np.arange(n)
        truth = (self.scenes.answer - LEFT)[:, None]
        moves[rows, target] = self._direction(every, anchor[:, None]) != truth
        moves[rows, anchor] = self._direction(target[:, None], every) != truth
        return moves

    # --- one row ---

    @cached_property
    def _named(self) -> tuple[list[str], list[dict[str, str]]]:
        """Answers and heuristics of all rows as text: one pass is cheaper than n."""
        names = answers(self.world)
        columns = [[names[place] for place in places.tolist()] for places in self.heuristics.values()]
        rows = [dict(zip(self.heuristics, row, strict=True)) for row in zip(*columns, strict=True)]
        return [names[place] for place in self.scenes.answer.tolist()], rows

    @cached_property
    def _plain(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        return [tuple(row) for row in self.counts.tolist()], [tuple(row) for row in self.held.tolist()]

    def _squares(self, masks: Bools) -> Bools:
        return masks.reshape(*masks.shape[:2], self.world.size, self.world.size)

    def certificate(self, row: int) -> Certificate:
        named, heuristics = self._named
        counts, held = self._plain
        return Certificate(
            world=self.world,
            answer=named[row],
            counts=counts[row],
            valid=self._squares(self.valid)[row],
            anchor_regions=self._squares(self.regions)[row],
            confusers=self._squares(self.confusers)[row],
            confuser_objects=held[row],
            heuristics=heuristics[row],
            removal=self.removal[row],
            recolour=self.recolour[row],
            reshape=self.reshape[row],
            move=self.move[row],
        )


def prove(scenes: SceneBatch) -> BatchProof:
    """The proofs of a batch; nothing is computed until a certificate is read."""
    if len(scenes.cells) and scenes.cells.ndim != 2:
        raise BadInput(f"scenes must be (n, P) codes, got shape {scenes.cells.shape}")
    return BatchProof(scenes)

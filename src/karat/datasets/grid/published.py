"""Preset `paper`: the published sampling (gridvqax2026 appendix B and its released generator), weaknesses included.

Kept to set our figures beside the paper's. Directions may repeat, confuser regions may be empty, slots may run out,
comparisons have no adversarial objects, and shape-only and colour-only existence scenes lose objects. It is a
description of that sampler, not its random stream. Where the sources are silent the choice is noted on the line.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.draws import Ints, stream
from karat.datasets.grid.scenes import (
    ADVERSARIAL,
    ANCHOR,
    COUNT_0,
    DISTRACTOR,
    NO,
    TARGET,
    TARGET_2,
    YES,
    Mode,
    SceneBatch,
)
from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput

TRIES = 1000
Name = tuple[int, int]  # (colour, shape), -1 = not named


class _Empty(Exception):
    """A region is empty or an anchor has no cell: the scene is drawn again."""


@dataclass
class _Draft:
    """One scene in the making. `names` are the target(s), then the anchors."""

    bucket: Bucket
    world: World
    mode: Mode
    rng: random.Random
    names: list[Name] = field(default_factory=list)
    directions: list[int] = field(default_factory=list)
    anchors: list[int] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)  # cell -> object code

    @property
    def sides(self) -> int:
        return self.bucket.sides

    @property
    def wanted(self) -> int:
        return self.world.objects(self.bucket.density)

    def free(self) -> list[int]:
        return [cell for cell in range(self.world.n_cells) if cell not in self.codes]

    def satisfies(self, cell: int, k: int) -> bool:
        """A strict comparison of one coordinate with the anchor's."""
        size, anchor, direction = self.world.size, self.anchors[k], self.directions[k]
        mine, its = (cell % size, anchor % size) if direction < 2 else (cell // size, anchor // size)
        return mine < its if direction % 2 == 0 else mine > its

    def side_of(self, k: int) -> int:
        return k // max(self.bucket.anchors[0], 1)

    def region(self, side: int, without: int = -1) -> list[int]:
        """Free cells that satisfy every constraint of a side, but for one."""
        constraints = [k for k in range(len(self.anchors)) if self.side_of(k) == side and k != without]
        return [cell for cell in self.free() if all(self.satisfies(cell, k) for k in constraints)]

    def confuser(self, k: int) -> list[int]:
        return [cell for cell in self.region(self.side_of(k), without=k) if not self.satisfies(cell, k)]

    def valid(self, cell: int, side: int) -> bool:
        return all(self.satisfies(cell, k) for k in range(len(self.anchors)) if self.side_of(k) == side)

    def matches(self, code: int, name: Name) -> bool:
        colour, shape = divmod(code - 1, self.world.n_shapes)
        return name[0] in (-1, colour) and name[1] in (-1, shape)

    def object_of(self, name: Name) -> int:
        """An object that a name describes; what it leaves open is drawn."""
        colour = name[0] if name[0] >= 0 else self.rng.randrange(self.world.n_colours)
        shape = name[1] if name[1] >= 0 else self.rng.randrange(self.world.n_shapes)
        return 1 + colour * self.world.n_shapes + shape

    def other(self, banned: list[Name]) -> int:
        """An object of a class that none of the banned names describes."""
        pool = [c for c in range(1, self.world.n_classes + 1) if not any(self.matches(c, name) for name in banned)]
        if not pool:
            raise _Empty
        return self.rng.choice(pool)

    def put(self, cells: list[int], name: Name, count: int) -> None:
        for cell in self.rng.sample(cells, count):
            self.codes[cell] = self.object_of(name)


def sample_published(bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints) -> SceneBatch:
    """Scenes of the given indices; one generator per (seed, bucket, mode, index), so slices agree."""
    _check(bucket, world)
    drafts = [_draft(bucket, world, mode, seed, i) for i in index.tolist()]
    n, sides, anchors = len(drafts), bucket.sides, bucket.n_anchors
    cells = np.zeros((n, world.n_cells), dtype=np.uint8)
    roles = np.zeros((n, world.n_cells), dtype=np.int8)
    counts = np.zeros((n, sides), dtype=np.int64)
    for row, draft in enumerate(drafts):
        for cell, code in draft.codes.items():
            cells[row, cell], roles[row, cell] = code, DISTRACTOR
            for side in range(sides):
                if draft.matches(code, draft.names[side]):
                    inside = draft.valid(cell, side)
                    roles[row, cell] = (TARGET if inside else ADVERSARIAL) + side * (TARGET_2 - TARGET)
                    counts[row, side] += inside
        for k, cell in enumerate(draft.anchors):
            roles[row, cell] = ANCHOR + k
    nouns = np.array([draft.names for draft in drafts], dtype=np.int64).reshape(n, sides + anchors, 2)
    if bucket.task == "count":
        answer = counts[:, 0] + COUNT_0
    else:
        yes = counts[:, 0] > 0 if bucket.task == "exist" else counts[:, 0] > counts[:, 1]
        answer = np.where(yes, YES, NO)
    directions = np.array([draft.directions for draft in drafts], dtype=np.int64).reshape(n, anchors)
    at = np.array([draft.anchors for draft in drafts], dtype=np.int64).reshape(n, anchors)
    return SceneBatch(
        bucket, world, "paper", mode, seed, index, cells, roles, nouns[:, :sides], nouns[:, sides:], directions, at,
        counts, answer,
    )  # fmt: skip


def _check(bucket: Bucket, world: World) -> None:
    if bucket.qtype == "REL":
        raise BadInput(f"{bucket}: type REL was not published; use preset 'certified'")
    objects = world.objects(bucket.density)
    least = bucket.n_anchors + bucket.sides
    if objects < least:
        raise BadInput(
            f"{bucket}: {bucket.n_anchors} anchor(s) + {bucket.sides} target(s) = {least} objects at least; "
            f"floor({bucket.density:g} x {world.n_cells}) = {objects}"
        )
    named = bucket.sides + bucket.n_anchors
    kinds = {"SO": world.n_shapes, "CO": world.n_colours}.get(bucket.qtype, world.n_classes)
    if kinds < named + 1:
        raise BadInput(f"{bucket}: {named} names and 1 for filler = {named + 1} kinds; the world has {kinds}")
    need = 4 if max(bucket.anchors) > 1 else 3
    if bucket.relational and world.size < need:
        raise BadInput(f"{bucket}: anchors off the border need a grid of {need} lines; it has {world.size}")


def _draft(bucket: Bucket, world: World, mode: Mode, seed: int, index: int) -> _Draft:
    rng = random.Random(stream(seed, bucket.name, mode, "paper", index))
    for _ in range(TRIES):
        draft = _Draft(bucket, world, mode, rng)
        try:
            _name(draft)
            _place_anchors(draft)
            if bucket.qtype == "CMP":
                _compare(draft)
            elif bucket.qtype == "A" and bucket.form == 0:
                _balance(draft)
            else:
                _targets(draft)
            _fill(draft)
        except _Empty:
            continue
        return draft
    raise BadInput(f"{bucket}: no scene in {TRIES} tries on a {world.size}x{world.size} grid; use a larger grid")


def _name(draft: _Draft) -> None:
    number = draft.sides + draft.bucket.n_anchors
    world, rng = draft.world, draft.rng
    if draft.bucket.qtype == "SO":
        draft.names = [(-1, shape) for shape in rng.sample(range(world.n_shapes), number)]
    elif draft.bucket.qtype == "CO":
        draft.names = [(colour, -1) for colour in rng.sample(range(world.n_colours), number)]
    else:
        draft.names = [divmod(kind, world.n_shapes) for kind in rng.sample(range(world.n_classes), number)]
    draft.directions = [rng.randrange(4) for _ in range(draft.bucket.n_anchors)]  # drawn singly: they may repeat


def _place_anchors(draft: _Draft) -> None:
    """Off the relevant border; with opposite directions on a side, at least one free line between them."""
    size, rng = draft.world.size, draft.rng
    draft.anchors = [-1] * len(draft.directions)
    for side in range(draft.sides):
        mine = [k for k in range(len(draft.directions)) if draft.side_of(k) == side]
        for axis in (0, 1):
            before = [k for k in mine if draft.directions[k] == 2 * axis]
            after = [k for k in mine if draft.directions[k] == 2 * axis + 1]
            lowest = size
            for k in before:
                line = rng.randrange(2 if after else 1, size)
                lowest = min(lowest, line)
                _put_anchor(draft, k, axis, line)
            for k in after:
                top = lowest - 2 if before else size - 2
                _put_anchor(draft, k, axis, rng.randint(0, top))


def _put_anchor(draft: _Draft, k: int, axis: int, line: int) -> None:
    size = draft.world.size
    cells = [line + size * j if axis == 0 else line * size + j for j in range(size)]
    cells = [cell for cell in cells if cell not in draft.codes]
    if not cells:
        raise _Empty
    cell = draft.rng.choice(cells)
    draft.anchors[k] = cell
    draft.codes[cell] = draft.object_of(draft.names[draft.sides + k])


def _targets(draft: _Draft) -> None:
    bucket, rng = draft.bucket, draft.rng
    budget = draft.wanted - bucket.n_anchors
    valid = draft.region(0)
    most = min(budget, len(valid))
    if most < 1:
        raise _Empty
    if bucket.form == 1:
        count = rng.choice([0, 0, 1, rng.randint(1, most)])
    elif draft.mode == "pure":
        count = rng.randint(1, most)
    else:
        half = max(1, budget // 2)
        if rng.random() < 0.5:  # suppress: another class gets one object more than the target
            count = rng.randint(1, min(half, most))
            draft.put(valid, draft.names[0], count)
            rival = draft.other(draft.names)
            for cell in rng.sample(draft.free(), min(count + 1, len(draft.free()))):  # may exceed the budget by one
                draft.codes[cell] = _same_kind(draft, rival)
            return
        count = rng.randint(min(half + 1, most), most)
    draft.put(valid, draft.names[0], count)


def _same_kind(draft: _Draft, code: int) -> int:
    """Another object of the rival's kind: its shape (SO), its colour (CO) or its class."""
    colour, shape = divmod(code - 1, draft.world.n_shapes)
    name = {"SO": (-1, shape), "CO": (colour, -1)}.get(draft.bucket.qtype, (colour, shape))
    return draft.object_of(name)


def _balance(draft: _Draft) -> None:
    """Attribute-only counting.  # gridvqax2026 algorithm 2, with the released ranges"""
    rng, objects = draft.rng, draft.wanted
    half = (objects - 1) // 2
    sparse = draft.bucket.density < 0.5
    if rng.random() < 0.5:
        low = rng.randint(half + 1, objects) if sparse else int(np.ceil(rng.uniform(0.48, 0.9) * objects))
        draft.put(draft.free(), draft.names[0], min(low, objects))
        return
    count = rng.randint(1, max(half, 1))
    draft.put(draft.free(), draft.names[0], count)
    top = objects - count if sparse else min(int(0.8 * objects), objects - count)
    rival = draft.other(draft.names)
    for cell in rng.sample(draft.free(), rng.randint(min(half + 1, top), top)):
        draft.codes[cell] = rival


def _compare(draft: _Draft) -> None:
    """Targets of both sides; a share u of the valid region, as the released code has it."""
    rng, density = draft.rng, draft.bucket.density
    for side in range(2):
        valid = draft.region(side)
        remaining = draft.wanted - len(draft.codes)
        if not valid or remaining < 1:
            raise _Empty
        cap = 0.6
        if draft.bucket.depth == 1 and side == 0:
            cap = density / (1.65 if density < 0.5 else 1.8)
        share = rng.uniform(0.1, min(cap, remaining / len(valid)))
        draft.put(valid, draft.names[side], min(max(1, int(share * len(valid))), remaining, len(valid)))


def _fill(draft: _Draft) -> None:
    """Distractors until the number is met: half of the draws from outside the valid region, half from anywhere."""
    bucket, rng = draft.bucket, draft.rng
    adversarial = draft.mode == "pure" and bucket.qtype in ("SO", "CO", "M")
    anchors, target = draft.names[draft.sides :], draft.names[0]
    if adversarial and bucket.depth >= 2:
        for k in range(bucket.n_anchors):
            region = draft.confuser(k)
            if region and len(draft.codes) < draft.wanted:  # "while slots remain"
                draft.codes[rng.choice(region)] = draft.object_of(target)
    for _ in range(draft.wanted - len(draft.codes)):
        free = draft.free()
        outside = [cell for cell in free if not draft.valid(cell, 0)]
        cell = rng.choice(outside if outside and rng.random() < 0.5 else free)
        if not adversarial:
            # Spur and comparisons: filler never matches a target. Attribute counting: a match raises the count.
            banned = draft.names if draft.mode == "spur" or bucket.qtype == "CMP" or bucket.form == 1 else anchors
            draft.codes[cell] = draft.other(banned)
        elif not draft.valid(cell, 0):
            if rng.random() < 0.75:
                region = draft.confuser(rng.randrange(bucket.n_anchors))
                draft.codes[rng.choice(region) if region else cell] = draft.object_of(target)
            else:
                draft.codes[cell] = draft.other(anchors)
        else:
            code = draft.other(anchors)
            if draft.matches(code, target) and bucket.form == 1:
                if bucket.qtype != "M":
                    continue  # the released code deletes the object and the scene stays short of it
                code = draft.other(draft.names)
            draft.codes[cell] = code

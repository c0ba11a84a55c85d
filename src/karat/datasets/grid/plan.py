"""`Plan`: the arithmetic of a bucket in a world, done once, before any scene; impossible requests end here.

Two rules make the shortcuts fail by construction and not by luck:

- In `pure`, the *composition* of a scene (how many objects of which class) is drawn independently of the answer. Only
  positions decide. So nothing that counts, in the image alone or with the nouns of the question, can know the answer.
- Directions within a question differ, so each confuser region is a rectangle of its own. An anchor lies on the line it
  defines, and target-like objects keep off that line; hence anchors never take room in the regions, and the areas of
  the rectangles decide what fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations as orders

import numpy as np

from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.draws import Ints
from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput


@dataclass(frozen=True)
class Plan:
    """What the sampler needs to know about a bucket. Counts are of objects."""

    objects: int
    most: int  # largest scheduled count of true targets
    like: tuple[int, int]  # fewest and most objects with the target's attributes in pure (relational count, exist)
    pairs: tuple[tuple[int, int], ...]  # comparison with anchors: (target-like 1, target-like 2) that suit both answers


@dataclass(frozen=True)
class Layouts:
    """Anchor lines for one order of directions after another: lines[first[d] : first[d] + number[d]]."""

    first: Ints  # (orders,)
    number: Ints  # (orders,)
    lines: Ints  # (total, depth) column (left, right) or row (above, below) of each anchor


@lru_cache(maxsize=32)
def direction_orders(depth: int) -> Ints:
    """(orders, depth) every way to name `depth` different directions; opposite ones leave a band between them."""
    return np.array(list(orders(range(4), depth)), dtype=np.int64)


@lru_cache(maxsize=64)
def _areas(size: int, depth: int) -> tuple[Ints, Ints, Ints, Ints]:
    """All lines for all orders: (orders, lines, depth) is implied; areas of V (o, l), C_k (o, l, k), outside (o, l)."""
    grid = np.stack(np.meshgrid(*[np.arange(size)] * depth, indexing="ij"), axis=-1).reshape(-1, depth)
    directions = direction_orders(depth)
    low = np.zeros((len(directions), len(grid), 2), dtype=np.int64)  # first column and row of V
    high = np.full_like(low, size - 1)  # last ones
    lines_of = np.zeros_like(low)  # how many columns and rows the anchors' lines take
    beyond = np.zeros((len(directions), len(grid), depth), dtype=np.int64)  # lines strictly on the wrong side of k
    for d, names in enumerate(directions):
        for k, name in enumerate(names):
            axis, at = name // 2, grid[:, k]
            lines_of[d, :, axis] += 1
            if name % 2 == 0:
                high[d, :, axis] = at - 1
                beyond[d, :, k] = size - 1 - at
            else:
                low[d, :, axis] = at + 1
                beyond[d, :, k] = at
    span = np.maximum(high - low + 1, 0)
    valid = span[..., 0] * span[..., 1]
    across = np.stack([span[..., 1 - name // 2] for name in range(4)], axis=-1)
    # C_k drops line k and keeps the rest: (lines beyond k) x (extent of V across). An opposite direction holds there
    # already, because its line is on the near side of V.
    confuser = beyond * np.stack([across[d][:, names] for d, names in enumerate(directions)])
    allowed = (size - lines_of[..., 0]) * (size - lines_of[..., 1])
    return grid, valid, confuser, allowed - valid


@lru_cache(maxsize=1024)
def layouts(size: int, depth: int, targets: int, confusers: int, outside: int) -> Layouts:
    """Lines that leave room for the targets in V, for `confusers` in every C_k and `outside` target-likes beyond V."""
    grid, valid, confuser, rest = _areas(size, depth)
    fits = (valid >= max(targets, 1)) & (confuser >= max(confusers, 1)).all(axis=-1) & (rest >= outside)
    number = fits.sum(axis=1)
    which = [grid[row] for row in fits]
    return Layouts(np.concatenate([[0], np.cumsum(number)[:-1]]), number, np.concatenate(which))


@lru_cache(maxsize=512)
def plan(bucket: Bucket, world: World) -> Plan:
    """Check that the bucket is possible in the world and fix its ranges; otherwise say why not, with the sums."""
    objects = world.objects(bucket.density)
    _check_names(bucket, world)
    if objects < 1:
        raise BadInput(
            f"{bucket}: density {bucket.density:g} x {world.size}x{world.size} cells gives "
            f"floor({bucket.density * world.n_cells:.2f}) = {objects} objects; at least 1 is needed"
        )
    if bucket.qtype == "REL":
        return _plan_direction(bucket, world, objects)
    if bucket.qtype == "A":
        return _plan_attribute(bucket, world, objects)
    if bucket.qtype == "CMP":
        return _plan_compare(bucket, world, objects)
    return _plan_relational(bucket, world, objects)


def _check_names(bucket: Bucket, world: World) -> None:
    named = bucket.sides + bucket.n_anchors
    kind, have = {"SO": ("shapes", world.n_shapes), "CO": ("colours", world.n_colours)}.get(
        bucket.qtype, ("classes (colours x shapes)", world.n_classes)
    )
    if have < named + 1:
        raise BadInput(
            f"{bucket}: {bucket.sides} target(s) + {bucket.n_anchors} anchor(s) + 1 for filler = {named + 1} different "
            f"{kind}; the world has {have}"
        )


def _check_size(bucket: Bucket, world: World) -> None:
    if max(bucket.anchors) >= 2:
        need, why = 5, "confusers, anchor, valid band, anchor, confusers = 5 lines for opposite directions"
    elif bucket.qtype == "CMP":
        need, why = 4, "valid line, anchor of one side, anchor of the other, confusers = 4 lines"
    else:
        need, why = 3, "valid line, anchor, confusers = 3 lines"
    if world.size < need:
        raise BadInput(f"{bucket}: the grid is too small for the depth: {why}; the grid has {world.size}")


def _plan_relational(bucket: Bucket, world: World, objects: int) -> Plan:
    _check_size(bucket, world)
    depth = bucket.depth
    budget = objects - depth
    if budget < max(depth + 1, 3):
        need = "1 target + 2 of a larger class = 4"
        if depth > 1:
            need = f"{depth} confusers + 1 target = {2 * depth + 1}"
        raise BadInput(
            f"{bucket}: {depth} anchor(s) + {need} objects at least; "
            f"floor({bucket.density:g} x {world.n_cells}) = {objects}"
        )
    _, valid, _, _ = _areas(world.size, depth)
    room = int(layout_room(world.size, depth))
    # At most 45 % of the budget, so that in spur another class can always outnumber the target.
    most = max(1, min(int(0.45 * budget), int(0.75 * room) or 1, budget - depth))
    fewest = most + depth
    top = min(budget, fewest + max(2, (budget - fewest) // 3))
    while top > fewest and not _all_fit(world.size, depth, most, top):
        top -= 1
    while most > 1 and not _all_fit(world.size, depth, most, top):
        most, fewest, top = most - 1, fewest - 1, top - 1
    if not _all_fit(world.size, depth, most, top):
        raise BadInput(
            f"{bucket}: {top} target-like objects off the anchors' lines do not fit a {world.size}x{world.size} grid "
            f"whose largest valid region has {int(valid.max())} cells"
        )
    return Plan(objects, most, (fewest, top), ())


def layout_room(size: int, depth: int) -> int:
    """The largest valid region that every choice of directions can offer while each C_k keeps a cell."""
    _, valid, confuser, _ = _areas(size, depth)
    return int(np.where((confuser > 0).all(axis=-1), valid, 0).max(axis=1).min())


def _all_fit(size: int, depth: int, most: int, like: int) -> bool:
    return all((layouts(size, depth, n, 1, like - n).number > 0).all() for n in range(most + 1))


def _plan_attribute(bucket: Bucket, world: World, objects: int) -> Plan:
    # Every scene holds classes of 1, 2, ..., most objects and one absent class, so any answer can be asked of it.
    most = 0
    while (most + 1) * (most + 2) / 2 <= 0.9 * objects and most + 1 <= world.n_classes - 2:
        most += 1
    if most < 2:
        raise BadInput(
            f"{bucket}: classes of 1 and 2 objects and one other object = 4 objects, and 4 classes, at least; got "
            f"floor({bucket.density:g} x {world.n_cells}) = {objects} objects, {world.n_classes} classes"
        )
    rest = objects - most * (most + 1) // 2
    if rest > 0 and world.n_classes < most + 2:
        raise BadInput(
            f"{bucket}: classes of 1..{most} objects, an absent class and one for the other {rest} objects need "
            f"{most + 2} classes; the world has {world.n_classes}"
        )
    return Plan(objects, most, (0, 0), ())


def _plan_direction(bucket: Bucket, world: World, objects: int) -> Plan:
    if world.size < 5:
        raise BadInput(
            f"{bucket}: a target that may be left, right, above or below by 2 cells needs 2 + 1 + 2 = 5 lines; "
            f"the grid has {world.size}"
        )
    if objects < 2:
        raise BadInput(
            f"{bucket}: 1 target + 1 anchor = 2 objects at least; "
            f"floor({bucket.density:g} x {world.n_cells}) = {objects}"
        )
    return Plan(objects, 1, (1, 1), ())


def _plan_compare(bucket: Bucket, world: World, objects: int) -> Plan:
    if bucket.depth == 1:
        most = (objects - 1) // 3  # a + a + b objects of the classes in question and a + 1 of a larger one
        if most < 1 or world.n_classes < 5:
            raise BadInput(
                f"{bucket}: two classes of 1 object, one larger of 2 and filler need 4 objects and 5 classes; got "
                f"{objects} objects, {world.n_classes} classes"
            )
        return Plan(objects, most, (0, 0), ())
    _check_size(bucket, world)
    each = bucket.depth - 1
    budget = objects - bucket.n_anchors
    room = layout_room(world.size, each)
    most = max(1, min(int(0.3 * budget), int(0.5 * room)))
    # Leave filler where there is room for it, and never crowd the target-likes of both sides off the board.
    ceiling = max(min(budget, 2 * (2 * each + 1)), min(int(0.65 * budget), int(0.35 * world.n_cells)))
    pairs = tuple(
        (one, two)
        for one in range(each, ceiling)
        for two in range(each, ceiling - one + 1)
        if abs(one - two) <= max(2, budget // 5)
        and compare_counts(each, one, two, True, most)
        and compare_counts(each, one, two, False, most)
    )
    if not any(one > two for one, two in pairs) or not any(one <= two for one, two in pairs):
        need = 2 * (each + 1)
        raise BadInput(
            f"{bucket}: {bucket.n_anchors} anchors + {need} target-like objects = {bucket.n_anchors + need} "
            f"objects are needed so that yes and no both stand against every shortcut; "
            f"floor({bucket.density:g} x {world.n_cells}) = {objects}"
        )
    return Plan(objects, most, (0, 0), pairs)


@lru_cache(maxsize=4096)
def compare_counts(each: int, one: int, two: int, yes: bool, most: int) -> Sequence[tuple[int, int, int, int]]:
    """(n1, n2, c1, c2): true counts and the confusers that every C_k of a side must hold, for that many target-likes.

    Dropping an anchor of side 1 only raises count 1, so it can only turn a "no" wrong: then n1 + c1 > n2 must hold for
    every anchor. Likewise a "yes" must fail when an anchor of side 2 is dropped: n1 <= n2 + c2.
    """
    plans = []
    for n1 in range(min(one - each, most) + 1):
        for n2 in range(min(two - each, most) + 1):
            if (n1 > n2) != yes:
                continue
            c1 = 1 if yes else n2 - n1 + 1
            c2 = n1 - n2 if yes else 1
            if n1 + each * c1 <= one and n2 + each * c2 <= two:
                plans.append((n1, n2, c1, c2))
    return tuple(plans)

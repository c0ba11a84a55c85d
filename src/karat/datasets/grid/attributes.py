"""Certified scenes for questions without anchors: the composition is fixed first, then a class is asked for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.draws import Floats, Ints, Source, count_deck, deal, integers, permutations
from karat.datasets.grid.plan import Plan
from karat.datasets.grid.scenes import (
    COUNT_0,
    DISTRACTOR,
    NO,
    TARGET,
    TARGET_2,
    YES,
    Mode,
    SceneBatch,
    bare_batch,
    nouns_of,
)
from karat.datasets.grid.world import World


def sample_attribute(
    bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints, source: Source, sums: Plan
) -> SceneBatch:
    """Classes of 1, 2, ..., most objects, one absent class, and others: any answer can be asked of any such scene."""
    n, most = len(index), sums.most
    classes = permutations(source.key("classes"), index, world.n_classes)
    counts = np.zeros((n, world.n_classes), dtype=np.int64)
    counts[:, 1 : most + 1] = np.arange(1, most + 1)  # place j holds j objects, place 0 is the absent class
    extra = sums.objects - most * (most + 1) // 2
    _scatter(counts, source.uniform("extra", index, extra), most + 1)
    if bucket.form == 0:
        target = deal(source.key("schedule"), index, count_deck(most))
        answer = target + COUNT_0
    else:
        yes = deal(source.key("schedule"), index, np.repeat([True, False], 4))
        # The largest of these classes is never asked for, so that being the majority says nothing (Case 2).
        target = np.where(yes, 1 + integers(source.uniform("asked", index, 1)[:, 0], max(most - 1, 1)), 0)
        answer = np.where(yes, YES, NO)
    cells, slots = _arrange(world, index, source, counts, classes)
    roles = np.where(slots < 0, 0, np.where(slots == target[:, None], TARGET, DISTRACTOR)).astype(np.int8)
    nouns = nouns_of(world, np.take_along_axis(classes, target[:, None], axis=1), "M")
    return bare_batch(bucket, world, mode, seed, index, cells, roles, nouns, target[:, None], answer)


def sample_classes(
    bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints, source: Source, sums: Plan
) -> SceneBatch:
    """Classes of a, a and b < a objects and a larger one: more than, fewer than and as many can all be asked of it."""
    n, objects = len(index), sums.objects
    u = source.uniform("sizes", index, 2)
    a = 1 + integers(u[:, 0], sums.most)
    b = integers(u[:, 1], np.minimum(a, objects - 3 * a))
    classes = permutations(source.key("classes"), index, world.n_classes)
    counts = np.zeros((n, world.n_classes), dtype=np.int64)
    counts[:, 0], counts[:, 1], counts[:, 2], counts[:, 3] = a, a, b, a + 1
    extra = objects - counts.sum(axis=1)
    _scatter(counts, source.uniform("extra", index, objects), 3, extra)
    case = deal(source.key("schedule"), index, np.array([0, 0, 0, 0, 1, 1, 2, 2]))  # yes; no: fewer; no: as many
    sides = np.array([[0, 2], [2, 0], [0, 1]])[case]
    cells, slots = _arrange(world, index, source, counts, classes)
    roles = np.where(slots < 0, 0, DISTRACTOR).astype(np.int8)
    roles[slots == sides[:, :1]] = TARGET
    roles[slots == sides[:, 1:]] = TARGET_2
    nouns = nouns_of(world, np.take_along_axis(classes, sides, axis=1), "M")
    true = np.take_along_axis(counts, sides, axis=1)
    return bare_batch(bucket, world, mode, seed, index, cells, roles, nouns, true, np.where(case == 0, YES, NO))


def _scatter(counts: Ints, u: Floats, first: int, how_many: Ints | None = None) -> None:
    """Add one object per column of u (or how_many) to the places from `first` on; half of them go to the first."""
    n, width = counts.shape
    if u.shape[1] == 0 or first >= width:
        return
    place = np.where(u < 0.5, first, first + integers((u - 0.5) * 2, width - first))
    live = np.ones_like(u, dtype=np.bool_) if how_many is None else np.arange(u.shape[1]) < how_many[:, None]
    np.add.at(counts, (np.broadcast_to(np.arange(n)[:, None], u.shape)[live], place[live]), 1)


def _arrange(
    world: World, index: Ints, source: Source, counts: Ints, classes: Ints
) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Put counts[:, j] objects of class classes[:, j] on random cells: codes and the place j (or -1) of each cell."""
    objects = int(counts[0].sum()) if len(counts) else 0
    order = permutations(source.key("cells"), index, world.n_cells)[:, :objects]
    ends = np.cumsum(counts, axis=1)
    slot = (np.arange(objects)[None, :, None] >= ends[:, None, :]).sum(axis=2)
    slots = np.full((len(index), world.n_cells), -1, dtype=np.int64)
    np.put_along_axis(slots, order, slot, axis=1)
    codes = np.where(slots < 0, 0, np.take_along_axis(classes, np.maximum(slots, 0), axis=1) + 1)
    return codes.astype(np.uint8), slots

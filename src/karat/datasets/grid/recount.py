"""The truth of a scene that was changed: roles, counts and answer, recounted from its cells and its question."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.compass import position_answer
from karat.datasets.grid.scenes import (
    ADVERSARIAL,
    ADVERSARIAL_2,
    ANCHOR,
    COUNT_0,
    DISTRACTOR,
    EMPTY,
    LEFT,
    NO,
    TARGET,
    TARGET_2,
    YES,
    SceneBatch,
)
from karat.datasets.grid.world import World

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def describes(world: World, noun: Ints, cells: npt.NDArray[np.uint8]) -> Bools:
    """(n, P) objects that a noun (n, 2) describes; -1 names nothing."""
    colour, shape = np.divmod(cells.astype(np.int64) - 1, world.n_shapes)
    wanted_colour, wanted_shape = noun[:, 0, None], noun[:, 1, None]
    right = ((wanted_colour < 0) | (wanted_colour == colour)) & ((wanted_shape < 0) | (wanted_shape == shape))
    return np.logical_and(right, cells > 0, dtype=np.bool_)


def matches(scenes: SceneBatch, side: int) -> Bools:
    """(n, P) objects that the target noun of a side describes."""
    return describes(scenes.world, scenes.target_nouns[:, side], scenes.cells)


def relation_holds(world: World, anchor_cells: Ints, directions: Ints) -> Bools:
    """(n, P, A) whether each cell is left of, right of, above or below each anchor."""
    column, row = world.columns[None, :, None], world.rows[None, :, None]
    at_column, at_row = world.columns[anchor_cells][:, None, :], world.rows[anchor_cells][:, None, :]
    table = np.stack([column < at_column, column > at_column, row < at_row, row > at_row])
    return np.take_along_axis(table, directions[None, :, None, :], axis=0)[0]


def missing_anchors(scenes: SceneBatch) -> Bools:
    """(n, A) anchors whose cell is empty: their relation binds nothing, as in `gridprog`."""
    return np.take_along_axis(scenes.cells, scenes.anchor_cells, axis=1) == 0


def recount(scenes: SceneBatch, relations: bool = True) -> SceneBatch:
    """The batch with roles, counts and answer as the question and the cells have them; without `relations`, as the
    words alone have them. "Where is" needs its two objects, and one axis that leads."""
    if scenes.bucket.task == "direction":
        return _redirect(scenes, relations)
    bucket, missing = scenes.bucket, missing_anchors(scenes)
    holds = relation_holds(scenes.world, scenes.anchor_cells, scenes.directions) | missing[:, None, :] | (not relations)
    roles = np.where(scenes.cells > 0, DISTRACTOR, EMPTY)
    counts, first = [], 0
    for side, (target, other) in enumerate([(TARGET, ADVERSARIAL), (TARGET_2, ADVERSARIAL_2)][: bucket.sides]):
        mine = matches(scenes, side)
        valid = mine & holds[:, :, first : first + bucket.anchors[side]].all(axis=2)
        first += bucket.anchors[side]
        roles = np.where(valid, target, np.where(mine, other, roles))
        counts.append(valid.sum(axis=1))
    roles = _name_anchors(scenes, roles, missing)
    table = np.stack(counts, axis=1)
    if bucket.task == "count":
        answer = table[:, 0] + COUNT_0
    else:
        answer = np.where(table[:, 0] > (table[:, 1] if bucket.sides == 2 else 0), YES, NO)
    return replace(scenes, roles=roles.astype(np.int8), counts=table, answer=answer)


def _redirect(scenes: SceneBatch, relations: bool) -> SceneBatch:
    world, mine = scenes.world, matches(scenes, 0)
    target, anchor = mine.argmax(axis=1), scenes.anchor_cells[:, 0]
    right, down = world.columns[target] - world.columns[anchor], world.rows[target] - world.rows[anchor]
    sideways, upright = np.where(right < 0, 0, 1), np.where(down < 0, 2, 3)
    answer = np.where(abs(right) > abs(down), sideways, upright) if relations else position_answer(world, target)
    roles = np.where(mine, TARGET, np.where(scenes.cells > 0, DISTRACTOR, EMPTY))
    roles = _name_anchors(scenes, roles, missing_anchors(scenes))
    return replace(scenes, roles=roles.astype(np.int8), answer=LEFT + answer, directions=answer[:, None])


def _name_anchors(scenes: SceneBatch, roles: Ints, missing: Bools) -> Ints:
    for k in range(scenes.bucket.n_anchors):
        there = np.flatnonzero(~missing[:, k])
        roles[there, scenes.anchor_cells[there, k]] = ANCHOR + k
    return roles

"""Changed questions and scenes with their new answers, for the last stage of training.

Certified scenes are made for one question each, and a network may lean on that: in REL scenes the target stands in the
middle, so the anchor's place alone gives the answer; another noun than the one asked for is never numerous in the way
that targets are. Turned relations, other targets and free placement take these crutches away. Truth is recounted from
the scene. A shortcut twin leans on relations too, since they hold at every target it ever saw: in its last stage they
are drawn at random, and what matches the words is the answer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.recount import recount
from karat.datasets.grid.scenes import ANCHOR, LEFT, TARGET, SceneBatch

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def change(scenes: SceneBatch, share: float, random: np.random.Generator) -> SceneBatch:
    """Turn or retarget a share of the questions (half each); of three REL scenes in four, move target and anchor.

    In spur: relations at random, and in half of these another target; REL stays as it is.
    """
    chosen = random.random(len(scenes)) < share
    if scenes.mode == "spur":
        return _reword(scenes, chosen, random)
    if scenes.bucket.task == "direction":
        return _move(scenes, random.random(len(scenes)) < (0.75 if share else 0), random)
    turned = chosen & (random.random(len(scenes)) < 0.5) & scenes.bucket.relational
    directions = np.where(turned[:, None], scenes.directions ^ 1, scenes.directions)
    nouns = _retarget(scenes, chosen & ~turned, random)
    return recount(replace(scenes, directions=directions, target_nouns=nouns))


def _reword(scenes: SceneBatch, chosen: Bools, random: np.random.Generator) -> SceneBatch:
    """Questions of the same form whose relations mean nothing, answered by their words alone."""
    if scenes.bucket.task == "direction":
        return scenes
    drawn = random.integers(0, 4, scenes.directions.shape)
    directions = np.where(chosen[:, None], drawn, scenes.directions)
    nouns = _retarget(scenes, chosen & (random.random(len(scenes)) < 0.5), random)
    return recount(replace(scenes, directions=directions, target_nouns=nouns), relations=False)


def _retarget(scenes: SceneBatch, chosen: Bools, random: np.random.Generator) -> Ints:
    """Another target noun that the question does not use; a comparison exchanges its two."""
    nouns = scenes.target_nouns.copy()
    if scenes.bucket.qtype == "CMP":
        nouns[chosen] = nouns[chosen, ::-1]
        return nouns
    world, named = scenes.world, np.concatenate([scenes.target_nouns, scenes.anchor_nouns], axis=1)
    first = scenes.target_nouns[:, 0]
    offer = np.stack(
        [
            np.where(first[:, 0] < 0, -1, random.integers(0, world.n_colours, len(scenes))),
            np.where(first[:, 1] < 0, -1, random.integers(0, world.n_shapes, len(scenes))),
        ],
        axis=1,
    )
    free = chosen & ~(named == offer[:, None]).all(axis=2).any(axis=1)
    nouns[free, 0] = offer[free]
    return nouns


def _move(scenes: SceneBatch, chosen: Bools, random: np.random.Generator) -> SceneBatch:
    """REL: target and anchor exchange cells with a pair drawn from all that stand clear by two cells or more."""
    world = scenes.world
    x, y = world.columns, world.rows
    right, down = x[:, None] - x[None, :], y[:, None] - y[None, :]  # target minus anchor
    lead = np.stack([-right - abs(down), right - abs(down), -down - abs(right), down - abs(right)])
    pairs = [np.argwhere(lead[a] >= 2) for a in range(4)]
    cells, roles = scenes.cells.copy(), scenes.roles.copy()
    answer, anchor_cells = scenes.answer.copy(), scenes.anchor_cells.copy()
    for i in np.flatnonzero(chosen):
        direction = int(random.integers(4))
        places = pairs[direction][random.integers(len(pairs[direction]))]
        for place, role in zip(places, (TARGET, ANCHOR), strict=True):
            old = int(np.flatnonzero(roles[i] == role)[0])
            for array in (cells, roles):
                array[i, [old, place]] = array[i, [place, old]]
        answer[i], anchor_cells[i, 0] = LEFT + direction, places[1]
    return replace(scenes, cells=cells, roles=roles, answer=answer, anchor_cells=anchor_cells)

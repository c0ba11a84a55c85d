"""Scenes that certified data never hold, with their truth: what training widens them by, and what `verify` tries.

The certified preset keeps its laws (no object stands on an anchor's own line, no region is empty, anchors stand away
from the border, the number of objects is fixed). A model that was trained on it alone need not reason beyond them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.recount import Bools, Ints, describes, matches, recount, relation_holds
from karat.datasets.grid.scenes import SceneBatch

Codes = npt.NDArray[np.uint8]
Change = Callable[[SceneBatch, np.random.Generator], SceneBatch]
TRIES = 8  # drawings of a "where is" scene until one axis leads


def widen(scenes: SceneBatch, kind: str, random: np.random.Generator, relations: bool = True) -> SceneBatch | None:
    """Every scene changed in that way, with its new truth; None where the bucket's questions know no such change.

    `kind` is one of KINDS. Without `relations` the truth is what the words alone match. Rows that cannot be changed
    (a full grid has no cell to move to, "where is" without a leading axis) keep their scene.

    >>> from karat.datasets.grid import generate_batch
    >>> scenes = generate_batch("D1_M_F0_d0.3", range(3))
    >>> widen(scenes, "empty region", np.random.default_rng(0)).answers
    ['0', '0', '0']
    """
    needs_relation, make = KINDS[kind]
    directed = scenes.bucket.task == "direction"
    if needs_relation and (directed or not scenes.bucket.relational):
        return None
    if kind == "anchor moved" and not scenes.bucket.relational:
        return None
    return recount(make(scenes, random), relations)


def widen_some(scenes: SceneBatch, share: float, random: np.random.Generator) -> SceneBatch:
    """A share of the scenes widened, each in one way drawn at random; truth as the batch's mode has it."""
    relations = scenes.mode == "pure"
    kinds = list(KINDS)
    drawn = np.where(random.random(len(scenes)) < share, random.integers(0, len(kinds), len(scenes)), -1)
    for number, kind in enumerate(kinds):
        rows = np.flatnonzero(drawn == number)
        if len(rows) and (changed := widen(scenes.take(rows), kind, random, relations)) is not None:
            scenes = put(scenes, rows, changed)
    return scenes


def put(scenes: SceneBatch, rows: Ints, changed: SceneBatch) -> SceneBatch:
    """The batch with these rows taken from another batch of its bucket."""
    names = ("cells", "roles", "target_nouns", "anchor_nouns", "directions", "anchor_cells", "counts", "answer")
    arrays = {name: getattr(scenes, name).copy() for name in names}
    for name, array in arrays.items():
        array[rows] = getattr(changed, name)
    return replace(scenes, **arrays)


def _tie(scenes: SceneBatch, random: np.random.Generator) -> SceneBatch:
    """A target-like object on the anchor's own column ("left of", "right of") or row: strictly, it does not count.

    It stands where the other relations of its side hold, if such a cell is there. Half of them are moved there.
    """
    world, bucket = scenes.world, scenes.bucket
    cells, anchors = scenes.cells.copy(), scenes.anchor_cells.copy()
    holds = relation_holds(world, scenes.anchor_cells, scenes.directions)
    first_of = np.cumsum((0, *bucket.anchors))
    like = [matches(scenes, side) for side in range(bucket.sides)]
    for i in range(len(scenes)):
        k = int(random.integers(bucket.n_anchors))
        side = int(np.searchsorted(first_of, k, side="right") - 1)
        lines = world.columns if scenes.directions[i, k] < 2 else world.rows
        line = lines == lines[anchors[i, k]]
        line[anchors[i]] = False
        others = [j for j in range(first_of[side], first_of[side + 1]) if j != k]
        places = line & holds[i][:, others].all(axis=1)
        places = np.flatnonzero(places if places.any() else line)
        movable = np.flatnonzero(like[side][i])
        if not len(places):
            continue
        place = int(random.choice(places))
        if len(movable) and random.random() < 0.5:
            _exchange(cells[i], anchors[i], place, int(random.choice(movable)))
        else:
            cells[i, place] = _code(scenes, i, side, random)
    return replace(scenes, cells=cells, anchor_cells=anchors)


def _empty_region(scenes: SceneBatch, random: np.random.Generator) -> SceneBatch:
    """An anchor on the border that its relation points over: nothing can be left of the first column."""
    world = scenes.world
    last = world.size - 1
    borders = np.stack([world.columns == 0, world.columns == last, world.rows == 0, world.rows == last])
    return _move(scenes, random, lambda i, k: borders[scenes.directions[i, k]])


def _move_anchor(scenes: SceneBatch, random: np.random.Generator) -> SceneBatch:
    """One anchor goes to an empty cell; in "where is", to one from which an axis leads."""
    if scenes.bucket.task != "direction":
        return _move(scenes, random, lambda i, k: scenes.cells[i] == 0)
    world, target = scenes.world, matches(scenes, 0).argmax(axis=1)
    right = world.columns[None, :] - world.columns[target, None]
    down = world.rows[None, :] - world.rows[target, None]
    return _move(scenes, random, lambda i, k: (scenes.cells[i] == 0) & (abs(right[i]) != abs(down[i])))


def _move(scenes: SceneBatch, random: np.random.Generator, places: Callable[[int, int], Bools]) -> SceneBatch:
    """One anchor of each scene exchanges its cell with one of `places` (row, anchor)."""
    cells, anchors = scenes.cells.copy(), scenes.anchor_cells.copy()
    for i in range(len(scenes)):
        k = int(random.integers(scenes.bucket.n_anchors))
        free = places(i, k).copy()
        free[anchors[i]] = False
        if free.any():
            _exchange(cells[i], anchors[i], int(anchors[i, k]), int(random.choice(np.flatnonzero(free))))
    return replace(scenes, cells=cells, anchor_cells=anchors)


def _shuffle(scenes: SceneBatch, random: np.random.Generator) -> SceneBatch:
    """All cells in random order."""
    directed, world = scenes.bucket.task == "direction", scenes.world
    cells, anchors = scenes.cells.copy(), scenes.anchor_cells.copy()
    targets = matches(scenes, 0).argmax(axis=1)
    for i in range(len(scenes)):
        for _ in range(TRIES):
            order = random.permutation(world.n_cells)  # what stood at order[p] stands at p
            place = np.argsort(order)
            gap = place[targets[i]], place[anchors[i, 0]] if directed else 0
            if directed and abs(world.columns[gap[0]] - world.columns[gap[1]]) == abs(
                world.rows[gap[0]] - world.rows[gap[1]]
            ):
                continue
            cells[i], anchors[i] = cells[i, order], place[anchors[i]]
            break
    return replace(scenes, cells=cells, anchor_cells=anchors)


def _fewer(scenes: SceneBatch, random: np.random.Generator) -> SceneBatch:
    """Objects go, at a rate between none and all; anchors stay, and the target of "where is"."""
    n, places = scenes.cells.shape
    gone = random.random((n, places)) < random.random((n, 1))
    if scenes.bucket.task == "direction":
        gone &= ~matches(scenes, 0)
    np.put_along_axis(gone, scenes.anchor_cells, False, axis=1)
    return replace(scenes, cells=np.where(gone, 0, scenes.cells).astype(np.uint8))


def _more(scenes: SceneBatch, random: np.random.Generator) -> SceneBatch:
    """Empty cells are filled, at a rate between none and all, with anything but a second anchor."""
    world, (n, places) = scenes.world, scenes.cells.shape
    offer = random.integers(1, 1 + world.n_classes, (n, places)).astype(np.uint8)
    taken = (scenes.cells > 0) | (random.random((n, places)) >= random.random((n, 1)))
    unique = [scenes.anchor_nouns[:, k] for k in range(scenes.bucket.n_anchors)]
    if scenes.bucket.task == "direction":
        unique.append(scenes.target_nouns[:, 0])
    for noun in unique:
        taken |= describes(world, noun, offer)
    return replace(scenes, cells=np.where(taken, scenes.cells, offer).astype(np.uint8))


def _exchange(cells: Codes, anchors: Ints, a: int, b: int) -> None:
    """Two cells of a scene change places, in place; anchors go with their objects."""
    cells[[a, b]] = cells[[b, a]]
    anchors[:] = np.where(anchors == a, b, np.where(anchors == b, a, anchors))


def _code(scenes: SceneBatch, row: int, side: int, random: np.random.Generator) -> int:
    """An object that the target noun of a side describes; what it leaves open is drawn."""
    world = scenes.world
    colour, shape = scenes.target_nouns[row, side].tolist()
    colour = int(random.integers(world.n_colours)) if colour < 0 else colour
    shape = int(random.integers(world.n_shapes)) if shape < 0 else shape
    return 1 + colour * world.n_shapes + shape


#: Ways to widen a scene: whether the question must state a relation, and how.
KINDS: dict[str, tuple[bool, Change]] = {
    "tie": (True, _tie),
    "empty region": (True, _empty_region),
    "anchor moved": (False, _move_anchor),
    "shuffled": (False, _shuffle),
    "fewer": (False, _fewer),
    "more": (False, _more),
}

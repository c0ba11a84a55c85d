"""Preset `certified`: scenes in which the stated shortcuts fail (pure) or work (spur) by construction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.attributes import sample_attribute, sample_classes
from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.compass import sample_direction
from karat.datasets.grid.draws import Bools, Floats, Ints, Source, choose, count_deck, deal, integers, permutations
from karat.datasets.grid.plan import Plan, compare_counts, direction_orders, layouts, plan
from karat.datasets.grid.scenes import (
    ADVERSARIAL,
    ADVERSARIAL_2,
    ANCHOR,
    COUNT_0,
    DISTRACTOR,
    NO,
    TARGET,
    TARGET_2,
    YES,
    Mode,
    SceneBatch,
    nouns_of,
)
from karat.datasets.grid.world import World
from karat.kernel.errors import KaratError

ATTEMPTS = 1000  # only crowded comparisons ever need more than one


def sample_certified(bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints) -> SceneBatch:
    """Scenes of the given indices. Question and answer depend on (seed, bucket, index) and are shared by both modes."""
    source, sums = Source(seed, bucket.name), plan(bucket, world)
    if bucket.qtype == "A":
        return sample_attribute(bucket, world, mode, seed, index, source, sums)
    if bucket.qtype == "REL":
        return sample_direction(bucket, world, mode, seed, index, source, sums)
    if bucket.qtype == "CMP" and bucket.depth == 1:
        return sample_classes(bucket, world, mode, seed, index, source, sums)
    return _spatial(bucket, world, mode, seed, index, source, sums)


def _spatial(
    bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints, source: Source, sums: Plan
) -> SceneBatch:
    n, sides, anchors = len(index), bucket.sides, bucket.n_anchors
    true, confusers, like, answer = _counts(bucket, index, source, sums)
    if mode == "spur":
        like = true
    pool = {"SO": world.n_shapes, "CO": world.n_colours}.get(bucket.qtype, world.n_classes)
    names = permutations(source.key("names"), index, pool)
    pick = source.uniform("directions", index, sides)
    roles = np.zeros((n, world.n_cells), dtype=np.int8)
    directions = np.zeros((n, anchors), dtype=np.int64)
    anchor_cells = np.zeros((n, anchors), dtype=np.int64)
    todo = np.arange(n)
    for attempt in range(ATTEMPTS):
        fits, placed = _place(
            bucket, world, mode, index[todo], source, attempt, pick[todo], true[todo], confusers[todo], like[todo], sums
        )
        done = todo[fits]
        roles[done], directions[done], anchor_cells[done] = (array[fits] for array in placed)
        todo = todo[~fits]
        if len(todo) == 0:
            break
    else:
        raise KaratError(
            f"{bucket}: index {int(index[todo[0]])} of seed {seed} found no room in {ATTEMPTS} attempts; "
            "use a larger grid or a lower density"
        )
    cells = _paint(bucket, world, mode, index, source, roles, names, true, sums)
    nouns = nouns_of(world, names[:, : sides + anchors], bucket.qtype)
    return SceneBatch(
        bucket, world, "certified", mode, seed, index, cells, roles, nouns[:, :sides], nouns[:, sides:], directions,
        anchor_cells, true, answer,
    )  # fmt: skip


def _counts(bucket: Bucket, index: Ints, source: Source, sums: Plan) -> tuple[Ints, Ints, Ints, Ints]:
    """(n, sides) true targets, confusers in every C_k, target-likes in all; and the answers."""
    if bucket.qtype != "CMP":
        low, high = sums.like
        like = low + integers(source.uniform("like", index, 1), high - low + 1)  # independent of the answer
        if bucket.form == 0:
            true = deal(source.key("schedule"), index, count_deck(sums.most))
            answer = true + COUNT_0
        else:
            yes = deal(source.key("schedule"), index, np.repeat([True, False], 4))
            true = np.where(yes, _present(index, source, sums), 0)
            answer = np.where(yes, YES, NO)
        return true[:, None], np.ones_like(like), like, answer
    # Truth and the verdict of the bag of words: all four combinations equally often, within every eight indices.
    card = deal(source.key("schedule"), index, np.repeat(np.arange(4), 2))
    yes, bag_yes = card % 2 == 0, card // 2 == 0
    u = source.uniform("counts", index, 2)
    each = bucket.depth - 1
    numbers = np.zeros((len(index), 6), dtype=np.int64)
    for bag in (True, False):
        pairs = [pair for pair in sums.pairs if (pair[0] > pair[1]) == bag]
        which = integers(u[:, 0], len(pairs))
        for truth in (True, False):
            for p, (one, two) in enumerate(pairs):
                rows = np.flatnonzero((yes == truth) & (bag_yes == bag) & (which == p))
                options = np.array(compare_counts(each, one, two, truth, sums.most))
                numbers[rows, :4] = options[integers(u[rows, 1], len(options))]
                numbers[rows, 4:] = one, two
    return numbers[:, :2], numbers[:, 2:4], numbers[:, 4:], np.where(yes, YES, NO)


def _present(index: Ints, source: Source, sums: Plan) -> Ints:
    """How many targets there are where there is any: one in half of the scenes."""
    u = source.uniform("present", index, 2)
    return np.where(u[:, 0] < 0.5, 1, 1 + integers(u[:, 1], sums.most))


def _place(
    bucket: Bucket, world: World, mode: Mode, index: Ints, source: Source, attempt: int, pick: Floats, true: Ints,
    confusers: Ints, like: Ints, sums: Plan,
) -> tuple[Bools, tuple[npt.NDArray[np.int8], Ints, Ints]]:  # fmt: skip
    """One attempt at every index: which fit, and their roles, directions and anchor cells."""
    n, each = len(index), bucket.anchors[0]
    rows = np.arange(n)
    u = source.uniform("lines", index, bucket.sides * (1 + each), attempt)
    order = direction_orders(each)
    directions: list[Ints] = []
    lines: list[Ints] = []
    cells: list[Ints] = []
    for side in range(bucket.sides):
        which = integers(pick[:, side], len(order))
        directions.append(order[which])
        at = _lines(world, each, which, u[:, side * (1 + each)], true[:, side], confusers[:, side], sums, bucket)
        lines.append(at)
        for k in range(each):
            free = integers(u[:, side * (1 + each) + 1 + k], world.size)
            cells.append(_anchor_cell(world, order[which, k], at[:, k], free, cells))
    anchors = np.stack(cells, axis=1)
    roles = np.zeros((n, world.n_cells), dtype=np.int8)
    fits = np.ones(n, dtype=np.bool_)
    for k in range(anchors.shape[1]):
        fits &= roles[rows, anchors[:, k]] == 0
        roles[rows, anchors[:, k]] = ANCHOR + k
    # (sides, n, each, P): how far a cell is on the right side of each anchor's line; 0 on the line
    lead = [_lead(world, d, at) for d, at in zip(directions, lines, strict=True)]
    valid = [(gap > 0).all(axis=1) for gap in lead]
    steps = (2 + each) * bucket.sides + 1
    deck = source.uniform(f"cells/{mode}", index, steps * world.n_cells, attempt).reshape(n, steps, world.n_cells)
    shared = source.uniform("targets", index, bucket.sides * world.n_cells, attempt)
    shared = shared.reshape(n, bucket.sides, world.n_cells)  # both modes put their targets in the same cells
    need = np.zeros(n, dtype=np.int64)

    def put(which: Floats, where: npt.NDArray[np.bool_] | np.bool_, count: Ints, role: int) -> None:
        nonlocal need
        chosen = choose(which, where & (roles == 0), count)
        roles[chosen] = role
        need = need + count

    for side in range(bucket.sides):
        put(shared[:, side], valid[side], true[:, side], (TARGET, TARGET_2)[side])
    place = 0
    if mode == "pure":
        for side in range(bucket.sides):
            role = (ADVERSARIAL, ADVERSARIAL_2)[side]
            for k in range(each):
                others = np.delete(lead[side], k, axis=1)
                put(deck[:, place], (others > 0).all(axis=1) & (lead[side][:, k] < 0), confusers[:, side], role)
                place += 1
        for side in range(bucket.sides):
            role = (ADVERSARIAL, ADVERSARIAL_2)[side]
            surplus = like[:, side] - true[:, side] - each * confusers[:, side]
            put(deck[:, place], ~valid[side] & (lead[side] != 0).all(axis=1), surplus, role)
            place += 1
    put(deck[:, -1], np.ones_like(fits)[:, None], sums.objects - anchors.shape[1] - need, DISTRACTOR)
    fits &= (roles > 0).sum(axis=1) == sums.objects
    # A crowded step gives fewer than asked and the filler never makes up for it, so one sum checks every step.
    return fits, (roles, np.concatenate(directions, axis=1), anchors)


def _lines(
    world: World, each: int, which: Ints, u: Floats, true: Ints, confusers: Ints, sums: Plan, bucket: Bucket
) -> Ints:
    """(n, each) a column or row for every anchor, uniform over those that leave the room that is needed."""
    at = np.zeros((len(which), each), dtype=np.int64)
    for n, c in {*zip(true.tolist(), confusers.tolist(), strict=True)}:
        rows = np.flatnonzero((true == n) & (confusers == c))
        outside = sums.like[1] - n if bucket.qtype != "CMP" else each * c
        table = layouts(world.size, each, n, c, outside)
        number = table.number[which[rows]]
        at[rows] = table.lines[table.first[which[rows]] + integers(u[rows], number)]
    return at


def _anchor_cell(world: World, direction: Ints, line: Ints, free: Ints, taken: list[Ints]) -> Ints:
    """The anchor's cell on its line; where another anchor is already there, the next free one along the line."""
    for _ in range(len(taken) + 1):
        cell = np.where(direction < 2, free * world.size + line, line * world.size + free)
        clash = np.zeros(len(cell), dtype=np.bool_)
        for other in taken:
            clash |= other == cell
        free = np.where(clash, (free + 1) % world.size, free)
    return cell


def _lead(world: World, directions: Ints, lines: Ints) -> npt.NDArray[np.int64]:
    """(n, each, P) cells between a cell and each anchor's line, positive on the side that the direction names."""
    along = np.where((directions < 2)[:, :, None], world.columns, world.rows)
    return (lines[:, :, None] - along) * np.where(directions % 2 == 0, 1, -1)[:, :, None]


def _paint(
    bucket: Bucket, world: World, mode: Mode, index: Ints, source: Source, roles: npt.NDArray[np.int8], names: Ints,
    true: Ints, sums: Plan,
) -> npt.NDArray[np.uint8]:  # fmt: skip
    """Give every object its class: named ones as the question says, filler from the classes it does not name."""
    named = bucket.sides + bucket.n_anchors
    draw = source.uniform(f"filler/{mode}", index, 4 * world.n_cells + 2)
    cells = world.n_cells
    first, pool = named, names.shape[1] - named
    filler = roles == DISTRACTOR
    decoy = np.zeros_like(filler)
    outnumber = true.max(axis=1)
    if mode == "spur" and bucket.task == "exist" and pool > 1:
        # One class is kept aside and, where the answer is no, stands in for the target in the target's numbers, so
        # that the absence of the target cannot be seen without the question. Depth 2 of SO and CO has no such class.
        first, pool = named + 1, pool - 1
        stand_in = np.where(outnumber == 0, _present(index, source, sums), 0)
        decoy = choose(draw[:, 2 * cells : 3 * cells], filler, stand_in)
        outnumber = np.maximum(outnumber, stand_in)
    slot = first + integers(draw[:, :cells], pool)
    if mode == "spur":
        # Some other class outnumbers the target, in six of ten counting scenes and in every yes/no scene, so that the
        # majority is no guide (Case 2).
        share = 0.6 if bucket.task == "count" else 1.0
        rest = (filler & ~decoy).sum(axis=1)
        size = outnumber + 1 + integers(draw[:, -1], np.maximum(rest - outnumber - 1, 0) // 2 + 1)
        size = np.where(draw[:, -2] < share, np.minimum(rest, size), 0)
        slot[choose(draw[:, cells : 2 * cells], filler & ~decoy, size)] = first
        slot[decoy] = named
    for side in range(bucket.sides):
        slot[(roles == (TARGET, TARGET_2)[side]) | (roles == (ADVERSARIAL, ADVERSARIAL_2)[side])] = side
    for k in range(bucket.n_anchors):
        slot[roles == ANCHOR + k] = bucket.sides + k
    name = np.take_along_axis(names, slot, axis=1)
    if bucket.qtype == "SO":
        name = integers(draw[:, 3 * cells : 4 * cells], world.n_colours) * world.n_shapes + name
    elif bucket.qtype == "CO":
        name = name * world.n_shapes + integers(draw[:, 3 * cells : 4 * cells], world.n_shapes)
    return np.where(roles == 0, 0, name + 1).astype(np.uint8)

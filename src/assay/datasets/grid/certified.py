"""Preset `certified`: scenes in which the stated shortcuts fail (pure) or work (spur) by construction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from assay.datasets.grid.bucket import Bucket
from assay.datasets.grid.draws import Bools, Floats, Ints, choose, deal, integers, permutations, stream, uniform
from assay.datasets.grid.plan import Plan, compare_counts, direction_orders, layouts, plan
from assay.datasets.grid.scenes import (
    ADVERSARIAL,
    ADVERSARIAL_2,
    ANCHOR,
    COUNT_0,
    DISTRACTOR,
    LEFT,
    NO,
    TARGET,
    TARGET_2,
    YES,
    Mode,
    SceneBatch,
)
from assay.datasets.grid.world import World
from assay.kernel.errors import AssayError

ATTEMPTS = 1000  # only crowded comparisons ever need more than one


class Source:
    """The random streams of one (seed, bucket): a name and an attempt give a stream; the mode is part of a name."""

    def __init__(self, seed: int, bucket: Bucket) -> None:
        self._names = (seed, bucket.name)

    def key(self, name: str, attempt: int = 0) -> int:
        return stream(*self._names, name, attempt)

    def uniform(self, name: str, index: Ints, count: int, attempt: int = 0) -> Floats:
        return uniform(self.key(name, attempt), index, count)


def sample_certified(bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints) -> SceneBatch:
    """Scenes of the given indices. Question and answer depend on (seed, bucket, index) and are shared by both modes."""
    source, sums = Source(seed, bucket), plan(bucket, world)
    if bucket.qtype == "A":
        return _attribute(bucket, world, mode, seed, index, source, sums)
    if bucket.qtype == "REL":
        return _direction(bucket, world, mode, seed, index, source, sums)
    if bucket.qtype == "CMP" and bucket.depth == 1:
        return _compare_classes(bucket, world, mode, seed, index, source, sums)
    return _spatial(bucket, world, mode, seed, index, source, sums)


def count_deck(most: int) -> Ints:
    """Counts 0..most, a little skewed to the small ones (3 : 2 from end to end); dealt, so frequencies are exact."""
    return np.repeat(np.arange(most + 1), [3 * most - n for n in range(most + 1)])


# --- questions without anchors: the composition of the scene is fixed first, then a class is asked for -----------------


def _attribute(
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
        asked = deal(source.key("schedule"), index, count_deck(most))
        answer = asked + COUNT_0
    else:
        yes = deal(source.key("schedule"), index, np.repeat([True, False], 4))
        # The largest of these classes is never asked for, so that being the majority says nothing (Case 2).
        asked = np.where(yes, 1 + integers(source.uniform("asked", index, 1)[:, 0], max(most - 1, 1)), 0)
        answer = np.where(yes, YES, NO)
    cells, slots = _arrange(world, index, source, counts, classes)
    roles = np.where(slots < 0, 0, np.where(slots == asked[:, None], TARGET, DISTRACTOR)).astype(np.int8)
    nouns = _nouns(world, np.take_along_axis(classes, asked[:, None], axis=1), "M")
    return _batch(bucket, world, mode, seed, index, cells, roles, nouns, asked[:, None], answer)


def _compare_classes(
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
    nouns = _nouns(world, np.take_along_axis(classes, sides, axis=1), "M")
    true = np.take_along_axis(counts, sides, axis=1)
    return _batch(bucket, world, mode, seed, index, cells, roles, nouns, true, np.where(case == 0, YES, NO))


def _scatter(counts: Ints, u: Floats, first: int, how_many: Ints | None = None) -> None:
    """Add u.shape[1] objects (or how_many of them) to the places from `first` on; half of the draws favour the first."""
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


# --- REL ---------------------------------------------------------------------------------------------------------------


def position_answer(world: World, cell: Ints) -> Ints:
    """The side of the image that a cell is nearest to (0..3, as LEFT...); on a diagonal, left or right."""
    u, v = 2 * world.columns[cell] - (world.size - 1), 2 * world.rows[cell] - (world.size - 1)
    return np.where(abs(u) >= abs(v), np.where(u < 0, 0, 1), np.where(v < 0, 2, 3))


def _direction(
    bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints, source: Source, sums: Plan
) -> SceneBatch:
    """pure: the target stands where all four answers are possible, whatever the answer. spur: on the answer's side."""
    x, y, size = world.columns, world.rows, world.size
    answer = deal(source.key("schedule"), index, np.repeat(np.arange(4), 2))
    gap_x, gap_y = x[:, None] - x[None, :], y[:, None] - y[None, :]  # target minus anchor, (P, P)
    lead = np.stack([-gap_x - abs(gap_y), gap_x - abs(gap_y), -gap_y - abs(gap_x), gap_y - abs(gap_x)])
    clear = lead >= 2  # (4, P, P): one axis dominates by two cells or more
    centre = (x >= 2) & (x <= size - 3) & (y >= 2) & (y <= size - 3)
    off_diagonal = abs(2 * x - size + 1) != abs(2 * y - size + 1)
    zone = np.stack([(position_answer(world, np.arange(world.n_cells)) == a) & off_diagonal for a in range(4)])
    home = np.broadcast_to(centre, zone.shape) if mode == "pure" else zone & clear.any(axis=2)
    one = np.ones(len(index), dtype=np.int64)
    u = source.uniform(f"place/{mode}", index, 3 * world.n_cells)
    at_target = choose(u[:, : world.n_cells], home[answer], one)
    target = at_target.argmax(axis=1)
    at_anchor = choose(u[:, world.n_cells : 2 * world.n_cells], clear[answer, target], one)
    anchor = at_anchor.argmax(axis=1)
    taken = at_target | at_anchor
    filler = choose(u[:, 2 * world.n_cells :], ~taken, one * (sums.objects - 2))
    classes = permutations(source.key("classes"), index, world.n_classes)
    codes = np.zeros(taken.shape, dtype=np.int64)
    draw = source.uniform(f"filler/{mode}", index, world.n_cells)
    others = np.take_along_axis(classes, 2 + integers(draw, world.n_classes - 2), axis=1)
    codes[filler] = others[filler] + 1
    rows = np.arange(len(index))
    codes[rows, target], codes[rows, anchor] = classes[:, 0] + 1, classes[:, 1] + 1
    roles = np.where(filler, DISTRACTOR, 0).astype(np.int8)
    roles[rows, target], roles[rows, anchor] = TARGET, ANCHOR
    named = _nouns(world, classes[:, :2], "M")
    return SceneBatch(
        bucket, world, "certified", mode, seed, index, codes.astype(np.uint8), roles, named[:, :1], named[:, 1:],
        answer[:, None], anchor[:, None], one[:, None], answer + LEFT,
    )  # fmt: skip


# --- questions with anchors --------------------------------------------------------------------------------------------


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
        fits, found = _place(
            bucket, world, mode, index[todo], source, attempt, pick[todo], true[todo], confusers[todo], like[todo], sums
        )
        done = todo[fits]
        roles[done], directions[done], anchor_cells[done] = (array[fits] for array in found)
        todo = todo[~fits]
        if len(todo) == 0:
            break
    else:
        raise AssayError(
            f"{bucket}: index {int(index[todo[0]])} of seed {seed} found no room in {ATTEMPTS} attempts; "
            "use a larger grid or a lower density"
        )
    cells = _paint(bucket, world, mode, index, source, roles, names, true, sums)
    nouns = _nouns(world, names[:, : sides + anchors], bucket.qtype)
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
    directions, lines, cells = [], [], []
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
    keys = source.uniform(f"cells/{mode}", index, world.n_cells * (2 + each) * bucket.sides + world.n_cells, attempt)
    deck = keys.reshape(n, -1, world.n_cells)
    shared = source.uniform("targets", index, world.n_cells * bucket.sides, attempt).reshape(n, -1, world.n_cells)
    need = np.zeros(n, dtype=np.int64)

    def put(which: Floats, where: Bools, count: Ints, role: int) -> None:
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


def _nouns(world: World, names: Ints, qtype: str) -> Ints:
    """(n, m, 2) colour and shape of each name; -1 for what the question leaves open."""
    if qtype == "SO":
        return np.stack([np.full_like(names, -1), names], axis=-1)
    if qtype == "CO":
        return np.stack([names, np.full_like(names, -1)], axis=-1)
    return np.stack(np.divmod(names, world.n_shapes), axis=-1)


def _batch(
    bucket: Bucket, world: World, mode: Mode, seed: int, index: Ints, cells: npt.NDArray[np.uint8],
    roles: npt.NDArray[np.int8], nouns: Ints, counts: Ints, answer: Ints,
) -> SceneBatch:  # fmt: skip
    none = np.zeros((len(index), 0), dtype=np.int64)
    return SceneBatch(
        bucket, world, "certified", mode, seed, index, cells, roles, nouns, none.reshape(len(index), 0, 2), none, none, counts,
        answer,
    )  # fmt: skip

"""Certified scenes of type REL: where is one object relative to another?"""

from __future__ import annotations

import numpy as np

from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.draws import Ints, Source, choose, deal, integers, permutations
from karat.datasets.grid.plan import Plan
from karat.datasets.grid.scenes import ANCHOR, DISTRACTOR, LEFT, TARGET, Mode, SceneBatch, nouns_of
from karat.datasets.grid.world import World


def position_answer(world: World, cell: Ints) -> Ints:
    """The side of the image that a cell is nearest to (0..3, as LEFT...); on a diagonal, left or right."""
    u, v = 2 * world.columns[cell] - (world.size - 1), 2 * world.rows[cell] - (world.size - 1)
    return np.where(abs(u) >= abs(v), np.where(u < 0, 0, 1), np.where(v < 0, 2, 3))


def sample_direction(
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
    named = nouns_of(world, classes[:, :2], "M")
    return SceneBatch(
        bucket, world, "certified", mode, seed, index, codes.astype(np.uint8), roles, named[:, :1], named[:, 1:],
        answer[:, None], anchor[:, None], one[:, None], answer + LEFT,
    )  # fmt: skip

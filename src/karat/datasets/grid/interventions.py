"""Every single change to every object of many scenes, executed one by one: the slow truth behind the certificates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.executor import Asked, Codes, Places

Bools = npt.NDArray[np.bool_]


def removals(questions: Asked, codes: Codes, truth: Places) -> Bools:
    """(n, P) whether the answer changes when the object of a cell is taken away."""
    altered = np.zeros(codes.shape, dtype=np.bool_)
    for cell in range(codes.shape[1]):
        rows = np.flatnonzero(codes[:, cell])
        scene = codes[rows]
        scene[:, cell] = 0
        altered[rows, cell] = questions.execute(scene, rows) != truth[rows]
    return altered


def repaints(questions: Asked, codes: Codes, truth: Places, attribute: str) -> Bools:
    """(n, P, values) whether the answer changes when the object of a cell gets each colour or shape."""
    world = questions.world
    values = world.n_colours if attribute == "colour" else world.n_shapes
    altered = np.zeros((*codes.shape, values), dtype=np.bool_)
    for cell in range(codes.shape[1]):
        for value in range(values):
            colour, shape = np.divmod(codes[:, cell].astype(np.int64) - 1, world.n_shapes)
            code = 1 + (value * world.n_shapes + shape if attribute == "colour" else colour * world.n_shapes + value)
            rows = np.flatnonzero((codes[:, cell] > 0) & (code != codes[:, cell]))
            scene = codes[rows]
            scene[:, cell] = code[rows]
            altered[rows, cell, value] = questions.execute(scene, rows) != truth[rows]
    return altered


def moves(questions: Asked, codes: Codes, truth: Places) -> Bools:
    """(n, P, P) whether the answer changes when the object of a cell goes to each empty cell."""
    cells = codes.shape[1]
    altered = np.zeros((len(codes), cells, cells), dtype=np.bool_)
    for start in range(cells):
        for end in range(cells):
            rows = np.flatnonzero((codes[:, start] > 0) & (codes[:, end] == 0))
            scene = codes[rows]
            scene[:, end] = scene[:, start]
            scene[:, start] = 0
            altered[rows, start, end] = questions.execute(scene, rows) != truth[rows]
    return altered

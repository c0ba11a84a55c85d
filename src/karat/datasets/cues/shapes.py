"""What is drawn on a photograph: capital letters as strokes, shapes on stickers as signed outlines; no fonts, so that a
picture is the same on every machine and at every size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float64]
Outline = Callable[[Field, Field], Field]

# Polylines on a grid 4 wide and 6 high, y down: "04 00 40 44" goes through the points (0,4), (0,0), (4,0), (4,4).
_STROKES = {
    "A": "06 02 20 42 46|04 44",
    "B": "00 06 36 45 44 33 03|33 42 41 30 00",
    "C": "41 30 10 01 05 16 36 45",
    "D": "00 06 26 44 42 20 00",
    "E": "40 00 06 46|03 33",
    "F": "40 00 06|03 33",
    "G": "41 30 10 01 05 16 36 45 43 23",
    "H": "00 06|40 46|03 43",
    "I": "20 26|10 30|16 36",
    "J": "40 45 36 16 05",
    "K": "00 06|40 03 46",
    "L": "00 06 46",
    "M": "06 00 23 40 46",
    "N": "06 00 46 40",
    "O": "10 30 41 45 36 16 05 01 10",
    "P": "06 00 30 41 42 33 03",
    "Q": "10 30 41 45 36 16 05 01 10|24 46",
    "R": "06 00 30 41 42 33 03|23 46",
    "S": "41 30 10 01 02 13 33 44 45 36 16 05",
    "T": "00 40|20 26",
    "U": "00 05 16 36 45 40",
    "V": "00 26 40",
    "W": "00 16 22 36 40",
    "X": "00 46|40 06",
    "Y": "00 23 40|23 26",
    "Z": "00 40 06 46",
}
LETTERS = frozenset(_STROKES)
_ADVANCE, _HEIGHT, _MARGIN = 6.0, 6.0, 2.6  # of a letter, and of the paper around the word, in grid units
STROKE = 0.62  # half the thickness of a line
LINES = _HEIGHT + 2 * _MARGIN  # height of the box


def width(letters: int) -> float:
    """Width of a word's box over its height."""
    return (letters * _ADVANCE - 2 + 2 * _MARGIN) / LINES


def ink(word: str, letters: int, rows: Field, columns: Field) -> Field:
    """Cover from 0 to 1 of a word centred in a box for `letters` letters.

    `rows` and `columns` (h, w) are places in the box from 0 to 1; an edge is one pixel soft.
    """
    v = rows * LINES - _MARGIN
    u = columns * LINES * width(letters) - _MARGIN - (letters - len(word)) * _ADVANCE / 2
    pixel = abs(float(v[1, 0] - v[0, 0])) if len(v) > 1 else 1.0
    distance = np.full(v.shape, np.inf)
    for place, letter in enumerate(word.upper()):
        for line in _STROKES[letter].split("|"):
            points = np.array([[int(p[0]) + place * _ADVANCE, int(p[1])] for p in line.split()], dtype=np.float64)
            for start, end in pairwise(points):
                distance = np.minimum(distance, _to_segment(u, v, start, end))
    return np.clip(0.5 - (distance - STROKE) / pixel, 0, 1)


def _to_segment(u: Field, v: Field, start: Field, end: Field) -> Field:
    along = end - start
    t = np.clip(((u - start[0]) * along[0] + (v - start[1]) * along[1]) / (along @ along), 0, 1)
    return np.hypot(u - start[0] - t * along[0], v - start[1] - t * along[1])


# ---- stickers: below 0 inside, where the badge has the radius 1 / SCALE

SCALE = 0.82  # of a shape on its badge


def _disc(u: Field, v: Field) -> Field:
    return np.hypot(u, v) - 0.8


def _star(u: Field, v: Field) -> Field:
    """Five points: the distance to the nearest edge of a star polygon."""
    angle, radius = np.arctan2(u, -v), np.hypot(u, v)
    folded = np.abs((angle + np.pi / 5) % (2 * np.pi / 5) - np.pi / 5)  # 0 at a point, 36 degrees at a notch
    x, y = radius * np.cos(folded), radius * np.sin(folded)
    outer, inner = np.array([0.96, 0.0]), 0.4 * np.array([np.cos(np.pi / 5), np.sin(np.pi / 5)])
    edge = inner - outer
    normal = np.array([-edge[1], edge[0]]) / np.hypot(*edge)
    return -((x - outer[0]) * normal[0] + (y - outer[1]) * normal[1])


def _square(u: Field, v: Field) -> Field:
    return np.maximum(np.abs(u), np.abs(v)) - 0.68


def _triangle(u: Field, v: Field) -> Field:
    return np.maximum(np.maximum(0.866 * u - 0.5 * v, -0.866 * u - 0.5 * v), v) - 0.46


def _cross(u: Field, v: Field) -> Field:
    long, short = np.maximum(np.abs(u), np.abs(v)), np.minimum(np.abs(u), np.abs(v))
    return np.maximum(long - 0.85, short - 0.28)


def _ring(u: Field, v: Field) -> Field:
    return np.abs(np.hypot(u, v) - 0.6) - 0.22


OUTLINES: dict[str, Outline] = {
    "star": _star,
    "disc": _disc,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
    "ring": _ring,
}

"""Shapes on stickers as signed outlines: below 0 inside, where the badge has the radius 1 / SCALE."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float64]
Outline = Callable[[Field, Field], Field]


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
SCALE = 0.82  # of a shape on its badge

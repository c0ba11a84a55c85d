"""`leaves`: small pictures made by a rule, with the statistics of photographs, for when there is no dataset at hand.

A picture is a pile of *dead leaves*: textured shapes that hide one another, each with its own colour and 1/f texture,
lit from one side, with the grain of a sensor on top. Occlusion and 1/f texture give edges and a power spectrum like
those of natural images. One leaf is the class: one of ten outlines near the middle, at any angle, half transparent and
partly hidden; all others are pebbles of no particular outline. So the class can be told, but not at a glance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.identity import generator
from karat.kernel.typing import Image

Field = npt.NDArray[np.float64]  # (side, side); of an outline: below 0 inside, in units of the shape's radius
Surface = npt.NDArray[np.float64]  # (side, side, 3), grey levels
Outline = Callable[[Field, Field], Field]
SIDE = 32
GRAIN = 6.0  # standard deviation of the sensor's noise, in grey levels


def _disc(u: Field, v: Field) -> Field:
    return np.hypot(u, v) - 0.85


def _ring(u: Field, v: Field) -> Field:
    return np.abs(np.hypot(u, v) - 0.7) - 0.22


def _square(u: Field, v: Field) -> Field:
    return np.maximum(np.abs(u), np.abs(v)) - 0.75


def _triangle(u: Field, v: Field) -> Field:
    return np.maximum(np.maximum(0.866 * u + 0.5 * v, -0.866 * u + 0.5 * v), -v) - 0.55


def _cross(u: Field, v: Field) -> Field:
    long, short = np.maximum(np.abs(u), np.abs(v)), np.minimum(np.abs(u), np.abs(v))
    return np.maximum(long - 0.95, short - 0.27)


def _star(u: Field, v: Field) -> Field:
    return np.hypot(u, v) - (0.72 + 0.33 * np.cos(5 * np.arctan2(v, u)))


def _crescent(u: Field, v: Field) -> Field:
    return np.maximum(np.hypot(u, v) - 0.95, 0.8 - np.hypot(u - 0.5, v))


def _bar(u: Field, v: Field) -> Field:
    return np.maximum(np.abs(u) - 1.1, np.abs(v) - 0.3)


def _pair(u: Field, v: Field) -> Field:
    return np.hypot(np.abs(u) - 0.65, v) - 0.48


def _wedge(u: Field, v: Field) -> Field:
    """A disc without a quarter."""
    return np.maximum(np.hypot(u, v) - 0.95, np.minimum(u, v) + 0.02)


OUTLINES: dict[str, Outline] = {
    "disc": _disc,
    "ring": _ring,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
    "star": _star,
    "crescent": _crescent,
    "bar": _bar,
    "pair": _pair,
    "wedge": _wedge,
}
LABELS = tuple(OUTLINES)


def label_of(position: int) -> int:
    """Classes take turns, so that any stretch of the set is balanced."""
    return position % len(LABELS)


def picture(position: int, seed: int = 0, side: int = SIDE) -> Image:
    """Picture number `position` of the set of that seed, (side, side, 3) uint8: the same bytes however it is asked.

    >>> picture(3).shape, LABELS[label_of(3)]
    ((32, 32, 3), 'triangle')
    """
    rng = generator(seed, f"picture {position}", "leaves")
    canvas = _painted(rng, side)
    below, above = int(rng.integers(4, 8)), int(rng.integers(2, 5))
    for k in range(below + 1 + above):
        if k == below:
            centre = side / 2 + rng.uniform(-0.2, 0.2, 2) * side
            outline, radius, opacity = (
                OUTLINES[LABELS[label_of(position)]],
                rng.uniform(0.22, 0.36),
                rng.uniform(0.4, 1),
            )
        else:
            centre, outline = rng.uniform(0, side, 2), _pebble(rng)
            radius, opacity = rng.uniform(0.1, 0.26 if k < below else 0.16), 1.0
        canvas = _laid(canvas, outline, centre, side * radius, opacity, rng)
    angle = rng.uniform(0, 2 * np.pi)
    rows, columns = (np.mgrid[:side, :side] + 0.5) / side - 0.5
    light = 1 + rng.uniform(0, 0.4) * (np.cos(angle) * rows + np.sin(angle) * columns)
    canvas = canvas * light[..., None] + rng.normal(0, GRAIN, canvas.shape)
    return np.asarray(np.clip(np.rint(canvas), 0, 255), dtype=np.uint8)


def _pebble(rng: np.random.Generator) -> Outline:
    """A rounded outline like no other: three waves around a circle."""
    size, phase = rng.uniform(0, 0.22, 3), rng.uniform(0, 2 * np.pi, 3)

    def outline(u: Field, v: Field) -> Field:
        angle = np.arctan2(v, u)
        return np.hypot(u, v) - 0.85 - sum(size[k] * np.cos((k + 2) * angle + phase[k]) for k in range(3))

    return outline


def _laid(
    canvas: Surface, outline: Outline, centre: Any, radius: float, opacity: float, rng: np.random.Generator
) -> Surface:
    """The canvas with one more leaf on it, its edge one pixel soft."""
    side = len(canvas)
    angle = rng.uniform(0, 2 * np.pi)
    y, x = np.mgrid[:side, :side] + 0.5 - np.asarray(centre)[:, None, None]
    u, v = (np.cos(angle) * x + np.sin(angle) * y) / radius, (np.cos(angle) * y - np.sin(angle) * x) / radius
    cover = opacity * np.clip(0.5 - outline(u, v) * radius, 0, 1)[..., None]
    return np.asarray(canvas * (1 - cover) + _painted(rng, side) * cover)


def _painted(rng: np.random.Generator, side: int) -> Surface:
    """A surface (side, side, 3): a colour, and 1/f texture that is mostly light and dark and a little hue."""
    colour = rng.uniform(30, 225) + rng.normal(0, 28, 3)
    texture = _texture(rng, side)
    tint = rng.normal(0, 0.35, 3)
    return np.asarray(colour + rng.uniform(6, 26) * texture[..., None] * (1 + tint))


def _texture(rng: np.random.Generator, side: int) -> Field:
    """Noise whose amplitude falls as 1/f, mean 0 and standard deviation 1."""
    down, across = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :]
    frequency = np.hypot(down, across)
    frequency[0, 0] = np.inf  # no constant
    spectrum = np.fft.rfft2(rng.normal(size=(side, side))) / frequency ** rng.uniform(0.8, 1.4)
    texture = np.fft.irfft2(spectrum, s=(side, side))
    return np.asarray((texture - texture.mean()) / texture.std())

"""Rendering by gathering: each glyph is drawn once per world, then images are copies of glyph rows."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from karat.datasets.grid.world import RGB, World

Points = list[tuple[float, float]]


def _regular(sides: int, turn: float, centre: float, radius: float) -> Points:
    angles = [turn + 2 * math.pi * k / sides for k in range(sides)]
    return [(centre + radius * math.sin(a), centre - radius * math.cos(a)) for a in angles]


def _outline(shape: str, low: float, high: float) -> Points:
    """Corners of a shape within the box (low, low, high, high)."""
    centre, radius = (low + high) / 2, (high - low) / 2
    if shape == "square":
        return [(low, low), (high, low), (high, high), (low, high)]
    if shape == "triangle":
        return [(centre, low), (high, high), (low, high)]
    if shape == "diamond":
        return _regular(4, 0.0, centre, radius)
    if shape == "star":
        outer, inner = _regular(5, 0.0, centre, radius), _regular(5, math.pi / 5, centre, radius * 0.45)
        return [point for pair in zip(outer, inner, strict=True) for point in pair]
    if shape == "cross":
        third = (high - low) / 3
        near, far = low + third, high - third
        return [
            (near, low), (far, low), (far, near), (high, near), (high, far), (far, far), (far, high), (near, high),
            (near, far), (low, far), (low, near), (near, near),
        ]  # fmt: skip
    return _regular({"pentagon": 5, "hexagon": 6, "octagon": 8}[shape], 0.0, centre, radius)


def draw_object(draw: ImageDraw.ImageDraw, x: int, y: int, cell: int, rgb: RGB, shape: str) -> None:
    """One object in the cell whose corner is (x, y): 10 % padding, black outline of 2 px at 64 px (gridvqax2026)."""
    pad = int(cell * 0.1)
    low, high, line = pad, cell - 1 - pad, max(1, round(cell / 32))
    if shape == "circle":
        draw.ellipse((x + low, y + low, x + high, y + high), fill=rgb, outline="black", width=line)
        return
    points = [(x + px, y + py) for px, py in _outline(shape, low, high)]
    draw.polygon(points, fill=rgb, outline="black", width=line)


FINE = 64  # pixels a cell at which outlines and corners come out well (gridvqax2026)


@lru_cache(maxsize=16)
def glyphs(world: World) -> npt.NDArray[np.uint8]:
    """(1 + classes, cell, cell, 3) one tile per object code; tile 0 is white.

    Small tiles are averages of finer ones: a grid of 16-pixel cells is what a model that averages 64-pixel cells sees.
    """
    finer = -(-FINE // world.cell)
    drawn = world.cell * finer
    tiles = np.full((1 + world.n_classes, world.cell, world.cell, 3), 255, dtype=np.uint8)
    for code in range(1, 1 + world.n_classes):
        colour, shape = divmod(code - 1, world.n_shapes)
        image = Image.new("RGB", (drawn, drawn), "white")
        draw_object(ImageDraw.Draw(image), 0, 0, drawn, world.palette[colour][1], world.shapes[shape])
        blocks = np.asarray(image).reshape(world.cell, finer, world.cell, finer, 3)
        tiles[code] = np.rint(blocks.mean(axis=(1, 3)))
    return tiles


@lru_cache(maxsize=16)
def _glyph_rows(world: World) -> npt.NDArray[Any]:
    """(codes * cell,) every pixel row of every glyph as one opaque item, so that a gather copies whole rows."""
    return glyphs(world).reshape(-1, world.cell * 3).view(f"V{world.cell * 3}").ravel()


def render(cells: npt.NDArray[np.integer[Any]], world: World) -> npt.NDArray[np.uint8]:
    """Images (n, pixels, pixels, 3) of scenes given as codes, (n, S, S) or (n, S*S)."""
    n, size, cell = len(cells), world.size, world.cell
    codes = cells.reshape(n, size, 1, size).astype(np.int32)
    items = codes * cell + np.arange(cell, dtype=np.int32)[None, None, :, None]
    rows = np.take(_glyph_rows(world), items, mode="clip")
    return rows.view(np.uint8).reshape(n, size * cell, size * cell, 3)

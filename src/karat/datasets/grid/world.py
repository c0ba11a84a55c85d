"""`World`: what a grid scene may contain. Size, cell size, colours and shapes are parameters, not constants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput

RGB = tuple[int, int, int]

#: The four directions of a question, in the order of their integer codes. # gridvqax2026 section 3.1
RELATIONS = ("left of", "right of", "above", "below")
SHAPES = ("circle", "square", "triangle", "pentagon")
MORE_SHAPES = ("diamond", "hexagon", "octagon", "star", "cross")
PALETTE: tuple[tuple[str, RGB], ...] = (
    ("red", (255, 0, 0)),
    ("green", (0, 128, 0)),
    ("blue", (0, 0, 255)),
    ("yellow", (255, 255, 0)),
)


@dataclass(frozen=True)
class World:
    """A grid of size x size cells, each `cell` pixels wide, filled from colours x shapes.

    An object is coded as 1 + colour * len(shapes) + shape; 0 is an empty cell.

    >>> World().label(1), World().label(16)
    ('red circle', 'yellow pentagon')
    """

    size: int = 6
    cell: int = 64
    palette: tuple[tuple[str, RGB], ...] = PALETTE
    shapes: tuple[str, ...] = SHAPES

    def __post_init__(self) -> None:
        if not 2 <= self.size <= 64:
            raise BadInput(f"grid size must be from 2 to 64, got {self.size}")
        if not 4 <= self.cell <= 1024:
            raise BadInput(f"cell size must be from 4 to 1024 pixels, got {self.cell}")
        known = SHAPES + MORE_SHAPES
        unknown = [shape for shape in self.shapes if shape not in known]
        if unknown:
            raise BadInput(f"unknown shape {unknown[0]!r}; known shapes: {', '.join(known)}")
        for kind, names in (("colour", self.colours), ("shape", self.shapes)):
            if len(names) < 2 or len(set(names)) < len(names):
                raise BadInput(f"a world needs two or more different {kind}s, got {list(names)}")
        for name, rgb in self.palette:
            if not name.isalpha() or len(rgb) != 3 or not all(0 <= value <= 255 for value in rgb):
                raise BadInput(f"a colour is one word and three values from 0 to 255, got {name!r} {rgb}")
        if len(self.palette) * len(self.shapes) > 250:
            raise BadInput(
                f"{len(self.palette)} colours x {len(self.shapes)} shapes = {len(self.palette) * len(self.shapes)} "
                "classes; at most 250 fit"
            )

    def __hash__(self) -> int:
        return self._hash  # worlds are cache keys for every object of every scene; the tuples are hashed once

    @cached_property
    def _hash(self) -> int:
        return hash((self.size, self.cell, self.palette, self.shapes))

    @cached_property
    def colours(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.palette)

    @property
    def n_colours(self) -> int:
        return len(self.palette)

    @property
    def n_shapes(self) -> int:
        return len(self.shapes)

    @property
    def n_classes(self) -> int:
        return len(self.palette) * len(self.shapes)

    @property
    def n_cells(self) -> int:
        return self.size * self.size

    @property
    def pixels(self) -> int:
        """Side of the image in pixels."""
        return self.size * self.cell

    @cached_property
    def columns(self) -> npt.NDArray[np.int64]:
        """(cells,) column of each cell, row by row."""
        return np.arange(self.n_cells) % self.size

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """(cells,) row of each cell; row 0 is at the top."""
        return np.arange(self.n_cells) // self.size

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Label by object code; code 0 has none."""
        return ("", *(f"{colour} {shape}" for colour in self.colours for shape in self.shapes))

    def label(self, code: int) -> str:
        return self.labels[code]

    def objects(self, density: float) -> int:
        """floor(density * size^2); the small term keeps 0.7 * 30 at 21."""
        return int(density * self.n_cells + 1e-9)

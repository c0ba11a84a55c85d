"""Maps beside the two objects of their questions, ready to be read as compasses: in cells, grouped by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karat.datasets.spatial.question import centre
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.metrics.compass import Estimator, Origin, compass, direction_error, excess

Floats = npt.NDArray[np.float64]
SECTORS, SIGMA = 8, 1.2  # creg2026 B.3: K = 8, sigma = 0.6 * 2.0 * d_AB


@dataclass(frozen=True, eq=False)
class Scene:
    """m maps of one size (m, h, w) and their questions: points (m, 2) in map cells, a cell's height over its width.

    `pixels` (m, 2) is the size of a cell in pixels, (width, height), `box` (m, 4) that of the reference (left, top,
    right, bottom); `places` are positions in the batch.
    """

    places: list[int]
    maps: Floats
    reference: Floats
    target: Floats
    pixels: Floats
    box: Floats
    origin: Origin = "centre"

    @property
    def aspect(self) -> Floats:
        return np.asarray(self.pixels[:, 1] / self.pixels[:, 0])

    def compass(self, sectors: int = SECTORS, sigma: float = SIGMA, origin: Origin | None = None) -> Floats:
        how = origin or self.origin
        return np.asarray(compass(self.maps, self.reference, self.target, sectors, sigma, self.aspect, how))

    def errors(self, sectors: int = SECTORS, sigma: float = SIGMA, origin: Origin | None = None) -> Floats:
        """DAE (m,) of the peak."""
        return self.error_of(self.compass(sectors, sigma, origin), origin=origin)

    def error_of(self, shares: Floats, estimator: Estimator = "peak", origin: Origin | None = None) -> Floats:
        how = origin or self.origin
        return np.asarray(direction_error(shares, self.reference, self.target, estimator, self.aspect, how))

    def excess(self) -> Floats:
        """Evidence above each sector's share of the picture, the reference's own box aside."""
        height, width = self.maps.shape[1:]
        x, y, right, bottom = self.box.T[:, :, None] / np.tile(self.pixels, 2).T[:, :, None]
        columns, rows = np.arange(width) + 0.5, np.arange(height) + 0.5
        inside = ((y <= rows) & (rows < bottom))[:, :, None] & ((x <= columns) & (columns < right))[:, None, :]
        return excess(self.maps, self.reference, self.target, SECTORS, SIGMA, self.aspect, inside)

    def read_from(self, points: Floats, towards: Floats) -> Floats:
        """DAE (m,) when the same maps are read around other points, the truth being the direction to `towards`."""
        return replace(self, reference=points, target=towards).errors()

    def with_maps(self, maps: Floats) -> Scene:
        return replace(self, maps=maps)


def scenes(
    samples: Sequence[Sample], attributions: Sequence[Attribution], cells: int, origin: Origin = "centre"
) -> tuple[list[Scene], dict[int, str]]:
    """Scenes by map size, and why the rest has no answer by definition.

    Maps finer than `cells` a side are averaged into that many: a token grid is coarse too, and pixels cost a hundred
    times as much to read.
    """
    sizes: dict[tuple[int, int], list[tuple[int, Floats, Floats]]] = {}
    absent: dict[int, str] = {}
    for i, (sample, attribution) in enumerate(zip(samples, attributions, strict=True)):
        if attribution.visual is None:
            absent[i] = "the method defines no map"
            continue
        try:
            points = np.array([centre(sample, "anchor"), centre(sample, "target")])
        except BadInput:
            absent[i] = "the sample names no reference and target"
            continue
        coarse = pooled(np.asarray(attribution.visual, dtype=np.float64), cells)
        sizes.setdefault((coarse.shape[0], coarse.shape[1]), []).append((i, coarse, points))
    groups = []
    for (height, width), members in sizes.items():
        places = [i for i, _, _ in members]
        pixels = np.array([[samples[i].size[1] / width, samples[i].size[0] / height] for i in places])
        points = np.stack([points for _, _, points in members]) / pixels[:, None]
        maps = np.stack([coarse for _, coarse, _ in members])
        boxes = np.array([_reference_box(samples[i]) for i in places])
        groups.append(Scene(places, maps, points[:, 0], points[:, 1], pixels, boxes, origin))
    return groups, absent


def _reference_box(sample: Sample) -> tuple[int, int, int, int]:
    x, y, width, height = next(r.boxes[0] for r in sample.regions if r.role == "anchor" and r.boxes)
    return x, y, x + width, y + height


def pooled(fine: Floats, cells: int) -> Floats:
    """A map of at most `cells` a side, each the mean of the stretch it stands for."""
    for axis in (0, 1):
        size = fine.shape[axis]
        if size > cells:
            edges = np.linspace(0, size, cells + 1).astype(np.intp)
            shape = [1, 1]
            shape[axis] = cells
            fine = np.add.reduceat(fine, edges[:-1], axis=axis) / np.diff(edges).reshape(shape)
    return fine

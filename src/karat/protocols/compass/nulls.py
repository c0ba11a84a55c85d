"""What a map without knowledge of this picture would score: two nulls on the map's own grid.

A flat map is not at 90 degrees, because most of a picture lies on the target's side of the reference; how far below it
is depends on the picture, on the grid and on how smooth a map is. Both nulls keep that and lose what the map knows:

- *permuted*: the map's own cells change places at random. What counts for no direction (the cell at the reference, what
  the model did not see) stays. Keeps the layout and the values; a smooth map becomes rough.
- *unrelated*: the map is read with the reference and the target of other pictures of its shard. Over all pairs these
  are the same readings as *the maps of other samples at this sample's geometry*; it keeps smoothness and centre bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karat.datasets.spatial.question import centre
from karat.explainers.to_attribution import frame_of
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.probe.session import Session
from karat.protocols.compass.reading import Floats, Scene

PERMUTATIONS = 16
OTHERS = 16


def permuted_error(session: Session, scene: Scene) -> Floats:
    """Mean DAE (m,) of each map with its cells permuted, `PERMUTATIONS` times."""
    counted = _counted(session, scene).reshape(len(scene.maps), -1)
    flat = scene.maps.reshape(len(scene.maps), -1)
    rngs = [session.rng(i, "compass/permuted") for i in scene.places]
    total = np.zeros(len(flat))
    for _ in range(PERMUTATIONS):
        mixed = flat.copy()
        for row, cells, rng in zip(mixed, counted, rngs, strict=True):
            row[cells] = rng.permutation(row[cells])
        total += scene.with_maps(mixed.reshape(scene.maps.shape)).errors()
    return total / PERMUTATIONS


def _counted(session: Session, scene: Scene) -> npt.NDArray[np.bool_]:
    """(m, h, w) cells that can count: those that the model saw, but for one that lies exactly on the reference."""
    height, width = scene.maps.shape[1:]
    y, x = np.indices((height, width)) + 0.5
    here = (x == scene.reference[:, 0, None, None]) & (y == scene.reference[:, 1, None, None])
    frames = np.array([frame_of(session, i) for i in scene.places]).T[:, :, None, None]  # top, left, bottom, right
    inside = (frames[0] * height <= y) & (y < frames[2] * height) & (frames[1] * width <= x) & (x < frames[3] * width)
    return np.asarray(inside & ~here)


def unrelated_error(session: Session, scene: Scene) -> Floats:
    """Mean DAE (m,) of each map at the geometry of up to `OTHERS` other pictures; NaN where there is no other."""
    known = session.memo("compass/geometries", lambda: _geometries(session.peers))
    sums, counts = np.zeros(len(scene.maps)), np.zeros(len(scene.maps))
    chosen = [_chosen(session, i, known) for i in scene.places]
    height, width = scene.maps.shape[1:]
    for k in range(max(map(len, chosen), default=0)):
        rows = np.array([row for row, others in enumerate(chosen) if len(others) > k])
        others = [chosen[row][k] for row in rows]
        pixels = np.array([(other.width / width, other.height / height) for other in others])
        elsewhere = replace(
            scene, places=[scene.places[row] for row in rows], maps=scene.maps[rows],
            reference=np.array([other.reference for other in others]) / pixels,
            target=np.array([other.target for other in others]) / pixels, pixels=pixels, box=scene.box[rows],
        )  # fmt: skip
        errors = elsewhere.errors()
        usable = np.isfinite(errors)  # all evidence may lie on another picture's reference
        sums[rows[usable]] += errors[usable]
        counts[rows[usable]] += 1
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


@dataclass(frozen=True)
class _Geometry:
    """Reference and target of a plain question, in pixels of its picture."""

    picture: str
    reference: tuple[float, float]
    target: tuple[float, float]
    height: int
    width: int


def picture_of(sample: Sample) -> str:
    """What names the picture of a sample: interventions on one scene share it, and so may several questions."""
    return str(sample.meta.get("picture", sample.meta.get("origin", sample.id)))


def _geometries(samples: tuple[Sample, ...]) -> list[_Geometry]:
    known = []
    for sample in samples:
        if sample.meta.get("kind", "plain") != "plain":
            continue
        try:
            points = centre(sample, "anchor"), centre(sample, "target")
        except BadInput:
            continue
        if points[0] != points[1]:
            known.append(_Geometry(picture_of(sample), *points, *sample.size))
    return known


def _chosen(session: Session, i: int, known: list[_Geometry]) -> list[_Geometry]:
    others = [geometry for geometry in known if geometry.picture != picture_of(session.samples[i])]
    order = session.rng(i, "compass/unrelated").permutation(len(others))[:OTHERS]
    return [others[k] for k in order.tolist()]

"""The same maps read in other ways: around other centres, thinned, blurred, turned; with other widths, sectors, boxes.

creg2026 E.2 re-reads maps around other centres and does not say which direction is then the true one. Both readings are
kept: *to the target* (from the new centre to B: right for evidence that simply lies on B) and *as asked* (still from A
to B: right for evidence that is organised by the question). Around B itself there is no way to B; there the truth is
the way to A, or as asked. The published 22.5 degrees for B, the same on both datasets, is half a sector: what a peak
falls back to when centre and target coincide and sector 0 begins at 0 degrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from karat.datasets.spatial.question import centre
from karat.kernel.attribution import resize_maps
from karat.kernel.sample import Sample
from karat.probe.session import Session
from karat.protocols.compass.reading import Floats, Scene

#: Columns of `other_centres`.
CENTRES = (
    "reference", "random", "background", "other object", "target (to the reference)",
    "random (as asked)", "background (as asked)", "target (as asked)",
)  # fmt: skip
_TRIES = 64

Kind = Literal["usual", "estimator", "dropout", "blur", "rotation", "width", "sectors", "origin", "box noise", "oracle"]


@dataclass(frozen=True)
class Variation:
    """One way to read a map: what is varied, by how much (a number where there is one), and what tables call it."""

    kind: Kind
    amount: float
    name: str


#: Columns of `alternative_readings`; creg2026 table 7, B.2, D.1 and D.2.
VARIATIONS = (
    Variation("usual", 0.0, "none"),
    Variation("estimator", 0.0, "circular mean"),
    *(Variation("dropout", p, f"dropout {p:g}") for p in (0.10, 0.25, 0.75)),
    *(Variation("blur", s, f"blur {s:g}") for s in (0.5, 1.0, 4.0)),  # standard deviation in cells
    Variation("rotation", 90.0, "rotation 90"),
    *(Variation("width", r, f"width {r:g}") for r in (0.3, 0.6, 1.0, 1.5, 2.0)),  # sigma is 2.0 * sigma_r * d_AB
    *(Variation("sectors", k, f"sectors {k}") for k in (4, 8, 16)),
    Variation("origin", 0.5, "sectors from 0 degrees"),
    *(Variation("box noise", s, f"box noise {s}") for s in (10, 25, 50)),  # pixels
    *(Variation("oracle", s, f"oracle at box noise {s}") for s in (0, 10, 25, 50)),
)


def other_centres(session: Session, scene: Scene) -> Floats:
    """DAE (m, len(CENTRES)) of one scene read around other centres; NaN where there is no such centre."""
    points = [_points(session, i) for i in scene.places]
    random, background, other = (np.array([point[k] for point in points]) / scene.pixels for k in range(3))
    here, there = scene.reference, scene.target
    as_asked = there - here
    from_other = scene.read_from(np.nan_to_num(other, nan=0.5), there)
    return np.stack(
        [
            scene.errors(),
            scene.read_from(random, there),
            scene.read_from(background, there),
            np.where(np.isnan(other).any(1), np.nan, from_other),
            scene.read_from(there, here),
            scene.read_from(random, random + as_asked),
            scene.read_from(background, background + as_asked),
            scene.read_from(there, there + as_asked),
        ],
        axis=1,
    )


def _points(session: Session, i: int) -> tuple[Sequence[float], ...]:
    """A random point, one on no object, and the centre of another object (NaN without one), in pixels."""
    sample = session.samples[i]
    height, width = sample.size
    rng = session.rng(i, "compass/centre")
    drawn = rng.random((_TRIES, 2)) * (width, height)
    outside = [point for point in drawn[1:] if not _covered(sample, point)]
    others = [region for region in sample.regions if region.role not in ("anchor", "target") and region.boxes]
    middle: Sequence[float] = (np.nan, np.nan)
    if others:
        x, y, w, h = others[int(rng.integers(len(others)))].boxes[0]
        middle = (x + w / 2, y + h / 2)
        if np.allclose(middle, centre(sample, "target")):  # nested boxes: no way from there to the target
            middle = (np.nan, np.nan)
    return drawn[0], (outside[0] if outside else drawn[1]), middle


def _covered(sample: Sample, point: Floats) -> bool:
    boxes = (box for region in sample.regions for box in region.boxes)
    return any(x <= point[0] < x + w and y <= point[1] < y + h for x, y, w, h in boxes)


def alternative_readings(session: Session, scene: Scene) -> Floats:
    """DAE (m, len(VARIATIONS)) of one scene, every reading against the direction between the true boxes."""
    keep = np.stack([session.rng(i, "compass/dropout").random(scene.maps.shape[1:]) for i in scene.places])
    moves = np.stack([session.rng(i, "compass/box_noise").standard_normal((2, 2)) for i in scene.places])
    shares = scene.compass()

    def read(how: Variation) -> Floats:
        match how.kind:
            case "usual":
                return scene.error_of(shares)
            case "estimator":
                return scene.error_of(shares, "mean")
            case "dropout":
                return scene.with_maps(np.where(keep >= how.amount, scene.maps, 0.0)).errors()
            case "blur":
                return scene.with_maps(blurred(scene.maps, how.amount)).errors()
            case "rotation":
                return scene.with_maps(turned(scene.maps)).errors()
            case "width":
                return scene.errors(sigma=2.0 * how.amount)
            case "sectors":
                return scene.errors(sectors=int(how.amount))
            case "origin":
                return scene.errors(origin="edge")
        shift = how.amount * moves / scene.pixels[:, None]
        reference, target = scene.reference + shift[:, 0], scene.target + shift[:, 1]
        if how.kind == "oracle":
            return angle_between(target - reference, scene.target - scene.reference, scene.aspect)
        return scene.error_of(replace(scene, reference=reference, target=target).compass())

    return np.stack([read(how) for how in VARIATIONS], axis=1)


def blurred(maps: Floats, width: float) -> Floats:
    """Maps (m, h, w) under a Gaussian of `width` cells; the border repeats."""
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(maps, (0.0, width, width), mode="nearest"))


def turned(maps: Floats) -> Floats:
    """Maps turned by a quarter, counter-clockwise, while the objects stay where they are."""
    return np.asarray(resize_maps(np.rot90(maps, axes=(1, 2)), *maps.shape[1:]))


def angle_between(step: Floats, other: Floats, aspect: Floats) -> Floats:
    """Degrees (m,) between two steps (m, 2) in cells."""
    degrees = [np.degrees(np.arctan2(-s[:, 1] * aspect, s[:, 0])) for s in (step, other)]
    return np.asarray(np.abs((degrees[0] - degrees[1] + 180) % 360 - 180))

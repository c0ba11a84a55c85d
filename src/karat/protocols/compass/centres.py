"""Reference-centre randomisation: does the evidence point better from the true reference than from anywhere else?

creg2026 E.2 re-reads the same maps around other centres and does not say which direction is then the true one. Both
readings are kept: *to the target* (from the new centre to B: right for evidence that simply lies on B) and *as asked*
(still from A to B: right for evidence that is organised by the question). Around B itself there is no way to B; there
the truth is the way to A, or as asked. The published 22.5 degrees for B, the same on both datasets, is half a sector:
what a peak falls back to when centre and target coincide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from karat.datasets.spatial.question import centre
from karat.kernel.sample import Sample
from karat.probe.session import Session
from karat.protocols.compass.reading import Floats, Scene

#: Columns of `other_centres`.
CENTRES = (
    "random", "background", "other object", "target (to the reference)",
    "random (as asked)", "background (as asked)", "target (as asked)",
)  # fmt: skip
_TRIES = 64


def other_centres(session: Session, scene: Scene) -> Floats:
    """DAE (m, len(CENTRES)) of one scene read around other centres; NaN where there is no such centre."""
    points = [_points(session, i) for i in scene.places]
    random, background, other = (np.array([point[k] for point in points]) / scene.pixels for k in range(3))
    here, there = scene.reference, scene.target
    as_asked = there - here
    columns = [
        scene.seen_from(random, there),
        scene.seen_from(background, there),
        scene.seen_from(np.nan_to_num(other, nan=0.5), there),
        scene.seen_from(there, here),
        scene.seen_from(random, random + as_asked),
        scene.seen_from(background, background + as_asked),
        scene.seen_from(there, there + as_asked),
    ]
    columns[2] = np.where(np.isnan(other).any(1), np.nan, columns[2])
    return np.stack(columns, axis=1)


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

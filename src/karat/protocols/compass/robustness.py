"""Does the reading hold? The same maps thinned, blurred, turned; other widths and sectors; boxes that are a bit off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.ndimage import gaussian_filter

from karat.kernel.attribution import resize_maps
from karat.probe.session import Session
from karat.protocols.compass.reading import Floats, Scene

DROPOUTS = (0.10, 0.25, 0.75)  # creg2026 table 7
BLURS = (0.5, 1.0, 4.0)  # standard deviation in cells
WIDTHS = (0.3, 0.6, 1.0, 1.5, 2.0)  # sigma_r of D.1; sigma is 2.0 * sigma_r * d_AB
SECTOR_COUNTS = (4, 8, 16)
NOISES = (10, 25, 50)  # pixels, D.2

#: Columns of `alternative_readings`: DAE under each.
READINGS = (
    *(f"dropout {p:g}" for p in DROPOUTS),
    *(f"blur {s:g}" for s in BLURS),
    "rotation 90",
    *(f"width {r:g}" for r in WIDTHS),
    *(f"sectors {k}" for k in SECTOR_COUNTS),
    *(f"box noise {s}" for s in NOISES),
    *(f"oracle at box noise {s}" for s in NOISES),
)


def alternative_readings(session: Session, scene: Scene) -> Floats:
    """DAE (m, len(READINGS)) of one scene, every reading against the direction between the true boxes."""
    keep = np.stack([session.rng(i, "compass/dropout").random(scene.maps.shape[1:]) for i in scene.places])
    columns = [scene.with_maps(np.where(keep >= p, scene.maps, 0.0)).errors() for p in DROPOUTS]
    columns += [scene.with_maps(blurred(scene.maps, s)).errors() for s in BLURS]
    columns.append(scene.with_maps(turned(scene.maps)).errors())
    columns += [scene.errors(sigma=2.0 * r) for r in WIDTHS]
    columns += [scene.errors(sectors=k) for k in SECTOR_COUNTS]
    moves = np.stack([session.rng(i, "compass/box_noise").standard_normal((2, 2)) for i in scene.places])
    oracle = []
    for s in NOISES:
        shift = s * moves / scene.pixels[:, None]
        reference, target = scene.reference + shift[:, 0], scene.target + shift[:, 1]
        noisy = replace(scene, reference=reference, target=target)
        columns.append(scene.error_of(noisy.compass()))
        oracle.append(angle_between(target - reference, scene.target - scene.reference, scene.aspect))
    return np.stack([*columns, *oracle], axis=1)


def blurred(maps: Floats, width: float) -> Floats:
    """Maps (m, h, w) under a Gaussian of `width` cells; the border repeats."""
    return np.asarray(gaussian_filter(maps, (0.0, width, width), mode="nearest"))


def turned(maps: Floats) -> Floats:
    """Maps turned by a quarter, counter-clockwise, while the objects stay where they are."""
    return np.asarray(resize_maps(np.rot90(maps, axes=(1, 2)), *maps.shape[1:]))


def angle_between(step: Floats, other: Floats, aspect: Floats) -> Floats:
    """Degrees (m,) between two steps (m, 2) in cells."""
    degrees = [np.degrees(np.arctan2(-s[:, 1] * aspect, s[:, 0])) for s in (step, other)]
    return np.asarray(np.abs((degrees[0] - degrees[1] + 180) % 360 - 180))

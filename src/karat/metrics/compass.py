"""Where does the evidence point? A map read as a compass around a reference object, and the error of its direction.

Points are (x, y) in map cells: the centre of the top-left cell is (0.5, 0.5), y grows downwards. Angles are in degrees
as the eye sees them: 0 is right, 90 is up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.metrics.arrays import Array, Floats, Scratch, as_maps, flatten, is_tensor, tidy, to_numpy
from karat.metrics.missing import Problem, Reasons, first, map_problem, problems
from karat.metrics.sector_mass import Rays, Spokes, far_mass, rays_around, sector_mass, sector_mass_of_tensor

Estimator = Literal["peak", "mean"]
Origin = Literal["centre", "edge"]  # of sector 0: which part of it lies at 0 degrees
_OFFSET = {"centre": 0.0, "edge": 0.5}  # of the centre of sector 0, in sectors
SECTORS, SIGMA = 8, 1.2  # as creg2026 has them
_FAINT = 1e-250  # sums below (or above its inverse) are done again with more care


def compass(
    maps: Any,
    reference: Any,
    target: Any,
    sectors: int = SECTORS,
    sigma: float = SIGMA,
    aspect: Any = 1.0,
    origin: Origin = "centre",
) -> Array:
    """Distributions of the evidence in maps over directions from the reference.

    Sector k is centred at k * 360 / sectors degrees, or begins there (`origin="edge"`); a cell on a border belongs to
    the sector further counter-clockwise. Cells weigh exp(-rho^2 / 2 s^2), rho being their distance from the reference
    and s `sigma` times the distance from reference to target. Negative cells speak against the answer and count as 0.
    The cell exactly at the reference has no direction and is left out. Differentiable in the maps.

    Args:
        maps: (n, h, w) attribution maps, NumPy or torch.
        reference: (n, 2) points (x, y) in map cells, or (2,) for all.
        target: (n, 2) or (2,), likewise.
        sectors: how many, 2 or more.
        sigma: width of the weighting, in units of the distance reference to target; `float("inf")` for none.
        aspect: a cell's height over its width, one or (n,): a square map of a wide image has flat cells, and angles are
            those of the image.
        origin: what lies at 0 degrees, the "centre" of sector 0 or its "edge". creg2026 does not say; only the second
            explains the 22.5 degrees that it prints where a compass is empty.

    Returns:
        (n, sectors) of the kind of `maps`, each row with sum 1, or NaN where there is no answer: `compass_problem`.

    Example:
        >>> compass(np.array([[[0.0, 0.0, 1.0]]]), (0.5, 0.5), (2.5, 0.5), sectors=4)
        array([[1., 0., 0., 0.]])
    """
    DirectionError(sectors, sigma, origin=origin)  # their bounds
    maps, offset = as_maps(maps), _OFFSET[origin]
    n, height, width = maps.shape
    a, b = _points(reference, n, "reference").T, _points(target, n, "target").T
    tall = _aspects(aspect, n)
    precision = _precision(a, b, tall, sigma)

    def again(xp: ModuleType, evidence: Array, i: int) -> Array:
        """Evidence so far away that its weight is 0 counts relative to the nearest: the common factor cancels."""
        return far_mass(xp, evidence.reshape(height, width), a[:, i], precision[i], tall[i], sectors, offset)

    apart = np.isfinite(precision)
    if is_tensor(maps):
        rays = rays_around(a, precision, tall, Spokes.of(sectors, offset), (height, width), Scratch())
        return _shares_of_tensor(maps, rays, apart, again)
    return _shares(maps, sector_mass(maps, a, precision, tall, sectors, offset), apart, again)  # creg2026 Eq. 2


def _shares(maps: Any, mass: Floats, apart: Any, again: Callable[[ModuleType, Array, int], Array]) -> Floats:
    total = mass.sum(-1)
    for i in np.flatnonzero(~((total > _FAINT) & (total < 1 / _FAINT)) & apart).tolist():
        one, usable = tidy(np, maps[i].reshape(1, -1).astype(np.float64))
        mass[i] = again(np, np.maximum(one[0], 0.0), i) if usable[0] else np.nan
        total[i] = mass[i].sum()
    mass[~((total > 0) & apart)] = np.nan
    with np.errstate(invalid="ignore"):
        return np.asarray(mass / total[:, None])


def _shares_of_tensor(maps: Any, rays: Rays, apart: Any, again: Callable[[ModuleType, Array, int], Array]) -> Array:
    torch = sys.modules["torch"]
    maps = maps.float() if not maps.is_floating_point() or maps.itemsize < 4 else maps
    tidied, usable = tidy(torch, flatten(maps))
    evidence = tidied.clamp(min=0)
    mass = sector_mass_of_tensor(torch, evidence.reshape(maps.shape), rays).T
    for i in np.flatnonzero((to_numpy(mass.sum(-1)) < _FAINT) & apart).tolist():
        mass = torch.cat([mass[:i], again(torch, evidence[i], i)[None], mass[i + 1 :]])
    total = mass.sum(-1)[:, None]
    usable = usable[:, None] & (total > 0) & torch.as_tensor(apart, device=maps.device)[:, None]
    return torch.where(usable, mass / torch.where(usable, total, 1.0), float("nan"))


def excess(
    maps: Any,
    reference: Any,
    target: Any,
    sectors: int = SECTORS,
    sigma: float = SIGMA,
    aspect: Any = 1.0,
    ignore: Any = None,
) -> Floats:
    """How far each sector's evidence (n, sectors) lies above its share of the image, in units of noise. Ours.

    A flat map is no evidence, yet its compass points to where most of the image lies, which is mostly where the target
    is. Here a sector's mass is compared with what the map's mean would give it, and divided by the spread that
    independent noise would have there, so a flat map is 0 everywhere and noise points anywhere. Sectors without cells
    take the lowest value of the others. Read the peak with `direction_error`.

    Args:
        maps, reference, target, sectors, sigma, aspect: as in `compass`.
        ignore: (n, h, w) marks cells that count neither as evidence nor as picture, such as those of the reference
            itself, whose evidence lies evenly around its centre.

    Returns:
        (n, sectors); NaN as in `compass`.

    Example:
        >>> excess(np.ones((1, 5, 5)), (2.5, 2.5), (4.5, 2.5), sectors=4)
        array([[0., 0., 0., 0.]])
    """
    maps = to_numpy(as_maps(maps))
    counted = np.ones(maps.shape) if ignore is None else (~to_numpy(ignore)).astype(np.float64)
    maps = maps * counted
    shares = to_numpy(compass(maps, reference, target, sectors, sigma, aspect)).astype(np.float64)
    n = len(maps)
    a, b, tall = _points(reference, n, "reference").T, _points(target, n, "target").T, _aspects(aspect, n)
    precision = np.nan_to_num(_precision(a, b, tall, sigma), posinf=0.0)
    weight = sector_mass(counted, a, precision, tall, sectors)
    spread = np.sqrt(sector_mass(counted, a, 2 * precision, tall, sectors))
    held = weight > 1e-9 * weight.max(-1, keepdims=True)
    standing = shares * weight.sum(-1, keepdims=True) - weight  # in units of the map's weighted mean
    scores = np.where(held, standing / np.where(held, spread, 1.0), np.inf)
    scores = np.where(np.abs(scores) < 1e-9, 0.0, scores)  # so that a flat map ties exactly
    return np.where(held, scores, scores.min(-1, keepdims=True))


def _precision(a: Floats, b: Floats, aspect: Floats, sigma: float) -> Floats:
    """1 / s^2 of every sample (n,), from points (2, n); infinite where reference and target coincide."""
    dx, dy = b - a
    with np.errstate(divide="ignore"):
        return np.asarray((sigma * np.hypot(dx, dy * aspect)) ** -2.0)


def _aspects(aspect: Any, n: int) -> Floats:
    aspects = np.broadcast_to(to_numpy(aspect).astype(np.float64), (n,))
    if not (np.isfinite(aspects).all() and (aspects > 0).all()):
        raise BadInput("aspect is a cell's height over its width, above 0.")
    return np.array(aspects)


def direction_error(
    compass: Any,
    reference: Any,
    target: Any,
    estimator: Estimator = "peak",
    aspect: Any = 1.0,
    origin: Origin = "centre",
) -> Array:
    """DAE: degrees between the direction of a compass and that from reference to target.

    Args:
        compass: (n, sectors), as `compass` gives it.
        reference, target, aspect: as in `compass`.
        estimator: "peak" reads the centre of the strongest sector; sectors that tie for it (within 1e-12) share, so a
            uniform compass scores 90. Even a perfect map misses by up to half a sector. "mean" reads the circular mean.
        origin: as the compass was made.

    Returns:
        (n,) from 0 to 180, of the kind of `compass`; NaN where the compass is, where the points coincide and where a
        mean has no direction.

    Example:
        >>> direction_error(np.array([[0.7, 0.1, 0.1, 0.1]]), (0.5, 2.5), (0.5, 0.5))
        array([90.])
    """
    DirectionError(estimator=estimator, origin=origin)  # their bounds
    shares = to_numpy(compass)
    if shares.ndim != 2:
        raise BadInput(f"a compass is (n, sectors), as karat.metrics.compass gives it; got {shares.shape}.")
    n, sectors = shares.shape
    step = _points(target, n, "target") - _points(reference, n, "reference")
    true = np.degrees(np.arctan2(-step[:, 1] * _aspects(aspect, n), step[:, 0]))  # creg2026 Eq. 5
    centres = (np.arange(sectors) + _OFFSET[origin]) * (360 / sectors)
    if estimator == "peak":
        peaks = shares >= shares.max(-1, keepdims=True) - 1e-12
        value = _circular_distance(peaks @ centres, true)  # one peak: its centre
        shared = np.flatnonzero(peaks.sum(-1) > 1)
        errors = np.where(peaks[shared], _circular_distance(centres, true[shared, None]), 0.0)
        value[shared] = errors.sum(-1) / peaks[shared].sum(-1)
    else:
        across, up = shares @ np.cos(np.radians(centres)), shares @ np.sin(np.radians(centres))
        value = _circular_distance(np.degrees(np.arctan2(up, across)), true)  # creg2026 Eq. 13
        value = np.where(np.hypot(across, up) > 1e-12, value, np.nan)
    value = np.where(np.isfinite(shares).all(-1) & step.any(-1), value, np.nan)
    return compass.new_tensor(value) if is_tensor(compass) else value


def _circular_distance(angle: Floats, other: Floats) -> Floats:
    return np.asarray(np.abs((angle - other + 180) % 360 - 180))  # creg2026 Eq. 4


def compass_problem(maps: Any, reference: Any, target: Any) -> Reasons:
    """The reason why a map has no compass around its reference.

    Args:
        maps, reference, target: as in `compass`.

    Returns:
        n reasons, None for a map that has one.

    Example:
        >>> compass_problem(np.array([[[0.0, -1.0]]]), (0.5, 0.5), (1.5, 0.5))
        ['map has no positive evidence']
    """
    maps = to_numpy(as_maps(maps))
    n, height, width = maps.shape
    a, b = _points(reference, n, "reference"), _points(target, n, "target")
    y, x = np.indices((height, width)) + 0.5
    elsewhere = (x != a[:, 0, None, None]) | (y != a[:, 1, None, None])
    positive = maps > 0
    checks = (
        ((a == b).all(-1), "reference and target coincide"),
        (~positive.any((1, 2)), "map has no positive evidence"),
        (~(positive & elsewhere).any((1, 2)), "all evidence lies on the reference"),
    )
    return first(map_problem(maps), *([text if bad else None for bad in flags] for flags, text in checks))


def _points(points: Any, n: int, what: str) -> Floats:
    points = to_numpy(points).astype(np.float64)
    if points.shape not in ((2,), (n, 2)):
        raise BadInput(f"{what} must be points (x, y) in map cells, ({n}, 2) or (2,); got {points.shape}.")
    if not np.isfinite(points).all():
        raise BadInput(f"{what} has NaN or inf; leave out samples whose objects have no place.")
    return np.array(np.broadcast_to(points, (n, 2)))


@dataclass(frozen=True)
@checked
class DirectionError:
    card: ClassVar[Card] = Card(
        name="compass/direction_error",
        kind="metric",
        summary="degrees between the evidence and the true direction from reference to target (DAE)",
        direction="lower",
        range=(0.0, 180.0),
        floor="control/uniform: below 90 where the picture lies mostly on the target's side; a random direction: 90",
        ceiling="all evidence on the target: at most half a sector",
        citation="creg2026 Eq. 1-5",
        departures="negative evidence counts as 0; the cell at the reference is left out; tied peaks share",
    )
    sectors: Annotated[int, Ge(2)] = SECTORS
    sigma: Annotated[float, Gt(0)] = SIGMA  # in units of the distance from reference to target
    estimator: Estimator = "peak"
    origin: Origin = "centre"

    def __call__(self, maps: Any, reference: Any, target: Any) -> Array:
        needle = compass(maps, reference, target, self.sectors, self.sigma, origin=self.origin)
        return direction_error(needle, reference, target, self.estimator, origin=self.origin)

    def problems(self, maps: Any, reference: Any, target: Any) -> list[Problem]:
        reasons = compass_problem(maps, reference, target)
        return problems(reasons, [None] * len(reasons))

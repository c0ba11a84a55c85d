"""Where does the evidence point? A map read as a compass around a reference object, and the error of its direction.

Points are (x, y) in map cells: the centre of the top-left cell is (0.5, 0.5), y grows downwards. Angles are in degrees
as the eye sees them: 0 is right, 90 is up.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from assay.kernel.card import Card
from assay.kernel.errors import BadInput
from assay.metrics.arrays import Array, Floats, as_maps, is_tensor, score, tidy, to_numpy
from assay.metrics.problems import Problem, Reasons, first, map_problem, problems

Estimator = Literal["peak", "mean"]


def compass(maps: Any, reference: Any, target: Any, sectors: int = 8, sigma: float = 1.2) -> Array:
    """Distributions (n, sectors) of the evidence in `maps` (n, h, w) over directions from the reference.

    `reference` and `target` are points (n, 2), or (2,) for all. Sector k is centred at k * 360 / sectors degrees; a
    cell on a border belongs to the sector further counter-clockwise. Cells weigh exp(-rho^2 / 2 s^2), rho being their
    distance from the reference and s is `sigma` times the distance from reference to target (`float("inf")`: no
    weighting). Negative cells speak against the answer and count as 0. The cell exactly at the reference has no
    direction and is left out. Differentiable in the maps. Rows are NaN where there is no answer: `compass_problem`.

    >>> compass(np.array([[[0.0, 0.0, 1.0]]]), (0.5, 0.5), (2.5, 0.5), sectors=4)
    array([[1., 0., 0., 0.]])
    """
    maps = as_maps(maps)
    n, height, width = maps.shape
    if sectors != int(sectors) or sectors < 2:
        raise BadInput(f"sectors must be a whole number, 2 or more; got {sectors}.")
    if not sigma > 0:
        raise BadInput(f"sigma is a width in units of the distance reference to target, above 0; got {sigma}.")

    def formula(xp: ModuleType, maps: Array, a: Array, b: Array) -> Array:
        maps, usable = tidy(xp, maps)
        evidence = xp.where(maps > 0, maps, 0.0)
        sector, weight = _geometry(to_numpy(evidence) > 0, to_numpy(a), to_numpy(b), (height, width), sectors, sigma)
        if xp is not np:
            sector = xp.as_tensor(sector, device=maps.device)
            weight = xp.as_tensor(weight, device=maps.device, dtype=maps.dtype)
        weighed = evidence * weight
        mass = xp.stack([(weighed * (sector == k)).sum(-1) for k in range(sectors)], -1)  # creg2026 Eq. 2
        total = mass.sum(-1)[:, None]
        usable = usable[:, None] & (total > 0)
        return xp.where(usable, mass / xp.where(usable, total, 1.0), float("nan"))

    return score(formula, maps, _points(reference, n, "reference"), _points(target, n, "target"))


def _geometry(
    evidence: npt.NDArray[np.bool_], a: Floats, b: Floats, size: tuple[int, int], sectors: int, sigma: float
) -> tuple[npt.NDArray[np.int64], Floats]:
    """The sector and the distance weight (n, c) of every cell; weight 0 where there is no evidence or no direction."""
    y, x = (np.indices(size) + 0.5).reshape(2, 1, -1)
    dx, dy = x - a[:, :1], y - a[:, 1:]
    angle = np.arctan2(-dy, dx)  # creg2026 Eq. 1; y grows downwards
    # The small term puts a cell exactly on a border on the same side of it in every quadrant, whatever the rounding.
    sector = np.floor(angle * (sectors / (2 * np.pi)) + 0.5 + 1e-9) % sectors
    squared = dx**2 + dy**2
    distance = np.hypot(*(b - a).T)
    counted = evidence & (squared > 0) & (distance > 0)[:, None]  # creg2026 is silent on rho = 0: left out
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.where(counted, -squared / (2 * (sigma * distance[:, None]) ** 2), -np.inf)
    # Relative to the nearest evidence: the common factor cancels in Eq. 2, and far evidence does not underflow.
    nearest = exponent.max(-1, keepdims=True)
    weight = np.exp(exponent - np.where(np.isfinite(nearest), nearest, 0.0))
    return np.where(counted, sector, -1).astype(np.int64), weight


def direction_error(compass: Any, reference: Any, target: Any, estimator: Estimator = "peak") -> Array:
    """DAE: degrees (n,), 0 to 180, between the direction of a compass (n, sectors) and that from reference to target.

    `estimator="peak"` reads the centre of the strongest sector; sectors that tie for it (within 1e-12) share, so a
    uniform compass scores 90. Even a perfect map misses by up to half a sector. `"mean"` reads the circular mean.
    NaN where the compass is, where the points coincide and where a circular mean has no direction.

    >>> direction_error(np.array([[0.7, 0.1, 0.1, 0.1]]), (0.5, 2.5), (0.5, 0.5))
    array([90.])
    """
    if estimator not in get_args(Estimator):
        raise BadInput(f"estimator must be one of {', '.join(get_args(Estimator))}; got {estimator!r}.")
    shares = to_numpy(compass)
    if shares.ndim != 2:
        raise BadInput(f"a compass is (n, sectors), as assay.metrics.compass gives it; got {shares.shape}.")
    n, sectors = shares.shape
    step = _points(target, n, "target") - _points(reference, n, "reference")
    true = np.degrees(np.arctan2(-step[:, 1], step[:, 0]))  # creg2026 Eq. 5
    centres = np.arange(sectors) * (360 / sectors)
    if estimator == "peak":
        peaks = shares >= shares.max(-1, keepdims=True) - 1e-12
        errors = np.where(peaks, _circular_distance(centres, true[:, None]), 0.0)
        value = errors.sum(-1) / np.maximum(peaks.sum(-1), 1)
    else:
        across, up = shares @ np.cos(np.radians(centres)), shares @ np.sin(np.radians(centres))
        value = _circular_distance(np.degrees(np.arctan2(up, across)), true)  # creg2026 Eq. 13
        value = np.where(np.hypot(across, up) > 1e-12, value, np.nan)
    value = np.where(np.isfinite(shares).all(-1) & step.any(-1), value, np.nan)
    return compass.new_tensor(value) if is_tensor(compass) else value


def _circular_distance(angle: Floats, other: Floats) -> Floats:
    return np.asarray(np.abs((angle - other + 180) % 360 - 180))  # creg2026 Eq. 4


def compass_problem(maps: Any, reference: Any, target: Any) -> Reasons:
    """The reason why a map (n, h, w) has no compass around its reference, or None."""
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
class DirectionError:
    card: ClassVar[Card] = Card(
        name="compass/direction_error",
        kind="metric",
        summary="degrees between the evidence and the true direction from reference to target (DAE)",
        direction="lower",
        range=(0.0, 180.0),
        floor="control/random: 90 on average",
        ceiling="all evidence on the target: at most half a sector",
        citation="creg2026 Eq. 1-5",
        departures="negative evidence counts as 0; the cell at the reference is left out; tied peaks share",
    )
    sectors: int = 8
    sigma: float = 1.2
    estimator: Estimator = "peak"

    def __call__(self, maps: Any, reference: Any, target: Any) -> Array:
        needle = compass(maps, reference, target, self.sectors, self.sigma)
        return direction_error(needle, reference, target, self.estimator)

    def problems(self, maps: Any, reference: Any, target: Any) -> list[Problem]:
        reasons = compass_problem(maps, reference, target)
        return problems(reasons, [None] * len(reasons))

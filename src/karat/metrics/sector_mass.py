"""Sums of a map over the sectors around a point, for many maps at once.

Along a column of a map the sectors are stretches: their sums are differences of running sums at the rows where the rays
between sectors cross the column. The distance weight is a product of one factor per row and one per column. So a cell
costs one multiplication and one addition, and no angle is ever computed. Maps stand last in every array here.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.metrics.arrays import Array, Floats, Scratch, to_numpy

_BLOCK = 1 << 16  # cells summed at a time: half a megabyte, which stays in the processor's cache
_JOINED = 8  # blocks whose rays, a sixth as many numbers, are computed and added up in one go


@dataclass(frozen=True, eq=False)
class Spokes:
    """The rays between sectors: their slopes (k, 1, 1) to the right and to the left, how many there are of each, and
    the sector straight down.

    The ray between sectors k - 1 and k leaves at (k - 1/2 + offset) * 360 / sectors degrees. The small term puts a cell
    that lies exactly on a ray on the same side of it in every quadrant, whatever the rounding.
    """

    right: Floats
    left: Floats
    easts: int
    wests: int
    first: int

    @staticmethod
    def of(sectors: int, offset: float = 0.0) -> Spokes:
        turns = (np.arange(1, sectors + 1) - 0.5 + offset - 1e-9) / sectors
        first = int((turns <= 0.75).sum())
        turns = np.roll(turns, -first)
        easts = int(((turns > 0.75) | (turns < 0.25)).sum())
        slopes = np.zeros((2, max(easts, sectors - easts), 1, 1))
        slopes[0, :easts, 0, 0] = np.tan(2 * np.pi * turns[:easts])
        slopes[1, : sectors - easts, 0, 0] = np.tan(2 * np.pi * turns[easts:])
        if np.allclose(slopes[0], slopes[1], rtol=1e-12, atol=0):  # rays that go on to the other side; but for rounding
            slopes[1] = slopes[0]
        return Spokes(slopes[0], slopes[1], easts, sectors - easts, first)


@dataclass(frozen=True, eq=False)
class Rays:
    """Where the rays around n points cross the columns of maps (h, w), and the weights of rows and columns.

    `above` (k, w, n) is how many rows lie above a ray; columns to the right of the point have the rays to the right,
    the others those to the left. `along` (h, n) and `east`, `west` (w, n) are weights; the last two are 0 on the other
    side. `on` are the samples (with row and column) whose point is the centre of a cell: that cell has no direction.
    """

    above: npt.NDArray[np.int64]
    along: Floats
    east: Floats
    west: Floats
    spokes: Spokes
    on: tuple[npt.NDArray[np.intp], ...]


def rays_around(
    at: Floats, precision: Floats, aspect: Floats, spokes: Spokes, size: tuple[int, int], scratch: Scratch
) -> Rays:
    """Rays around points `at` (2, n); cells weigh exp(-rho^2 precision / 2), and are `aspect` times as high as wide.

    What they hold lies in `scratch`, until the next are put there.
    """
    height, width = size
    x, y = at
    up, right = (y - (np.arange(height) + 0.5)[:, None]) * aspect, (np.arange(width) + 0.5)[:, None] - x
    on = np.flatnonzero((up == 0).any(0) & (right == 0).any(0))
    with np.errstate(invalid="ignore"):  # infinitely narrow: reference and target coincide
        along, across = np.exp(up**2 * (-precision / 2)), np.exp(right**2 * (-precision / 2))
    east = right >= 0
    level = right / -aspect
    crossing = scratch.array("crossing", (len(spokes.right), *right.shape), np.float64)
    if np.array_equal(spokes.right, spokes.left):  # for every multiple of four sectors
        np.multiply(level, spokes.right, out=crossing)
    else:
        np.multiply(level, np.where(east, spokes.right, spokes.left), out=crossing)
    crossing += y + 0.5
    np.clip(crossing, 0, height + 0.5, out=crossing)
    above = scratch.array("above", crossing.shape, np.int64)
    above[...] = crossing
    east_weights = np.multiply(across, east, out=scratch.array("east", across.shape, np.float64))
    west_weights = np.multiply(across, ~east, out=scratch.array("west", across.shape, np.float64))
    cell = (up[:, on] == 0).argmax(0), (right[:, on] == 0).argmax(0)
    return Rays(above, along, east_weights, west_weights, spokes, (on, *cell))


def sector_mass(
    maps: npt.NDArray[np.floating[Any]],
    at: Floats,
    precision: Floats,
    aspect: Floats,
    sectors: int,
    offset: float = 0.0,
) -> Floats:
    """Positive evidence of maps (n, h, w), weighted, summed by sector: (n, sectors). NaN where a map has NaN or inf.

    The rest as in `rays_around`. Block by block, so that all that is needed stays in the cache.
    """
    n, height, width = maps.shape
    step = max(1, _BLOCK // (height * width))
    spokes, scratch = Spokes.of(sectors, offset), Scratch()
    mass = np.empty((sectors, n))
    for start in range(0, n, _JOINED * step):
        part = slice(start, min(start + _JOINED * step, n))
        rays = rays_around(at[:, part], precision[part], aspect[part], spokes, (height, width), scratch)
        passed = scratch.array("passed", (sectors + 2, part.stop - part.start), np.float64)
        for first in range(0, passed.shape[1], step):
            some = slice(first, min(first + step, passed.shape[1]))
            running = _running(maps[part][some], rays, some, scratch)
            m = running.shape[2]
            places = scratch.array("places", (*rays.above.shape[:2], m), np.int64)
            np.multiply(rays.above[:, :, some], width * m, out=places)
            places += np.arange(width * m).reshape(width, m)
            above = running.take(places, out=scratch.array("taken", places.shape, np.float64), mode="clip")
            _passed(np, above, running[-1], rays.east[:, some], rays.west[:, some], spokes, passed[:, some])
        mass[:, part] = _differences(np, passed, spokes)
    return mass.T  # maps last in memory: whoever sums over sectors adds whole rows


def _running(maps: npt.NDArray[np.floating[Any]], rays: Rays, some: slice, scratch: Scratch) -> Floats:
    """Running sums (h + 1, w, m) down the columns of m maps, weighted by row."""
    m, height, width = maps.shape
    running = scratch.array("running", (height + 1, width, m), np.float64)
    running[0] = 0.0
    positive = np.maximum(maps, 0.0, out=scratch.array("positive", maps.shape, np.float64))
    running[1:] = positive.transpose(1, 2, 0)  # in two steps: to transpose while comparing takes half as long again
    on, rows, columns = rays.on
    if len(on):
        here = (on >= some.start) & (on < some.stop)
        running[rows[here] + 1, columns[here], on[here] - some.start] = 0.0  # creg2026 is silent on rho = 0: left out
    running[1:] *= rays.along[:, None, some]
    for row in range(1, height):
        running[row + 1] += running[row]
    return running


def sector_mass_of_tensor(torch: ModuleType, maps: Array, rays: Rays) -> Array:
    """As `sector_mass`, on a tensor (n, h, w), with gradients."""

    def like(part: Floats) -> Array:
        return torch.as_tensor(part, device=maps.device, dtype=maps.dtype)

    evidence = maps.clamp(min=0).permute(1, 2, 0)
    counted = torch.ones_like(evidence)
    on, rows, columns = (torch.as_tensor(part, device=maps.device) for part in rays.on)
    counted[rows, columns, on] = 0.0
    running = (evidence * counted * like(rays.along)[:, None]).cumsum(0)
    running = torch.cat([running[:1] * 0, running])
    n, width = evidence.shape[2], evidence.shape[1]
    places = rays.above * (width * n) + np.arange(width * n).reshape(width, n)
    above = running.take(torch.as_tensor(places, device=maps.device))
    passed = _passed(torch, above, running[-1], like(rays.east), like(rays.west), rays.spokes)
    return _differences(torch, passed, rays.spokes)


def _passed(
    xp: ModuleType, above: Array, whole: Array, east: Array, west: Array, spokes: Spokes, out: Floats | None = None
) -> Array:
    """Sums (easts + wests + 2, n) of what lies above each ray to the right and to the left, and of each whole half,
    from what lies above each ray (k, w, n) and in each column (w, n)."""
    parts = (
        xp.einsum("kwn,wn->kn", above[: spokes.easts], east),
        xp.einsum("kwn,wn->kn", above[: spokes.wests], west),
        xp.einsum("wn,wn->n", whole, east)[None],
        xp.einsum("wn,wn->n", whole, west)[None],
    )
    return xp.concatenate(parts) if out is None else xp.concatenate(parts, out=out)


def _differences(xp: ModuleType, passed: Array, spokes: Spokes) -> Array:
    """Sums (sectors, n) from those of `_passed`.

    To the right angles grow upwards, to the left downwards; the halves share the sectors straight up and down.
    """
    past_east, all_east, all_west = passed[: spokes.easts], passed[-2:-1], passed[-1:]
    past_west = all_west - passed[spokes.easts : -2]
    none = all_east * 0
    east_steps = xp.concatenate([all_east, past_east]) - xp.concatenate([past_east, none])
    west_steps = xp.concatenate([all_west, past_west]) - xp.concatenate([past_west, none])
    down, top = east_steps[:1] + west_steps[-1:], east_steps[spokes.easts :] + west_steps[:1]
    mass = xp.concatenate([down, east_steps[1 : spokes.easts], top, west_steps[1:-1]])
    mass = xp.where(mass < 0, 0.0, mass)  # differences of sums may round to just below nothing
    turn = spokes.easts + spokes.wests - spokes.first
    return xp.concatenate([mass[turn:], mass[:turn]])


def far_mass(
    xp: ModuleType, evidence: Array, at: Floats, precision: float, aspect: float, sectors: int, offset: float = 0.0
) -> Array:
    """As `sector_mass`, for one map (h, w), with weights relative to the nearest evidence: (sectors,)."""
    y, x = (np.indices(evidence.shape) + 0.5).reshape(2, -1)
    evidence = evidence.reshape(-1)
    dx, dy = x - at[0], (y - at[1]) * aspect
    sector = np.floor(np.arctan2(-dy, dx) * (sectors / (2 * np.pi)) + 0.5 - offset + 1e-9) % sectors  # creg2026 Eq. 1
    squared = dx**2 + dy**2
    counted = (to_numpy(evidence) > 0) & (squared > 0)
    nearest = squared[counted].min(initial=np.inf)
    weight = np.where(counted, np.exp(np.minimum((nearest - squared) * precision / 2, 0.0)), 0.0)
    table = weight * (sector == np.arange(sectors)[:, None])
    if xp is not np:
        table = xp.as_tensor(table, device=evidence.device, dtype=evidence.dtype)
    return table @ evidence

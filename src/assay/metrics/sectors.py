"""Sums of a map over the sectors around a point, for many maps at once."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from assay.metrics.arrays import Array, Floats, Scratch, to_numpy


def sector_mass(
    xp: ModuleType, evidence: Array, at: Floats, precision: Floats, sectors: int, aspect: Floats, scratch: Scratch
) -> Array:
    """Evidence (h, w, n), weighted by exp(-rho^2 precision / 2) around `at` (2, n), summed by sector: (sectors, n).

    Maps come last, so that one step serves all of them. Along a column of a map the sectors are stretches: their sums
    are differences of running sums at the rows where the rays between sectors cross the column. The weight is a
    product of one factor per row and one per column.
    """
    height, width, n = evidence.shape
    x, y = at
    up, right = (y - (np.arange(height) + 0.5)[:, None]) * aspect, (np.arange(width) + 0.5)[:, None] - x
    on = np.flatnonzero((up == 0).any(0) & (right == 0).any(0))
    if len(on):  # creg2026 is silent on rho = 0: left out
        evidence = evidence + 0  # not the caller's
        evidence[(up[:, on] == 0).argmax(0), (right[:, on] == 0).argmax(0), on] = 0.0
    with np.errstate(invalid="ignore"):  # infinitely narrow: reference and target coincide
        along, across = np.exp(up**2 * (-precision / 2)), np.exp(right**2 * (-precision / 2))
    # The ray between sectors k - 1 and k leaves at (k - 1/2) * 360 / sectors degrees. The small term puts a cell that
    # lies exactly on a ray on the same side of it in every quadrant, whatever the rounding.
    rays = (np.arange(1, sectors + 1) - 0.5 - 1e-9) / sectors
    first = int((rays <= 0.75).sum())  # the sector that points straight down; from there on counter-clockwise
    rays = np.roll(rays, -first)
    easts = int(((rays > 0.75) | (rays < 0.25)).sum())  # rays to the right of the reference
    wests = sectors - easts
    slopes = np.zeros((2, max(easts, wests), 1, 1))
    slopes[0, :easts, 0, 0], slopes[1, :wests, 0, 0] = (
        np.tan(2 * np.pi * rays[:easts]),
        np.tan(2 * np.pi * rays[easts:]),
    )
    east = right >= 0
    # How many rows lie above each ray, as a place in the running sums (h + 1, w, n).
    crossing = scratch.array("crossing", (slopes.shape[1], width, n), np.float64)
    back = right / -aspect
    np.multiply(slopes[0], back, out=crossing)
    np.multiply(slopes[1], back, out=crossing, where=~east)
    crossing += y + 0.5
    np.clip(crossing, 0, height + 0.5, out=crossing)
    places = scratch.array("places", crossing.shape, np.int64)
    places[...] = crossing
    places *= width * n
    places += np.arange(width * n).reshape(width, n)
    to_east, to_west = across * east, across * ~east
    if xp is np:
        running = scratch.array("running", (height + 1, width, n), np.float64)
        running[0] = 0.0
        for row in range(height):
            np.multiply(evidence[row], along[row], out=running[row + 1])
            running[row + 1] += running[row]
        above = running.take(places, out=crossing, mode="clip")  # without a mode, take would copy
    else:
        device, dtype = evidence.device, evidence.dtype
        along, to_east, to_west = (xp.as_tensor(p, device=device, dtype=dtype) for p in (along, to_east, to_west))
        running = (evidence * along[:, None]).cumsum(0)
        running = xp.concatenate([running[:1] * 0, running])
        above = running.take(xp.tensor(places, device=device))
    whole = running[-1]
    # To the right angles grow upwards, to the left downwards.
    all_east, all_west = (whole * to_east).sum(0)[None], (whole * to_west).sum(0)[None]
    past_east = xp.einsum("kwn,wn->kn", above[:easts], to_east)
    past_west = all_west - xp.einsum("kwn,wn->kn", above[:wests], to_west)
    none = all_east * 0
    east_steps = xp.concatenate([all_east, past_east]) - xp.concatenate([past_east, none])
    west_steps = xp.concatenate([all_west, past_west]) - xp.concatenate([past_west, none])
    # Both halves share the sectors that point straight down and straight up.
    down, top = east_steps[:1] + west_steps[-1:], east_steps[easts:] + west_steps[:1]
    mass = xp.concatenate([down, east_steps[1:easts], top, west_steps[1:-1]])
    mass = xp.where(mass > 0, mass, 0.0)  # differences of sums may round to just below nothing
    return xp.concatenate([mass[sectors - first :], mass[: sectors - first]])


def far_mass(xp: ModuleType, evidence: Array, at: Floats, precision: float, sectors: int, aspect: float) -> Array:
    """As `sector_mass`, for one map (h, w), with weights relative to the nearest evidence: (sectors,)."""
    y, x = (np.indices(evidence.shape) + 0.5).reshape(2, -1)
    evidence = evidence.reshape(-1)
    dx, dy = x - at[0], (y - at[1]) * aspect
    # creg2026 Eq. 1; y grows downwards
    sector = np.floor(np.arctan2(-dy, dx) * (sectors / (2 * np.pi)) + 0.5 + 1e-9) % sectors
    squared = dx**2 + dy**2
    counted = (to_numpy(evidence) > 0) & (squared > 0)
    nearest = squared[counted].min(initial=np.inf)
    weight = np.where(counted, np.exp(np.minimum((nearest - squared) * precision / 2, 0.0)), 0.0)
    table = weight * (sector == np.arange(sectors)[:, None])
    return (
        xp.as_tensor(table, device=evidence.device, dtype=evidence.dtype) @ evidence
        if xp is not np
        else table @ evidence
    )

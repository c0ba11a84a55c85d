"""Slow twin of the compass: one map, cell by cell, equations 1, 2, 4 and 5 of creg2026."""

from __future__ import annotations

import math
from typing import Any


def compass(a: Any, reference: Any, target: Any, sectors: int, sigma: float, first: float = 0.0) -> list[float]:
    """`first` is the centre of sector 0 in degrees."""
    width = sigma * math.dist(reference, target)
    mass = [0.0] * sectors
    for row in range(a.shape[0]):
        for column in range(a.shape[1]):
            x, y = column + 0.5, row + 0.5
            rho = math.dist((x, y), reference)
            if rho == 0:
                continue
            degrees = math.degrees(math.atan2(-(y - reference[1]), x - reference[0])) % 360
            gaps = [abs((degrees - first - k * 360 / sectors + 180) % 360 - 180) for k in range(sectors)]
            mass[gaps.index(min(gaps))] += max(float(a[row, column]), 0.0) * math.exp(-(rho**2) / (2 * width**2))
    return [m / sum(mass) for m in mass]


def direction_error(shares: Any, reference: Any, target: Any) -> float:
    peak = max(range(len(shares)), key=lambda k: shares[k]) * 360 / len(shares)
    true = math.degrees(math.atan2(-(target[1] - reference[1]), target[0] - reference[0]))
    return abs((peak - true + 180) % 360 - 180)


def compass_of_cells(
    reference: Any, target: Any, a: Any, cell: tuple[float, float], sectors: int, sigma: float
) -> list[float]:
    """As `compass`, with points in the plane and cells of any width and height."""
    width = sigma * math.dist(reference, target)
    mass = [0.0] * sectors
    for row in range(a.shape[0]):
        for column in range(a.shape[1]):
            x, y = (column + 0.5) * cell[0], (row + 0.5) * cell[1]
            rho = math.dist((x, y), reference)
            degrees = math.degrees(math.atan2(-(y - reference[1]), x - reference[0])) % 360
            mass[round(degrees / (360 / sectors)) % sectors] += float(a[row, column]) * math.exp(
                -(rho**2) / (2 * width**2)
            )
    return [m / sum(mass) for m in mass]

"""Slow twins of the localisation and ranking metrics: one map at a time, cell by cell, as the papers write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

Map = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def cells(array: npt.NDArray[Any]) -> list[tuple[int, int]]:
    return [(y, x) for y in range(array.shape[0]) for x in range(array.shape[1])]


def relevance_mass(a: Map, mask: Mask) -> float:
    total = math.fsum(abs(a[cell]) for cell in cells(a))
    return math.fsum(abs(a[cell]) for cell in cells(a) if mask[cell]) / total


def spuriousity(a: Map, mask: Mask, threshold: float, mode: str) -> float:
    kept = {cell: (a[cell] if mode == "soft" else 1.0) if a[cell] >= threshold else 0.0 for cell in cells(a)}
    inside = math.fsum(kept[cell] for cell in kept if mask[cell])
    outside = math.fsum(kept[cell] for cell in kept if not mask[cell])
    raw = (inside - outside) / math.fsum(kept.values())
    return 1 - (raw + 1) / 2


def otsu_iou(a: Map, mask: Mask) -> float:
    from skimage.filters import threshold_otsu

    magnitude = np.abs(a)
    chosen = magnitude >= threshold_otsu(magnitude[magnitude > 0])
    return float((chosen & mask).sum() / (chosen | mask).sum())


def top(a: Map, k: int) -> set[tuple[int, int]]:
    return set(sorted(cells(a), key=lambda cell: -a[cell])[:k])


def hit(a: Map, mask: Mask, k: int = 1) -> float:
    return sum(bool(mask[cell]) for cell in top(a, k)) / k


def relevance_rank(a: Map, mask: Mask) -> float:
    return hit(np.abs(a), mask, int(mask.sum()))


def weighted_iou(a: Map, truth: Map, ks: Sequence[int], weights: Sequence[float]) -> float:
    ious = [len(top(a, k) & top(truth, k)) / len(top(a, k) | top(truth, k)) for k in ks]
    return sum(w * iou for w, iou in zip(weights, ious, strict=True)) / sum(weights)


def chance_in_top(a: Map, k: int) -> Map:
    """How often each cell is in the top k when ties are broken in every possible order."""
    times, orders = np.zeros(a.shape), 0
    for order in permutations(cells(a)):
        orders += 1
        for cell in sorted(order, key=lambda cell: -a[cell])[:k]:
            times[cell] += 1
    return times / orders


def pointing_game(a: Map, mask: Mask, tolerance: float) -> float:
    peak = max(a[cell] for cell in cells(a))
    best = [cell for cell in cells(a) if a[cell] == peak]
    near = [min(math.dist(cell, other) for other in cells(a) if mask[other]) <= tolerance for cell in best]
    return sum(near) / len(best)

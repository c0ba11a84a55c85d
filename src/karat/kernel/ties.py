"""Ties: scores that differ by no more than rounding are equal, wherever an order or a rank is made of them.

Two explanations that are the same have scores that differ in their last digits where they were computed in different
batches. `TIE` is the tolerance, as a share of the largest score: a hundred times what single precision loses, and far
below any difference that means something.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

TIE = 1e-6


def tie_levels(scores: npt.ArrayLike, scale: float | None = None) -> npt.NDArray[np.float64]:
    """Scores with ties made equal: along the last axis, whatever lies within `TIE` · scale above a level belongs to it.

    Args:
        scores: (..., n) numbers; NaN stays NaN.
        scale: what the tolerance is a share of; by default the largest absolute score there is.

    Returns:
        (..., n) the smallest score of each level.

    Example:
        >>> tie_levels([0.3, 0.1 + 0.2, 0.7]).tolist()
        [0.3, 0.3, 0.7]
    """
    values = np.asarray(scores, dtype=np.float64)
    if not values.size:
        return values
    tolerance = TIE * (largest(values) if scale is None else scale)
    order = np.argsort(values, axis=-1, kind="stable")
    rising = np.take_along_axis(values, order, axis=-1)
    starts = np.ones(values.shape, dtype=np.bool_)
    starts[..., 1:] = ~(np.diff(rising, axis=-1) <= tolerance)  # a NaN is apart from everything
    places = np.maximum.accumulate(np.where(starts, np.arange(values.shape[-1]), 0), axis=-1)
    level = np.take_along_axis(rising, places, axis=-1)
    if (rising - level > tolerance).any():  # a chain of neighbours that is longer than the tolerance: step by step
        level[..., 0] = rising[..., 0]
        for k in range(1, values.shape[-1]):
            below = level[..., k - 1]
            level[..., k] = np.where(rising[..., k] - below <= tolerance, below, rising[..., k])
    levels = np.empty_like(values)
    np.put_along_axis(levels, order, level, axis=-1)
    return levels


def largest(scores: npt.NDArray[Any]) -> float:
    """The largest absolute score, NaN aside; 0 where there is none."""
    return float(np.nanmax(np.abs(scores), initial=0.0)) if scores.size else 0.0

"""Maps and masks that the metric tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


def generic(n: int = 12, h: int = 9, w: int = 11, seed: int = 0) -> tuple[Any, Any]:
    """Signed maps without ties, and masks that are neither empty nor whole."""
    rng = np.random.default_rng(seed)
    masks = rng.random((n, h, w)) < rng.uniform(0.1, 0.9, (n, 1, 1))
    masks[:, 0, 0], masks[:, -1, -1] = True, False
    return rng.normal(size=(n, h, w)), masks


def blobs(n: int, h: int, w: int, seed: int = 0) -> Any:
    """Smooth bumps over faint noise: what a saliency map looks like."""
    rng = np.random.default_rng(seed)
    y, x = np.indices((h, w))[:, None] + 0.5
    cy, cx, s = rng.uniform(0, h, (n, 1, 1)), rng.uniform(0, w, (n, 1, 1)), rng.uniform(0.1, 0.3, (n, 1, 1)) * h
    return np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * s**2)) + 0.05 * rng.random((n, h, w))


def any_maps(least: float = -4.0) -> st.SearchStrategy[Any]:
    """Small batches of coarse values: many ties, many zeros, never an all-zero map."""
    values = st.sampled_from([v for v in (-4.0, -1.5, 0.0, 0.25, 1.0, 2.0, 3.0) if v >= least])
    shapes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(2, 4))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=values)).map(_with_mass)


def _with_mass(maps: Any) -> Any:
    maps = maps.copy()
    maps[~maps.any((1, 2)), 0, 0] = 1.0
    return maps


def mask_for(maps: Any, seed: int) -> Any:
    """A random mask for each map, neither empty nor whole."""
    masks = np.random.default_rng(seed).random(maps.shape) < 0.5
    masks[:, 0, 0], masks[:, -1, -1] = True, False
    return masks

"""The rank Gaussian filter of TAM: a 3 × 3 filter on sorted values, between the median and the mean."""

from __future__ import annotations

import numpy as np

from karat.kernel.typing import Map


def rank_gaussian(image: Map, size: int = 3) -> Map:
    """Each place gets Σ_r w_r v_(r) over the sorted window, w_r = exp(-r² / 2σ²), r counted from the median.

    σ is the window's coefficient of variation, std / mean: even windows keep their median, uneven ones are smoothed
    over more ranks. Edges are mirrored without repeating them. A flat window keeps its value (the released code divides
    by zero there).
    """
    half = size // 2
    padded = np.pad(image, half, mode="reflect" if min(image.shape) > half else "edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size)).reshape(*image.shape, size * size)
    ranked = np.sort(windows, axis=-1)
    mean, deviation = ranked.mean(-1, keepdims=True), ranked.std(-1, keepdims=True)
    flat = (deviation == 0) | (mean <= 0)
    sigma = np.where(flat, 1.0, deviation) / np.where(flat, 1.0, mean)
    rank = np.arange(size * size) - size * size // 2
    # The median's weight is 1, so that a narrow filter is the median rather than 0 / 0.
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp(-(rank**2) / (2 * sigma**2))
    filtered = (ranked * weights).sum(-1) / weights.sum(-1)
    return np.where(flat[..., 0], image, filtered)

"""A slow twin of the line-up's pointing: cells summed pixel by pixel, one random order at a time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from karat.datasets.cues import CueSample
from karat.kernel.attribution import Attribution

CUES = ("content", "tag", "frame", "sticker")
CELLS = 24


def cells_of(visual: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean of |a| over blocks of pixels; a side is a multiple of CELLS, or no longer than that."""
    h, w = visual.shape
    if max(h, w) <= CELLS:
        return np.abs(visual)
    block = h // CELLS, w // CELLS
    means = np.zeros((CELLS, CELLS))
    for y in range(CELLS):
        for x in range(CELLS):
            pixels = visual[y * block[0] : (y + 1) * block[0], x * block[1] : (x + 1) * block[1]]
            means[y, x] = math.fsum(abs(value) for value in pixels.ravel()) / pixels.size
    return means


def percentile(
    values: npt.NDArray[np.float64], shares: npt.NDArray[np.float64], orders: int, rng: np.random.Generator
) -> float:
    """Of the mass on a cue among `orders` orders of the values; above all of them, by Cantelli's bound."""
    mass = float(values @ shares)
    null = [float(rng.permutation(values) @ shares) for _ in range(orders)]
    near = 1e-9 * max(abs(mass), *map(abs, null))
    below = sum(other < mass - near for other in null)
    ties = sum(abs(other - mass) <= near for other in null)
    if below == orders:
        z = (mass - float(np.mean(null))) / float(np.std(null))
        return (orders + 1 - 1 / (1 + z * z)) / (orders + 1)
    return (below + float(rng.random()) * (ties + 1)) / (orders + 1)


def accused(sample: CueSample, attribution: Attribution, orders: int, rng: np.random.Generator) -> str:
    """The cue with the largest percentile."""
    percentiles = {}
    if attribution.visual is not None:
        cells = cells_of(np.asarray(attribution.visual, dtype=np.float64))
        side = sample.size[0] // cells.shape[0]
        for cue in CUES:
            mask = sample.mask(cue)
            if mask.any():
                blocks = mask.reshape(cells.shape[0], side, cells.shape[1], side).mean((1, 3))
                percentiles[cue] = percentile(cells.ravel(), blocks.ravel(), orders, rng)
    if attribution.words is not None:
        carrier = np.array(sample.word_mask("word"), dtype=np.float64)
        percentiles["word"] = percentile(np.abs(attribution.words), carrier, orders, rng)
    return max(percentiles, key=lambda cue: percentiles[cue])

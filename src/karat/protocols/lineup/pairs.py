"""Which image cue and which word do pairs name together? Every couple gets a percentile; the largest is the accused."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.datasets.cues.sample import CueSample
from karat.kernel.attribution import Attribution
from karat.protocols.lineup.pointing import IMAGE, PERMUTATIONS, coverage, rank_among

Floats = npt.NDArray[np.float64]


def couple_percentiles(sample: CueSample, attribution: Attribution, rng: np.random.Generator) -> Floats | None:
    """(IMAGE, words) percentiles of |pairs| on each image cue and each word, among orders of the cells of that word's
    pairs and of the words of those cells: all entries change places. NaN for cues that are not there; None where the
    method defines no pairs, or only zeros.
    """
    if attribution.pairs is None or attribution.visual is None:
        return None
    values = np.abs(np.asarray(attribution.pairs, dtype=np.float64))  # (cells, words)
    if not np.isfinite(values).all() or not values.any():
        return None
    size = (attribution.visual.shape[0], attribution.visual.shape[1])
    here = [k for k, cue in enumerate(IMAGE) if sample.mask(cue).any()]
    shares = np.stack([coverage(sample, IMAGE[k], size).ravel() for k in here])
    percentiles = np.full((len(IMAGE), values.shape[1]), np.nan)
    null = np.empty((PERMUTATIONS, len(here), values.shape[1]))
    flat = values.ravel()
    for row in range(PERMUTATIONS):
        null[row] = shares @ rng.permutation(flat).reshape(values.shape)
    masses = shares @ values
    ranks = rank_among(masses.ravel(), null.reshape(PERMUTATIONS, -1), rng)
    percentiles[here] = ranks.reshape(masses.shape)
    return percentiles


def names_couple(sample: CueSample, percentiles: Floats, cue: str) -> float:
    """1.0 where the couple with the largest percentile is this image cue and the word that is a cue."""
    k, word = np.unravel_index(int(np.nanargmax(percentiles)), percentiles.shape)
    return float(IMAGE[int(k)] == cue and sample.word_mask("word")[int(word)])

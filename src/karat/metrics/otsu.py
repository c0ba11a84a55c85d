"""Otsu's threshold for a whole batch of maps at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from karat.metrics.arrays import Floats, Scratch

BINS = 256
_FRACTION = 16  # bits below the bin number, in fixed point


def otsu_threshold(magnitudes: Floats, scratch: Scratch) -> Floats:
    """Thresholds (n,) that split the positive entries of each row (n, c) into two classes of least inner variance.

    A histogram of 256 equal bins from the least to the greatest positive entry; the threshold is the centre of the last
    bin of the lower class, the first one where several do equally well. That is `skimage.filters.threshold_otsu` of
    `row[row > 0]`, which the tests hold it to. Rows whose positive entries are all equal answer that value; rows
    without any answer infinity.
    """
    n, cells = magnitudes.shape
    low, high = magnitudes.min(-1), magnitudes.max(-1)
    zeros = np.zeros(n, dtype=np.intp)
    sparse = np.flatnonzero(low == 0)
    if len(sparse):
        some = magnitudes[sparse]
        positive = some > 0
        zeros[sparse] = cells - np.count_nonzero(positive, axis=-1)
        low[sparse] = np.where(positive, some, np.inf).min(-1)
    # Below this width neighbouring bin edges are the same float: no split is meaningful.
    flat = ~(high - low > BINS * np.finfo(np.float64).eps * high)
    edges = np.linspace(np.where(flat, 0.0, low), np.where(flat, 1.0, high), BINS + 1, axis=-1)

    bins = _bin_numbers(magnitudes, edges, scratch, clip=bool(flat.any() or len(sparse)))
    rows = np.arange(n, dtype=np.int32)[:, None] * BINS
    places = np.add(bins, rows, out=scratch.array("places", bins.shape, np.intp))
    counts = np.bincount(places.ravel(), minlength=n * BINS).reshape(n, BINS)
    counts[:, 0] -= zeros  # entries below the first edge were put into the first bin
    threshold = _best_split(counts, (edges[:, :-1] + edges[:, 1:]) / 2)
    return np.where(flat, low, threshold)


def _bin_numbers(magnitudes: Floats, edges: Floats, scratch: Scratch, clip: bool) -> npt.NDArray[np.int32]:
    """The bin of each entry, by comparison with the edges as `np.histogram` does it.

    Fixed-point arithmetic gives the bin at once, except for the few entries within 2**-16 of a bin from an edge;
    only these are compared. `clip` puts what lies outside the edges into the first and last bin.
    """
    shape, cells = magnitudes.shape, magnitudes.shape[1]
    first = edges[:, :1]
    scaled = np.subtract(magnitudes, first, out=scratch.array("scaled", shape, np.float64))
    scaled *= (BINS << _FRACTION) / (edges[:, -1:] - first)
    if clip:
        np.clip(scaled, 0, BINS << _FRACTION, out=scaled)
    fixed = scratch.array("fixed", shape, np.int32)
    fixed[...] = scaled
    near = np.add(fixed, 1, out=scratch.array("near", shape, np.int32))
    near &= (1 << _FRACTION) - 1  # 0 just below an edge, 1 just above it
    doubtful = np.flatnonzero(near <= 1)
    doubtful = doubtful[fixed.ravel()[doubtful] > 1]  # nothing can fall below the first bin
    bins = np.right_shift(fixed, _FRACTION, out=fixed)
    rows, values = doubtful // cells, magnitudes.ravel()[doubtful]
    guess = np.minimum(bins.ravel()[doubtful], BINS - 1)
    guess -= values < edges[rows, guess]
    guess += (values >= edges[rows, guess + 1]) & (guess < BINS - 1)
    bins.ravel()[doubtful] = guess
    return bins


def _best_split(counts: npt.NDArray[np.intp], centres: Floats) -> Floats:
    """Centre of the bin after which the variance between the two classes is greatest."""
    # Class sizes in float32, as scikit-image has them: near ties are then decided alike.
    sizes = counts.astype(np.float32)
    moments = sizes * centres
    below, above = np.cumsum(sizes, -1), np.cumsum(sizes[:, ::-1], -1)[:, ::-1]
    mean_below = np.cumsum(moments, -1)[:, :-1] / np.maximum(below, 1)[:, :-1]
    mean_above = np.cumsum(moments[:, ::-1], -1)[:, ::-1][:, 1:] / np.maximum(above, 1)[:, 1:]
    variance = below[:, :-1] * above[:, 1:] * (mean_below - mean_above) ** 2
    best = np.argmax(variance, -1)
    return np.asarray(centres[np.arange(len(best)), best])

"""Laying a map over its image: stretched to the mask's pixels, scaled, and with the ignored pixels out of the count.

And SSS of maps that know nothing: the same everywhere, and a blob of the object's size at a random place. The blob asks
less of the map's fineness and more of its place: SSS of a coarse map is high on small objects whatever the method, and
low on objects in the middle of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.attribution import resize_maps
from karat.kernel.typing import Map, Mask

Scale = Literal["raw", "maximum", "range"]
Resize = Literal["bilinear", "cells"]


def overlay(map_: Map, ignored: Mask | None, size: tuple[int, int], scale: Scale, resize: Resize) -> Map:
    """The map (h, w) at the mask's `size`, float32, in the units that a threshold is given in.

    `scale`: "raw" as the explainer gave it; "maximum" divided by its largest value; "range" from 0 to 1 between its
    least and its largest value. Ignored pixels become -1: below every threshold, so neither inside nor outside.
    """
    stretched = stretch(map_, *size) if resize == "bilinear" else resize_maps(map_[None], *size)[0]
    values = np.array(stretched, dtype=np.float32)  # a copy: what the explainer gave is kept for the page
    low = float(values.min()) if scale == "range" else 0.0
    peak = float(values.max()) - low
    if scale != "raw" and 0 < peak < np.inf:
        values = (values - low) / peak
    if ignored is not None:
        values[ignored] = -1.0
    return values


def curve(map_: Map, mask: Mask, thresholds: Sequence[float]) -> npt.NDArray[np.float64]:
    """(2 T,) SSS of an overlaid map (H, W) at every threshold, soft then hard: `spuriousity` of each, in one pass.

    Pixels are sorted into bins between thresholds; what reaches a threshold is the sum of the bins from there on.
    """
    order = np.argsort(thresholds, kind="stable")
    values = map_.ravel()
    bins = np.zeros(values.shape, dtype=np.uint16)  # narrow: the pass over the pixels is bound by memory
    for k in order:
        bins += values >= _least(thresholds[k])
    places = (2 * bins + mask.ravel()).astype(np.intp)
    shares = []
    for weights in (values, None):
        sums = np.bincount(places, weights, minlength=2 * len(order) + 2).reshape(-1, 2)
        reach = sums[::-1].cumsum(0)[::-1][1:]  # (T, outside and inside) from each threshold on
        total = reach.sum(1)
        usable = (total > 0) & bool(mask.any())
        share = np.full(len(order), np.nan)
        share[order] = np.where(usable, reach[:, 0] / np.where(usable, total, 1), np.nan)
        shares.append(share)
    return np.concatenate(shares)


def _least(threshold: float) -> np.float32:
    """The least float32 that is not below the threshold: comparing with it is comparing with the threshold itself."""
    near = np.float32(threshold)
    return near if float(near) >= threshold else np.nextafter(near, np.float32(np.inf))


def stretch(map_: Map, height: int, width: int) -> Map:
    """Bilinear on cell centres, edges held: what image libraries do, as two small matrix products."""
    if map_.shape == (height, width):
        return map_
    rows, columns = _weights(map_.shape[0], height), _weights(map_.shape[1], width)
    return rows @ np.asarray(map_, dtype=np.float32) @ columns.T


@lru_cache(maxsize=64)
def _weights(old: int, new: int) -> npt.NDArray[np.float32]:
    """(new, old): how much each old cell gives to each new one; rows sum to 1."""
    centre = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    low = np.floor(centre).astype(np.intp)
    share = (centre - low).astype(np.float32)
    weights = np.zeros((new, old), dtype=np.float32)
    weights[np.arange(new), low] = 1 - share
    weights[np.arange(new), np.minimum(low + 1, old - 1)] += share
    return weights


def chances(mask: Mask, ignored: Mask | None = None) -> tuple[float, float]:
    """SSS of a uniform map, and the expected SSS of a blob at a random place.

    Args:
        mask: (H, W), the object; some of its pixels count.
        ignored: (H, W), pixels that count for nothing.

    Returns:
        (uniform, blob), each from 0 to 1.

    Example:
        >>> chances(np.array([[True, False], [False, False]]))
        (0.75, 0.75)
        >>> centre = np.zeros((9, 9), dtype=bool)
        >>> centre[3:6, 3:6] = True
        >>> uniform, blob = chances(centre)
        >>> round(uniform, 3), round(blob, 3)
        (0.889, 0.816)
    """
    counted = np.ones_like(mask) if ignored is None else ~ignored
    inside = mask & counted
    uniform = 1 - np.count_nonzero(inside) / np.count_nonzero(counted)
    covered = blob_cover(mask.shape, int(np.count_nonzero(inside)))
    return float(uniform), float(1 - covered[inside].sum() / covered[counted].sum())


def blob_cover(shape: tuple[int, ...], area: int) -> npt.NDArray[np.float64]:
    """(H, W) how often each pixel lies in a blob of about `area` pixels, over all its places inside the image.

    The blob is a rectangle with the proportions of the image, so that it fits whatever its area.
    """
    share = np.sqrt(area / (shape[0] * shape[1]))
    rows, columns = (_cover(length, int(np.clip(round(share * length), 1, length))) for length in shape)
    return np.outer(rows, columns)


def _cover(length: int, side: int) -> npt.NDArray[np.float64]:
    """(length,) share of the places of an interval of `side` cells, wholly inside, that cover each cell."""
    starts = length - side + 1
    at = np.arange(length)
    return (np.minimum(at, length - side) - np.maximum(at - side + 1, 0) + 1) / starts

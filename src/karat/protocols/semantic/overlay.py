"""Laying a map over its image: stretched to the mask's pixels, scaled, and with the ignored pixels out of the count."""

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
    found = []
    for weights in (values, None):
        sums = np.bincount(places, weights, minlength=2 * len(order) + 2).reshape(-1, 2)
        reach = sums[::-1].cumsum(0)[::-1][1:]  # (T, outside and inside) from each threshold on
        total = reach.sum(1)
        usable = (total > 0) & bool(mask.any())
        share = np.full(len(order), np.nan)
        share[order] = np.where(usable, reach[:, 0] / np.where(usable, total, 1), np.nan)
        found.append(share)
    return np.concatenate(found)


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

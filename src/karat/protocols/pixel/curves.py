"""Deletion and addition of the first D pixels of a map, one by one (pixelrules2024 section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.typing import Keep, Map, Maps, Mask
from karat.metrics.perturbation import order_of
from karat.probe.planted import Planted

Curves = npt.NDArray[np.float64]  # (n, D + 1), 1 where the model still gives the class after k pixels


def curves(known: Planted, places: Sequence[int], maps: Maps) -> tuple[Curves, Curves]:
    """(deletion, addition) of the samples at `places`, whose maps (n, H, W) are given.

    A deleted pixel is the clean one, an added one the perturbed one. Pixels outside the patch are the same in both
    images, so only those of the patch among the first D do anything. Ties are broken at random, by sample.
    """
    requests = []
    for i, found in zip(places, maps, strict=True):
        among = first_in_patch(found, known.mask(i), known.session.rng(i, "pixel/ties"))
        requests += [(i, ~among), (i, among)]
    right = known.right(requests)
    return np.array(right[0::2], dtype=np.float64), np.array(right[1::2], dtype=np.float64)


def first_in_patch(found: Map, mask: Mask, rng: np.random.Generator) -> Keep:
    """(D + 1, D): row k marks the pixels of the patch that are among the first k pixels of the map."""
    size = int(mask.sum())
    rank: npt.NDArray[Any] = np.empty(found.size, dtype=np.intp)
    rank[order_of(found, rng)] = np.arange(found.size)
    inside = rank[np.flatnonzero(mask)]
    return np.asarray(inside[None, :] < np.arange(size + 1)[:, None])

"""Deletion and addition of the first D pixels of a map, one by one (pixelrules2024 section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.shortcut.sample import shortcut_samples
from karat.kernel.typing import Keep, Map, Maps, Mask
from karat.metrics.perturbation import order_of
from karat.probe.session import Session

Curves = npt.NDArray[np.float64]  # (n, D + 1), 1 where the model still gives the class after k pixels
_BATCH = 256


def curves(session: Session, places: Sequence[int], maps: Maps) -> tuple[Curves, Curves]:
    """(deletion, addition) of the samples at `places`, whose maps (n, H, W) are given.

    A deleted pixel is the clean one, an added one the perturbed one. Pixels outside the patch are the same in both
    images, so only those of the patch among the first D do anything. Ties are broken at random, by sample.
    """
    samples = shortcut_samples(session.samples)
    requests = []
    for i, each in zip(places, maps, strict=True):
        first = first_in_patch(each, samples[i].patch, session.rng(i, "pixel/ties"))
        requests += [(i, ~first), (i, first)]
    right = still_right(session, requests)
    return np.array(right[0::2], dtype=np.float64), np.array(right[1::2], dtype=np.float64)


def first_in_patch(values: Map, mask: Mask, rng: np.random.Generator) -> Keep:
    """(D + 1, D): row k marks the pixels of the patch that are among the first k pixels of the map."""
    size = int(mask.sum())
    rank: npt.NDArray[Any] = np.empty(values.size, dtype=np.intp)
    rank[order_of(values, rng)] = np.arange(values.size)
    inside = rank[np.flatnonzero(mask)]
    return np.asarray(inside[None, :] < np.arange(size + 1)[:, None])


def still_right(session: Session, requests: Sequence[tuple[int, Keep]]) -> list[npt.NDArray[np.bool_]]:
    """For coalitions (m, D) of each sample's patch: does the model still give its class? Each is asked for once."""
    samples = shortcut_samples(session.samples)
    right: dict[tuple[int, bytes], bool] = session.memo("pixel/still_right", dict)
    keys = [[(i, row.tobytes()) for row in keep] for i, keep in requests]
    rows = (zip(part, keep, strict=True) for part, (_, keep) in zip(keys, requests, strict=True))
    missing = {key: row for part in rows for key, row in part if key not in right}
    for start in range(0, len(missing), _BATCH):
        part = list(missing)[start : start + _BATCH]
        altered = [samples[key[0]].with_patch(missing[key]) for key in part]
        answers = session.model.answer(altered)
        right.update((key, answer == sample.answer) for key, answer, sample in zip(part, answers, altered, strict=True))
    return [np.array([right[key] for key in part], dtype=np.bool_) for part in keys]

"""`check_dataset`: what must hold for a dataset before rows are keyed by its samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from karat.kernel.registry import label
from karat.kernel.sample import Sample
from karat.testing.law import Law, card_laws, demand, tried


def check_dataset(dataset: Any, n: int = 4) -> None:
    """Raise `Broken` (an AssertionError) that names every law the dataset breaks.

    Args:
        dataset: anything with a card, a length, a revision and `load(start, stop)`.
        n: how many of its samples are read.

    Example:
        >>> from karat.kernel.registry import build
        >>> check_dataset(build("dataset", "grid", {"buckets": ["D1_A_F0_d0.3"], "per_bucket": 2, "cell": 8}))
    """
    demand(label(dataset), dataset_laws(dataset, n))


def dataset_laws(dataset: Any, n: int = 4) -> list[Law]:
    """Every law of a dataset, on its first samples.

    Args:
        dataset, n: as in `check_dataset`.

    Returns:
        One law each, with what was compared and where it broke.

    Example:
        >>> from karat.kernel.registry import build
        >>> laws = dataset_laws(build("dataset", "grid", {"buckets": ["D1_A_F0_d0.3"], "per_bucket": 2, "cell": 8}))
        >>> all(law.holds for law in laws)
        True
    """
    laws = card_laws(dataset, "dataset")
    if not laws[0].holds:
        return laws
    try:
        stop = min(n, len(dataset))
        samples = list(dataset.load(0, stop))
    except Exception as error:  # anything may come out of code under test; it is the finding
        return [*laws, Law("it loads", False, f"{type(error).__name__}: {error}")]
    return [
        *laws,
        tried("it has samples, as many as asked for", lambda: _count(samples, stop)),
        tried("ids are its samples' own", lambda: _ids(samples)),
        tried("images are (H, W, 3) uint8", lambda: _images(samples)),
        tried("a slice gives the same samples as its parts", lambda: _slices(dataset, samples)),
        tried("built again it gives the same, under the same revision", lambda: _again(dataset, samples)),
        tried("regions and phrases lie inside image and text", lambda: _inside(samples)),
        tried("mechanisms use roles that occur", lambda: _mechanisms(samples)),
        tried("meta holds plain values", lambda: _meta(samples)),
    ]


def _count(samples: Sequence[Sample], stop: int) -> str:
    if not stop:
        return "len() is 0"
    return "" if len(samples) == stop else f"load(0, {stop}) gave {len(samples)} samples"


def _ids(samples: Sequence[Sample]) -> str:
    ids = [sample.id for sample in samples]
    if not all(isinstance(name, str) and name for name in ids):
        return f"ids must be texts, not empty; got {ids[:3]}"
    return "" if len(set(ids)) == len(ids) else f"{len(ids) - len(set(ids))} ids occur twice"


def _images(samples: Sequence[Sample]) -> str:
    for sample in samples:
        image = sample.image
        if not (isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8):
            return f"{sample.id}: {getattr(image, 'shape', type(image))} {getattr(image, 'dtype', '')}"
    return ""


def _slices(dataset: Any, samples: Sequence[Sample]) -> str:
    for i, sample in enumerate(samples):
        [alone] = dataset.load(i, i + 1)
        if difference := _unlike(alone, sample):
            return f"load({i}, {i + 1}) and load(0, {len(samples)}): {difference}"
    return ""


def _again(dataset: Any, samples: Sequence[Sample]) -> str:
    other = dataclasses.replace(dataset)
    if other.revision != dataset.revision:
        return f"revision {dataset.revision!r}, then {other.revision!r}"
    for one, again in zip(samples, other.load(0, len(samples)), strict=True):
        if difference := _unlike(again, one):
            return difference
    return ""


def _unlike(one: Sample, other: Sample) -> str:
    for name in ("id", "text", "answer", "phrases", "choices", "meta"):
        if getattr(one, name) != getattr(other, name):
            return f"{name} {getattr(one, name)!r} beside {getattr(other, name)!r}"
    if one.image.tobytes() != other.image.tobytes():
        return f"the image of {one.id} differs"
    if [(r.name, r.role, r.boxes) for r in one.regions] != [(r.name, r.role, r.boxes) for r in other.regions]:
        return f"the regions of {one.id} differ"
    return ""


def _inside(samples: Sequence[Sample]) -> str:
    for sample in samples:
        height, width = sample.size
        for region in sample.regions:
            if region.pixels is not None and region.pixels.shape != sample.size:
                return f"{sample.id}: the mask of {region.name} is {region.pixels.shape}, its image {sample.size}"
            for x, y, w, h in region.boxes:
                if x < 0 or y < 0 or w <= 0 or h <= 0 or x + w > width or y + h > height:
                    return f"{sample.id}: box {(x, y, w, h)} of {region.name} leaves its image of {width} × {height}"
        for phrase in sample.phrases:
            if not 0 <= phrase.span[0] < phrase.span[1] <= len(sample.text or ""):
                return f"{sample.id}: phrase {phrase.span} leaves the text"
    return ""


def _mechanisms(samples: Sequence[Sample]) -> str:
    for name in {name for sample in samples for name in sample.mechanisms}:
        used = [sample.mechanisms[name] for sample in samples if name in sample.mechanisms]
        wanted = {role for uses in used for role in uses.regions}
        there = {region.role for sample in samples for region in sample.regions}
        if wanted and not wanted & there:
            return f"a model that {name!r} uses regions of {sorted(wanted)}; there are {sorted(there)}"
    return ""


def _meta(samples: Sequence[Sample]) -> str:
    for sample in samples:
        for name, value in sample.meta.items():
            if not isinstance(value, str | int | float | bool | None):
                return f"{sample.id}: meta {name} is a {type(value).__name__}: rows hold texts and numbers"
    return ""

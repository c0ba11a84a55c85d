"""Scenes: image, question, words and regions of each sample, rebuilt from the dataset the run's spec names."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from karat.kernel.registry import build, label
from karat.kernel.sample import Region, Sample
from karat.kernel.typing import Box, Mask
from karat.report.evidence import Evidence
from karat.report.page_output import Sink
from karat.results import Run

_SIDE = 448  # pixels a side that a page shows
_MASK_SIDE = 96  # cells a side that a drawn mask keeps
_FLAT = 4096  # drawings have few colours and stay sharp as PNG; photographs do not


class Scenes:
    """Samples of one dataset by their place; `problem` says why there are none."""

    def __init__(self, dataset: Any = None, problem: str = "") -> None:
        self.dataset = dataset
        self.problem = problem

    def load(self, start: int, stop: int) -> dict[str, Sample]:
        if self.dataset is None:
            return {}
        try:
            return {sample.id: sample for sample in self.dataset.load(start, stop)}
        except Exception as error:  # files may be gone, the dataset may be another's code: the page goes on without it
            self.problem = self.problem or f"{type(error).__name__}: {error}"
            return {}


def datasets(evidence: Evidence) -> dict[str, Scenes]:
    """Dataset label → its samples, or the reason why they cannot be shown."""
    scenes_of: dict[str, Scenes] = {}
    for run in evidence.runs:
        for name, scenes in _datasets(run):
            if scenes_of.setdefault(name, scenes).problem and not scenes.problem:
                scenes_of[name] = scenes
    for name in evidence.datasets:
        scenes_of.setdefault(name, Scenes(problem="the run's spec does not name it"))
    return scenes_of


def _datasets(run: Run) -> Iterator[tuple[str, Scenes]]:
    revisions: dict[str, str] = run.manifest.get("datasets", {})
    for number, component in enumerate(run.spec.get("datasets", [])):
        parameters = {key: value for key, value in component.items() if key != "name"}
        try:
            dataset = build("dataset", component["name"], parameters)
            name = label(dataset)
            changed = name in revisions and dataset.revision != revisions[name]
        except Exception as error:  # as above
            # Its label is not known; where it is the only one it must be the manifest's.
            for known in list(revisions)[number : number + 1] if len(revisions) == 1 else ():
                yield known, Scenes(problem=f"{type(error).__name__}: {error}")
            continue
        if changed:
            yield name, Scenes(problem="the dataset has changed since the run, so its pictures may be others")
        else:
            yield name, Scenes(dataset)


def scene(sample: Sample, sink: Sink) -> dict[str, Any]:
    """One sample as the page draws it; places are in pixels of the image."""
    height, width = sample.size
    data, suffix = encode_image(sample.image)
    return {
        "image": sink.picture(data, suffix),
        "size": [width, height],
        "words": [list(span) for span in sample.words],
        "phrases": [[*phrase.span, phrase.role] for phrase in sample.phrases],
        "regions": [_region(region) for region in sample.regions],
        "truth": {name: _truth(sample, name) for name in sample.mechanisms},
        "compass": [_centre(sample, "reference", "anchor"), _centre(sample, "target", "shortcut")],
    }


def _truth(sample: Sample, mechanism: str) -> list[list[int]]:
    """The outline of what a model of that mechanism must use."""
    truth = sample.truth(mechanism)
    return [] if truth is None or truth.visual is None else [list(edge) for edge in outline(truth.visual)]


def encode_image(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> tuple[bytes, str]:
    """(bytes, suffix): PNG for drawings, JPEG for photographs, shrunk to what a page shows."""
    image = Image.fromarray(pixels)
    flat = image.getcolors(_FLAT) is not None
    if max(image.size) > _SIDE:
        scale = _SIDE / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.LANCZOS)
    sink = io.BytesIO()
    if flat:
        image.save(sink, "PNG", compress_level=6)
        return sink.getvalue(), "png"
    image.save(sink, "JPEG", quality=88)
    return sink.getvalue(), "jpg"


def _centre(sample: Sample, *roles: str) -> list[float] | None:
    """Middle (x, y) of the only region that has the first of these roles; None where there is none, or several."""
    for role in roles:
        regions = [region for region in sample.regions if region.role == role]
        if regions:
            ys, xs = np.nonzero(regions[0].mask(*sample.size))
            return [float(xs.mean()) + 0.5, float(ys.mean()) + 0.5] if len(regions) == 1 and len(xs) else None
    return None


def _region(region: Region) -> dict[str, Any]:
    return {
        "name": region.name, "role": region.role, "label": region.label,
        "boxes": [list(box) for box in region.boxes] if region.pixels is None else [],
        "edges": [] if region.pixels is None else [list(edge) for edge in outline(region.pixels)],
    }  # fmt: skip


def outline(mask: Mask, side: int = _MASK_SIDE) -> list[Box]:
    """The border of a mask as strokes (x, y, dx, dy) between cells inside and outside, neighbours joined.

    Masks of more than `side` cells are first thinned to every k-th pixel: they are for looking at.

    >>> outline(np.array([[True]]))
    [(0, 0, 1, 0), (0, 1, 1, 0), (0, 0, 0, 1), (1, 0, 0, 1)]
    """
    step = max(1, -(-max(mask.shape) // side))
    small = mask[::step, ::step]
    across = [(x * step, y * step, n * step, 0) for y, x, n in _edges(small)]
    return across + [(x * step, y * step, 0, n * step) for x, y, n in _edges(small.T)]


def _edges(mask: Mask) -> list[tuple[int, int, int]]:
    """(row, column, length) of stretches where a cell and the one above it differ."""
    padded = np.pad(mask, ((1, 1), (0, 0)))
    changes = np.pad(padded[1:] != padded[:-1], ((0, 0), (1, 1))).astype(np.int8)
    turns = np.diff(changes, axis=1)
    starts, ends = np.argwhere(turns == 1), np.argwhere(turns == -1)  # row by row, so the k-th end is the k-th start's
    lengths = ends[:, 1] - starts[:, 1]
    return [(row, column, n) for (row, column), n in zip(starts.tolist(), lengths.tolist(), strict=True)]

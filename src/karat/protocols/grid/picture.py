"""Figure 4 of the paper: the truth in blue, what a map picks out in orange, and where the two meet in yellow.

The paper has green and red, which one man in twelve cannot tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from karat.drawing import BOTH, OTHER, TRUTH, Canvas
from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.typing import Image as Pixels
from karat.kernel.typing import Map, Mask
from karat.metrics import otsu_iou, relevance_mass
from karat.metrics.arrays import Scratch
from karat.metrics.otsu import otsu_threshold

_GAP, _TITLE = 12, 26
ROLES = ("target", "anchor")


def picked(heatmap: Map, size: tuple[int, int]) -> Mask:
    """(H, W) the part of a map that Otsu's threshold keeps: what the IoU is computed from."""
    [resized] = resize_maps(np.abs(heatmap)[None].astype(np.float64), *size)
    [threshold] = otsu_threshold(resized.reshape(1, -1), Scratch())
    kept: Mask = resized >= threshold
    return kept


def paint(image: Pixels, truth: Mask, kept: Mask) -> Pixels:
    """The image in grey with the truth blue, what the map shows orange, and both yellow (H, W, 3)."""
    grey = image.mean(axis=2, keepdims=True).repeat(3, axis=2)
    painted = 255 - (255 - grey) * 0.45
    for mask, colour in ((truth & ~kept, TRUTH), (kept & ~truth, OTHER), (truth & kept, BOTH)):
        painted[mask] = 0.45 * painted[mask] + 0.55 * np.array(colour)
    return painted.round().astype(np.uint8)


def panels(sample: Sample, attribution: Attribution, roles: tuple[str, ...] = ROLES) -> list[Pixels]:
    """The sample, its truth, the map, and both: four pictures (H, W, 3), as figure 4 has them from left to right."""
    if attribution.visual is None:
        raise BadInput(f"figure 4 needs a map; this explanation of sample {sample.id} has none.")
    truth, kept = sample.mask(*roles), picked(attribution.visual, sample.size)
    nothing = np.zeros_like(truth)
    pictures = [paint(sample.image, a, b) for a, b in ((truth, nothing), (nothing, kept), (truth, kept))]
    return [np.asarray(sample.image), *pictures]


def overlap_picture(
    path: str | Path, sample: Sample, explanations: Mapping[str, Attribution], roles: tuple[str, ...] = ROLES
) -> Path:
    """Write a PNG: a row of panels for each explanation of one sample, with its RMA and IoU."""
    if not explanations:
        raise BadInput("overlap_picture needs at least one explanation: {name: attribution}.")
    rows = {name: panels(sample, one, roles) for name, one in explanations.items()}
    height, width = sample.size
    heads = ["image", "truth", "picked out", "both"]
    sheet = Canvas(_GAP + 4 * (width + _GAP), _TITLE + len(rows) * (height + _TITLE + _GAP))
    sheet.text((_GAP, 19), f"{sample.text or sample.id}  ({sample.answer})", size=14, bold=True)
    truth = sample.mask(*roles)[None]
    for row, (name, pictures) in enumerate(rows.items()):
        top = _TITLE + row * (height + _TITLE + _GAP)
        visual = explanations[name].visual
        assert visual is not None  # `panels` has checked
        maps = resize_maps(visual[None].astype(np.float64), height, width)
        scores = f"RMA {float(relevance_mass(maps, truth)[0]):.2f}, IoU {float(otsu_iou(maps, truth)[0]):.2f}"
        for column, (head, picture) in enumerate(zip(heads, pictures, strict=True)):
            left = _GAP + column * (width + _GAP)
            sheet.text((left, top + 18), (name, head, head, scores)[column])
            sheet.picture((left, top + _TITLE), (width, height), picture)
    target = Path(path)
    target.write_bytes(sheet.png(1))
    return target

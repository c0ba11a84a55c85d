"""Figure 3 of pixelrules2024: one image per model, each explainer's map at pixel zoom around the patch."""

from __future__ import annotations

import numpy as np

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Map
from karat.protocols.pixel.analysis import Scored

MARK = "■"
ABOUT = (
    "Each square is one pixel of the image around the patch, coloured by the map's value there; maps are scaled to at "
    "most 1 over the whole image. Where maps were kept, Samples shows any image like this over the picture, with the "
    "patch framed: choose Zoom. The table has the truth: the Shapley value of every pixel of the patch, row by row."
)


def gallery(scored: Scored) -> list[Finding]:
    """Close-ups of the image whose truth is known best for the size of its values."""
    kept = scored.run.details("hit")
    maps = kept.complete("patch") if kept.arrays else kept
    keys = maps.keys
    findings = []
    for model in (one.label for one in scored.judged):
        truths = scored.truths(model)
        if not len(truths) or not len(maps):
            continue
        values, errors = truths.arrays["shapley"], truths.arrays["standard_error"]
        best = int(np.argmax(values.std(axis=1) / np.maximum(truths.arrays["error"], 1e-6)))
        chosen = truths.keys.iloc[best]
        figures = []
        for one in scored.explainers(model):
            mine = (keys["model"] == model) & (keys["explainer"] == one.label) & (keys["sample"] == chosen["sample"])
            if mine.any() and (one.is_truth or not one.is_control):
                at = int(np.flatnonzero(mine)[0])
                figures.append(_close_up(one.short, maps.arrays["close_up"][at], maps.arrays["patch"][at]))
        rows = tuple((k, float(values[best, k]), float(errors[best, k])) for k in range(values.shape[1]))
        findings.append(
            Finding(
                title=f"Close-ups of image {chosen['sample']}, {model}",
                about=ABOUT,
                sentences=(),
                columns=("pixel", "Shapley value", "standard error"),
                rows=rows,
                section="Figure 3: close-ups",
                figures=tuple(figures),
            )
        )
    return findings


def _close_up(name: str, grid: Map, patch: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Figure:
    """What `protocol` kept of a map around the patch; rows and columns of the patch are marked."""
    grid = grid[~np.isnan(grid).all(axis=1)][:, ~np.isnan(grid).all(axis=0)]  # of another dataset it may be larger
    height, width = grid.shape
    top, left, side = (int(each) for each in patch)

    def named(k: int, start: int) -> str:
        return f"{MARK}{k + 1}" if start <= k < start + side else f"{k + 1}"

    columns = tuple(named(k, left) for k in range(width))
    rows = tuple(Series(named(r, top), columns, tuple(grid[r].tolist())) for r in range(height))
    return Figure(f"Figure 3: {name}", "grid", "column", "row", rows, note=f"{MARK} marks the patch.")

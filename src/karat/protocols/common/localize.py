"""Metrics over maps and masks as columns of outcomes: values where there are any, the reason where there are none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from karat.kernel.attribution import Attribution, Part, resize_maps
from karat.kernel.registry import find
from karat.kernel.row import Outcomes
from karat.kernel.typing import Maps, Masks
from karat.metrics import outcomes


class MapMetric(Protocol):
    """A metric of `karat.metrics` on maps (n, h, w) and masks (n, h, w)."""

    def __call__(self, maps: Any, masks: Any) -> Any: ...
    def problems(self, maps: Any, masks: Any) -> Sequence[Any]: ...


def takes_masks(metric: str) -> bool:
    """Whether a metric, named as in a spec, is called with maps and masks and nothing else."""
    return list(inspect.signature(find("metric", metric).__call__).parameters)[1:] == ["maps", "masks"]


def score_maps(metric: MapMetric, maps: Maps, masks: Masks) -> Outcomes:
    """One outcome per map. Metrics answer NaN where they have no answer; only then are the reasons looked up."""
    values = np.asarray(metric(maps, masks), dtype=np.float64)
    reasons: list[Any] = [None] * len(values)
    silent = np.flatnonzero(~np.isfinite(values))
    if len(silent):
        for i, problem in zip(silent.tolist(), metric.problems(maps[silent], masks[silent]), strict=True):
            reasons[i] = problem
    return outcomes(values, reasons)


@dataclass(frozen=True, eq=False)
class Pairs:
    """One part of every attribution beside its truth, stacked by size once and read by any number of metrics.

    A part that the method does not define, and a truth that the sample does not know, have no answer by definition.
    """

    n: int
    absent: dict[int, str] = field(default_factory=dict)
    groups: list[tuple[list[int], Maps, Masks]] = field(default_factory=list)

    def score(self, metric: MapMetric) -> Outcomes:
        values = np.full(self.n, np.nan)
        failures: dict[int, str] = {}
        absent = dict(self.absent)
        for places, maps, masks in self.groups:
            part = score_maps(metric, maps, masks)
            values[places] = part.values
            failures.update({places[k]: reason for k, reason in part.failures.items()})
            absent.update({places[k]: reason for k, reason in part.not_applicable.items()})
        return Outcomes(values, failures, absent)


def pair(attributions: Sequence[Attribution], part: Part, truth: Callable[[int], np.ndarray[Any, Any] | None]) -> Pairs:
    """Pair a part with `truth(i)`: a mask (H, W) for maps, (words,) for words, or None. Maps are resized to masks."""
    pairs = Pairs(len(attributions))
    sizes: dict[tuple[Any, ...], list[tuple[int, Any, Any]]] = {}
    for i, attribution in enumerate(attributions):
        values, mask = getattr(attribution, part), truth(i)
        if values is None:
            pairs.absent[i] = f"the method defines no {'map' if part == 'visual' else part}"
        elif mask is None:
            pairs.absent[i] = "the sample has no truth for this"
        else:
            values, mask = (values, coarsest(mask, *values.shape)) if part == "visual" else (values[None], mask[None])
            sizes.setdefault((values.shape, mask.shape), []).append((i, values, mask))
    for (_, size), members in sizes.items():
        places, maps, masks = zip(*members, strict=True)
        pairs.groups.append((list(places), resize_maps(np.stack(maps), *size), np.stack(masks)))
    return pairs


def coarsest(mask: np.ndarray[Any, Any], h: int, w: int) -> np.ndarray[Any, Any]:
    """The mask on the map's own (h, w) cells where that loses nothing, i.e. where it cuts no cell; else as it is.

    Shares of mass and overlaps of area are the same on both, and a 12 × 12 map of a 384-pixel image is read a thousand
    times faster.
    """
    height, width = mask.shape
    if height % h or width % w or (h, w) == (height, width):
        return mask
    cells = mask.reshape(h, height // h, w, width // w)
    corner = cells[:, 0, :, 0]
    return corner if (cells == corner[:, None, :, None]).all() else mask

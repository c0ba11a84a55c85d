"""A metric over maps and masks as columns of outcomes: values where there are any, the reason where there are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from assay.kernel.attribution import Attribution, Part, resize_maps
from assay.kernel.row import Failure, Outcomes
from assay.kernel.typing import Maps, Masks


class MapMetric(Protocol):
    """A metric of `assay.metrics` on maps (n, h, w) and masks (n, h, w)."""

    def __call__(self, maps: Any, masks: Any) -> Any: ...
    def problems(self, maps: Any, masks: Any) -> Sequence[Any]: ...


def score_maps(metric: MapMetric, maps: Maps, masks: Masks) -> Outcomes:
    """One outcome per map. Metrics answer NaN where they have no answer; only then are the reasons looked up."""
    values = np.asarray(metric(maps, masks), dtype=np.float64)
    silent = np.flatnonzero(~np.isfinite(values))
    failures: dict[int, str] = {}
    absent: dict[int, str] = {}
    if len(silent):
        values[silent] = np.nan
        for i, problem in zip(silent.tolist(), metric.problems(maps[silent], masks[silent]), strict=True):
            if problem is None or isinstance(problem, Failure):
                failures[i] = problem.reason if problem else "score is not finite"
            else:
                absent[i] = problem.reason
    return Outcomes(values, failures, absent)


def score_part(
    metric: MapMetric,
    attributions: Sequence[Attribution],
    part: Part,
    truth: Callable[[int], np.ndarray[Any, Any] | None],
) -> Outcomes:
    """Score one part of every attribution against `truth(i)`: a mask (H, W) for maps, (words,) for words, or None.

    Samples of one size are scored together. A part that the method does not define, and a truth that the sample does
    not know, have no answer by definition; a broken map is a Failure.
    """
    outcomes = np.full(len(attributions), np.nan)
    failures: dict[int, str] = {}
    absent: dict[int, str] = {}
    groups: dict[tuple[Any, ...], list[tuple[int, Any, Any]]] = {}
    for i, attribution in enumerate(attributions):
        values, mask = getattr(attribution, part), truth(i)
        if values is None:
            absent[i] = f"the method defines no {'map' if part == 'visual' else part}"
        elif mask is None:
            absent[i] = "the sample has no truth for this"
        else:
            values, mask = (values, mask) if part == "visual" else (values[None, :], np.asarray(mask)[None, :])
            groups.setdefault((values.shape, mask.shape), []).append((i, values, mask))
    for (_, size), members in groups.items():
        maps = resize_maps(np.stack([values for _, values, _ in members]), *size)
        part_outcomes = score_maps(metric, maps, np.stack([mask for _, _, mask in members]))
        places = [i for i, _, _ in members]
        outcomes[places] = part_outcomes.values
        failures.update({places[k]: reason for k, reason in part_outcomes.failures.items()})
        absent.update({places[k]: reason for k, reason in part_outcomes.not_applicable.items()})
    return Outcomes(outcomes, failures, absent)

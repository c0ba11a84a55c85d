"""`check_metric`: what must hold for a metric on arrays before its numbers are averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from karat.kernel.registry import label
from karat.metrics import outcomes
from karat.testing.law import Law, card_laws, demand, tried, unlike

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """Maps (n, h, w) and what the metric compares them with, batch first: `truths` are its further arguments.

    `good` and `bad` are maps of which it is known that the first explain better than the second, sample by sample.
    """

    maps: _Array
    truths: tuple[_Array, ...]
    good: _Array
    bad: _Array


def masks_case(n: int = 5, side: int = 12, seed: int = 0) -> Case:
    """Noise against masks of one box each; good is the mask itself, bad everything else."""
    rng = np.random.default_rng(seed)
    masks = np.zeros((n, side, side), dtype=np.bool_)
    for i, (y, x) in enumerate(rng.integers(0, side - 4, (n, 2)).tolist()):
        masks[i, y : y + 4, x : x + 3] = True
    return Case(rng.random((n, side, side)), (masks,), masks.astype(np.float64), (~masks).astype(np.float64))


def check_metric(metric: Any, case: Case | None = None) -> None:
    """Raise `Broken` (an AssertionError) that names every law the metric breaks. Arguments as `metric_laws`.

    Example:
        >>> from karat.kernel.registry import registered
        >>> check_metric(registered("metric")["localization/relevance_mass"]())
    """
    demand(label(metric), metric_laws(metric, case))


def metric_laws(metric: Any, case: Case | None = None) -> list[Law]:
    """Every law of a metric `metric(maps, *truths) -> (n,)` with `metric.problems(maps, *truths)`.

    Args:
        metric: a registered metric, or one of your own.
        case: for metrics that compare maps with something other than masks (default: `masks_case()`).

    Returns:
        One law each, with what was compared and where it broke.

    Example:
        >>> from karat.metrics.localization import RelevanceMass
        >>> all(law.holds for law in metric_laws(RelevanceMass()))
        True
    """
    tested = case or masks_case()
    laws = card_laws(metric, "metric")
    if not laws[0].holds:
        return laws
    return [
        *laws,
        tried("one value per sample", lambda: _shape(metric, tested)),
        tried("a batch is its samples alone", lambda: _alone(metric, tested)),
        tried("the order of a batch does not matter", lambda: _order(metric, tested)),
        tried("asked twice it says the same", lambda: unlike(_call(metric, tested), _call(metric, tested), 0.0)),
        tried("it changes none of its arguments", lambda: _changes_nothing(metric, tested)),
        tried("values lie in the range of its card", lambda: _in_range(metric, tested)),
        tried("better is where its card says", lambda: _direction(metric, tested)),
        tried("a broken map has no value, a reason, and no effect on its neighbours", lambda: _broken(metric, tested)),
        tried("an all-zero map has a value or a reason", lambda: _zero(metric, tested)),
    ]


def _call(metric: Any, case: Case, maps: _Array | None = None) -> _Array:
    return np.asarray(metric(case.maps if maps is None else maps, *case.truths), dtype=np.float64)


def _rows(case: Case, places: Any) -> Case:
    truths = tuple(truth[places] for truth in case.truths)
    return Case(case.maps[places], truths, case.good[places], case.bad[places])


def _shape(metric: Any, case: Case) -> str:
    values = _call(metric, case)
    return "" if values.shape == (len(case.maps),) else f"shape {values.shape} for {len(case.maps)} samples"


def _alone(metric: Any, case: Case) -> str:
    singles = [_call(metric, _rows(case, slice(i, i + 1)))[0] for i in range(len(case.maps))]
    return unlike(singles, _call(metric, case), 1e-9)


def _order(metric: Any, case: Case) -> str:
    return unlike(_call(metric, _rows(case, slice(None, None, -1)))[::-1], _call(metric, case), 1e-9)


def _changes_nothing(metric: Any, case: Case) -> str:
    before = [array.tobytes() for array in (case.maps, *case.truths)]
    _call(metric, case)
    same = [array.tobytes() == old for array, old in zip((case.maps, *case.truths), before, strict=True)]
    return "" if all(same) else f"argument {same.index(False)} was changed"


def _in_range(metric: Any, case: Case) -> str:
    if metric.card.range is None:
        return ""
    low, high = metric.card.range
    for what, maps in (("noise", case.maps), ("good maps", case.good), ("bad maps", case.bad)):
        values = _call(metric, case, maps)
        off = values[(values < low - 1e-9) | (values > high + 1e-9)]
        if len(off):
            return f"{off[0]:.6g} for {what} lies outside of {metric.card.range}"
    return ""


def _direction(metric: Any, case: Case) -> str:
    if metric.card.direction == "none":
        return ""
    good, bad = _call(metric, case, case.good), _call(metric, case, case.bad)
    gain = (good - bad) * (1 if metric.card.direction == "higher" else -1)
    if (gain > 0).all():
        return ""
    i = int((~(gain > 0)).argmax())
    return f"direction {metric.card.direction!r}, but sample {i} scores {good[i]:.4g} for good and {bad[i]:.4g} for bad"


def _broken(metric: Any, case: Case) -> str:
    maps = np.array(case.maps, dtype=np.float64)
    maps[1, 0, 0] = np.nan
    values = _call(metric, case, maps)
    if np.isfinite(values[1]):
        return f"a map with a NaN scores {values[1]:.4g}: it must be NaN"
    if difference := unlike(np.delete(values, 1), np.delete(_call(metric, case), 1), 1e-9):
        return f"neighbours of a broken map changed: {difference}"
    return _reason(metric, case, maps, 1)


def _zero(metric: Any, case: Case) -> str:
    maps = np.array(case.maps, dtype=np.float64)
    maps[0] = 0.0
    return "" if np.isfinite(_call(metric, case, maps)[0]) else _reason(metric, case, maps, 0)


def _reason(metric: Any, case: Case, maps: _Array, i: int) -> str:
    reasons = list(metric.problems(maps, *case.truths))
    if len(reasons) != len(maps) or reasons[i] is None:
        return f"problems() must give one reason or None per sample, and a reason for sample {i}; got {reasons}"
    outcomes(_call(metric, case, maps), reasons)
    return ""

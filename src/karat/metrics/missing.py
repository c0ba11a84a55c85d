"""Missing is a value: why a sample has no score. Metrics answer NaN there; the reason is said here, one per sample.

A broken map is the explainer's `Failure`; a truth that has no answer by definition is `NotApplicable`. A flat map is
neither: every metric here has a value for it (that of chance), and `control/uniform` relies on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from karat.kernel.row import Failure, NotApplicable, Outcomes
from karat.metrics.arrays import as_maps, flatten, to_numpy

Reasons = list[str | None]
Problem = Failure | NotApplicable | None


def map_problem(maps: Any, what: str = "map") -> Reasons:
    """The reason why a map cannot be scored: it has NaN or inf, or is all zero.

    Args:
        maps: (n, h, w), NumPy or torch.
        what: what the reasons call it.

    Returns:
        n reasons, None for a map that can be scored.

    Example:
        >>> map_problem(np.array([[[0.0, 0.0]], [[1.0, 0.0]], [[1.0, np.nan]]]))
        ['map is all zero', None, 'map has NaN or inf']
    """
    values = flatten(to_numpy(as_maps(maps, f"{what}s")))
    low, high = values.min(-1), values.max(-1)
    finite = np.isfinite(low) & np.isfinite(high)
    zero = (low == 0) & (high == 0)
    return [
        None if fine else f"{what} is all zero" if empty else f"{what} has NaN or inf"
        for fine, empty in zip(finite & ~zero, zero, strict=True)
    ]


def mask_problem(masks: Any, whole: bool = False) -> Reasons:
    """The reason why a mask asks nothing: it is empty, or covers the whole map.

    Args:
        masks: (n, h, w), NumPy or torch; what is not 0 is inside.
        whole: whether a mask over the whole map is a problem too.

    Returns:
        n reasons, None for a mask that asks something.

    Example:
        >>> mask_problem(np.array([[[0, 0]], [[1, 0]], [[1, 1]]]), whole=True)
        ['truth mask is empty', None, 'truth mask covers the whole map']
    """
    inside = flatten(to_numpy(as_maps(masks, "masks"))) != 0
    some, every = inside.any(-1), inside.all(-1)
    return [
        "truth mask is empty" if not one else "truth mask covers the whole map" if whole and full else None
        for one, full in zip(some, every, strict=True)
    ]


def problems(failures: Reasons, not_applicable: Reasons) -> list[Problem]:
    """Reasons of both kinds as problems. Where both hold, there was nothing to answer: NotApplicable wins.

    Args:
        failures: n reasons why the explainer failed, or None.
        not_applicable: n reasons why there is no answer by definition, or None.

    Returns:
        n problems, None where there is none.

    Example:
        >>> problems(["map has NaN or inf", None], [None, "truth mask is empty"])
        [Failure(reason='map has NaN or inf'), NotApplicable(reason='truth mask is empty')]
    """
    return [
        NotApplicable(no_answer) if no_answer else Failure(failure) if failure else None
        for failure, no_answer in zip(failures, not_applicable, strict=True)
    ]


def first(*reasons: Reasons) -> Reasons:
    """Per sample the first reason that holds."""
    return [next((reason for reason in sample if reason), None) for sample in zip(*reasons, strict=True)]


def outcomes(values: Any, problems: Sequence[Problem]) -> Outcomes:
    """A metric's values and its problems as one column of a result. A NaN without a reason is a Failure too.

    Args:
        values: (n,), NumPy or torch.
        problems: n, None where there is a value.

    Returns:
        `Outcomes` of the n samples.

    Example:
        >>> outcomes(np.array([0.5, np.nan]), [None, NotApplicable("no truth")])[1]
        NotApplicable(reason='no truth')
    """
    column = np.array(to_numpy(values), dtype=np.float64)
    failures = {i: problem.reason for i, problem in enumerate(problems) if isinstance(problem, Failure)}
    absent = {i: problem.reason for i, problem in enumerate(problems) if isinstance(problem, NotApplicable)}
    for i in np.flatnonzero(~np.isfinite(column)).tolist():
        if i not in failures and i not in absent:
            failures[i] = "score is not finite"
    column[[*failures, *absent]] = np.nan
    return Outcomes(column, failures, absent)

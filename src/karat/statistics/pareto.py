"""The explainers for which no other is both cheaper and more faithful (fsyn2026 Fig. 13)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from karat.kernel.card import Direction
from karat.kernel.errors import BadInput


def pareto(frame: pd.DataFrame, cost: str, score: str, direction: Direction = "higher") -> pd.DataFrame:
    """The frame ordered by cost, with `frontier` (bool) and `dominated_by` (index of one that is no worse on both
    and better on one; the best scored of them; None on the frontier or where a value is missing).

    Lower cost is better, `direction` says which score is. Equal points share the frontier. Rows with a missing cost
    or score come last and are never on it.

    Args:
        frame: one row per explainer.
        cost: the column of costs.
        score: the column of scores.
        direction: which scores are better, "higher" or "lower".

    Returns:
        The frame, ordered, with two more columns.

    Example:
        >>> frame = pd.DataFrame({"passes": [1, 50, 60], "score": [0.4, 0.8, 0.7]}, index=["cam", "rise", "lime"])
        >>> pareto(frame, "passes", "score")["frontier"].to_dict()
        {'cam': True, 'rise': True, 'lime': False}
    """
    if direction == "none":
        raise BadInput(f"pareto: {score!r} has no better direction.")
    for name in (cost, score):
        if name not in frame.columns:
            raise BadInput(f"pareto: no column {name!r}; the frame has {', '.join(map(repr, frame.columns))}.")
    costs = frame[cost].to_numpy(dtype=np.float64)
    gains = frame[score].to_numpy(dtype=np.float64) * (1.0 if direction == "higher" else -1.0)
    known = ~(np.isnan(costs) | np.isnan(gains))
    beaten_by: list[object] = []
    for i in range(len(frame)):
        no_worse = known & (costs <= costs[i]) & (gains >= gains[i])
        better = no_worse & ((costs < costs[i]) | (gains > gains[i]))
        beaten_by.append(frame.index[int(np.where(better, gains, -np.inf).argmax())] if better.any() else None)
    beaten = np.array([name is not None for name in beaten_by], dtype=bool)
    out = frame.assign(frontier=known & ~beaten)
    out["dominated_by"] = pd.Series(beaten_by, index=frame.index, dtype=object)
    return out.iloc[np.lexsort((-np.where(known, gains, -np.inf), np.where(known, costs, np.inf)))]

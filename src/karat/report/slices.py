"""Slices: the same means within each bucket, mode, model... and how they differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.report.encode import number
from karat.report.evidence import Evidence
from karat.report.leaderboards import ALL, Scores, boards_of, scores_of

_MOST = 40  # distinct values a table can show; keys with more (an index, say) are not slices
Codes = npt.NDArray[np.int32]


def slices(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """One table per metric and key: means, intervals and counts as value × explainer.

    Models that are known to reason differently have tables of their own.
    """
    columns = _columns(evidence)
    for metric in evidence.metrics:
        scores = scores_of(evidence, metric)
        models = list(scores.rows.models)
        scopes = models if evidence.reasons_differ(models) else [ALL]
        if 2 <= len(models) <= _MOST:
            yield from _by_model(evidence, scores)
        for key, (values, codes) in columns.items():
            mine = codes[scores.samples]
            present = [k for k in np.unique(mine).tolist() if k >= 0]
            if 2 <= len(present) <= _MOST:
                yield from _tables(evidence, scores, key, [values[k] for k in present], present, mine, scopes)


def _columns(evidence: Evidence) -> dict[str, tuple[list[Any], Codes]]:
    """What samples can be sliced by: distinct values, and the number of each sample's in the page's order."""
    found: dict[str, tuple[list[Any], Codes]] = {}
    if len(evidence.datasets) > 1:
        found["dataset"] = list(evidence.datasets), evidence.dataset
    for name, meta in evidence.rows.meta.items():
        values, codes = meta.column(len(evidence.order))
        found[name] = values, codes[evidence.order]
    return found


def _by_model(evidence: Evidence, scores: Scores) -> Iterator[dict[str, Any]]:
    every = np.ones(len(scores.samples), dtype=np.bool_)
    yield _table(scores, "model", ALL, list(scores.rows.models), {
        board.model: board for board in boards_of(evidence, scores, scores.rows.models, every)
    })  # fmt: skip


def _tables(
    evidence: Evidence, scores: Scores, key: str, values: list[Any], present: list[int], mine: Codes, scopes: list[str]
) -> Iterator[dict[str, Any]]:
    order = _ordered(values)
    found: dict[str, dict[Any, Any]] = {model: {} for model in scopes}
    for value, code in zip(values, present, strict=True):
        for board in boards_of(evidence, scores, scopes, mine == code):
            found[board.model][value] = board
    for model in scopes:
        if found[model]:
            present = [value for value in order if value in found[model]]
            yield _table(scores, key, model, present, found[model])


def _table(scores: Scores, key: str, model: str, values: list[Any], boards: dict[Any, Any]) -> dict[str, Any]:
    explainers = sorted({name for value in values for name in boards[value].explainers})
    shape = (len(values), len(explainers))
    mean, low, high, n = (np.full(shape, np.nan) for _ in range(4))
    samples = []
    for i, value in enumerate(values):
        board = boards[value]
        columns = [explainers.index(name) for name in board.explainers]
        mean[i, columns] = board.spread.mean
        low[i, columns], high[i, columns] = board.spread.interval()
        n[i, columns] = [tally.scored for tally in board.tally]
        samples.append(board.spread.samples)
    return {
        "protocol": scores.metric.protocol, "metric": scores.metric.name, "key": key, "model": model,
        "values": [value_text(value) for value in values], "numeric": all(_is_number(value) for value in values),
        "samples": samples, "explainers": explainers,
        "mean": _rows(mean), "low": _rows(low), "high": _rows(high),
        "scored": [[0 if np.isnan(v) else int(v) for v in row] for row in n],
    }  # fmt: skip


def _rows(grid: np.ndarray[Any, Any]) -> list[list[float | None]]:
    return [[number(value, 5) for value in row] for row in grid]


def value_text(value: Any) -> str:
    """A meta value as people write it: 3, not 3.0; yes, not True."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def _ordered(values: list[Any]) -> list[Any]:
    return sorted(values) if all(_is_number(value) for value in values) else sorted(values, key=value_text)

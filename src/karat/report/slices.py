"""Slices: the same means within each bucket, mode, model... and how they differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from karat.report.encode import number
from karat.report.evidence import Evidence, Metric
from karat.report.leaderboards import ALL, board, narrow

_MOST = 40  # distinct values a table can show; keys with more (an index, say) are not slices


def slice_keys(frame: pd.DataFrame) -> list[str]:
    """Columns to slice by: model, dataset and every meta key with 2 to 40 values, as the table calls them."""
    keys = ["model", "dataset", *(name for name in frame.columns if name.startswith("meta."))]
    return [key for key in keys if 2 <= frame[key].nunique() <= _MOST]


def slices(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """One table per metric and key: means, intervals and counts as value × explainer.

    Models that are known to reason differently have tables of their own.
    """
    for protocol in evidence.protocols:
        of_protocol = evidence.scores[evidence.scores["protocol"] == protocol]
        keys = slice_keys(of_protocol)
        models = sorted(of_protocol["model"].unique())
        scopes = models if evidence.reasons_differ(models) else [ALL]
        for metric in evidence.metrics_of(protocol):
            frame = narrow(of_protocol[of_protocol["metric"] == metric.name], keys)
            for key in keys:
                for model in [ALL] if key == "model" else scopes:
                    part = frame if model == ALL else frame[frame["model"] == model]
                    if part[key].notna().any():
                        yield _table(metric, part, key, model)


def _table(metric: Metric, frame: pd.DataFrame, key: str, model: str) -> dict[str, Any]:
    values = _ordered(frame[key].dropna().unique().tolist())
    explainers = sorted(frame["explainer"].unique())
    shape = (len(values), len(explainers))
    mean, low, high, n = (np.full(shape, np.nan) for _ in range(4))
    samples = []
    for i, value in enumerate(values):
        part = board(metric, frame[frame[key] == value])
        columns = [explainers.index(name) for name in part.explainers]
        mean[i, columns] = part.spread.mean
        low[i, columns], high[i, columns] = part.spread.interval()
        n[i, columns] = [tally.scored for tally in part.tally]
        samples.append(part.spread.samples)
    return {
        "protocol": metric.protocol, "metric": metric.name, "key": key.removeprefix("meta."), "model": model,
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

"""Kept maps and details, item by item: bytes that a canvas colours, curves, and how far the maps disagree."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from scipy.stats import rankdata

from karat.report.encode import number
from karat.report.evidence import Evidence, Shard, is_control
from karat.report.page_output import Sink

ItemKey = tuple[str, str, str, str]  # protocol, model, dataset, sample
Kept = dict[str, dict[str, Any]]  # explainer → {"visual": (h, w), "words": ..., "details": {metric: {name: (k,)}}}
_PART = 300_000  # bytes of maps a chunk holds, about
_LONGEST = 400  # numbers of a curve that a page draws
_COMMON = 16  # cells a side on which maps of different explainers are compared


def write_maps(
    evidence: Evidence, items: Mapping[ItemKey, int], explainers: Mapping[str, int], sink: Sink
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Write `maps-<k>` chunks. Returns (items,) the chunk of each, -1 where nothing was kept, and its disagreement."""
    draws = {(metric.protocol, metric.name): [name for name, _ in metric.draws] for metric in evidence.metrics}
    metrics = {
        (metric.protocol, metric.name): k
        for k, metric in enumerate(evidence.metrics)
        if metric.draws  # other details are numbers for their protocol
    }
    parts = np.full(len(items), -1, dtype=np.int32)
    disagreement = np.full(len(items), np.nan, dtype=np.float32)
    chunk: dict[int, dict[int, Any]] = {}
    size = written = 0
    for key, kept in by_item(evidence):
        item = items.get(key)
        if item is None:
            continue
        parts[item] = written
        disagreement[item] = disagree([k["visual"] for e, k in kept.items() if "visual" in k and not is_control(e)])
        numbers = {name: k for (protocol, name), k in metrics.items() if protocol == key[0]}
        named = {name: draws[key[0], name] for name in numbers}
        chunk[item] = {
            explainers[name]: _drawn(parts, numbers, named) for name, parts in kept.items() if name in explainers
        }
        size += sum(_size(drawn) for drawn in chunk[item].values())
        if size > _PART:
            sink.data(f"maps-{written}", chunk)
            chunk, size, written = {}, 0, written + 1
    if chunk:
        sink.data(f"maps-{written}", chunk)
    return parts, disagreement


def by_item(evidence: Evidence) -> Iterator[tuple[ItemKey, Kept]]:
    """All maps of one sample together: an extended run holds the explainers of one job in several shards."""
    done: set[str] = set()  # a cell that several runs hold is shown once
    for _, group in groupby(sorted(evidence.shards, key=_job), key=_job):
        found: dict[ItemKey, Kept] = {}
        for shard in group:
            maps, details = shard.view.maps(), shard.view.details()
            for cell in shard.view.cells:
                if cell["id"] in done:
                    continue
                done.add(cell["id"])
                protocol, model, dataset, explainer = shard.place(cell)
                for position, parts in sorted(maps.get(cell["id"], {}).items(), key=lambda kept: kept[0]):
                    key = (protocol, model, dataset, shard.view.samples[position])
                    found.setdefault(key, {})[explainer] = parts
                for metric, arrays in details.get(cell["id"], {}).items():
                    for name, values in arrays.items():
                        for sample, value in zip(shard.view.samples, values, strict=True):
                            if isinstance(value, np.ndarray) and value.ndim == 1 and np.isfinite(value).any():
                                mine = found.setdefault((protocol, model, dataset, sample), {}).setdefault(
                                    explainer, {}
                                )
                                mine.setdefault("details", {}).setdefault(metric, {})[name] = value
        yield from sorted(found.items(), key=lambda item: item[0][:3])  # stable: samples stay in the dataset's order


def _job(shard: Shard) -> tuple[Any, ...]:
    cell = shard.view.cells[0]
    protocol, model, dataset, _ = shard.place(cell)
    return protocol, model, dataset, *cell["place"][4:]


def disagree(maps: list[np.ndarray[Any, Any]]) -> float:
    """1 - mean pairwise Spearman correlation of the maps, cell by cell on a common grid; NaN for fewer than two."""
    common = []
    for values in maps:
        rows, columns = (((np.arange(_COMMON) + 0.5) * n / _COMMON).astype(np.intp) for n in values.shape)
        cells = values[np.ix_(rows, columns)].astype(np.float64).ravel()
        if np.isfinite(cells).all() and cells.min() < cells.max():
            common.append(cells)
    if len(common) < 2:
        return float("nan")
    correlations = np.corrcoef(rankdata(np.array(common), axis=1))
    return float(1 - correlations[np.triu_indices(len(common), 1)].mean())


def _drawn(parts: dict[str, Any], metrics: Mapping[str, int], draws: Mapping[str, list[str]]) -> dict[str, Any]:
    """A map as bytes: 0..255 for 0..1, or 0..254 for -1..1 where it has negative values; words, details as numbers."""
    drawn: dict[str, Any] = {}
    if "visual" in parts:
        values = np.nan_to_num(parts["visual"].astype(np.float32), nan=0.0, posinf=1.0, neginf=-1.0)
        signed = bool((values < 0).any())
        levels = np.clip(np.rint(values * 127 + 127 if signed else values * 255), 0, 255).astype(np.uint8)
        drawn["map"] = [*values.shape, int(signed), base64.b64encode(levels.tobytes()).decode()]
    if "words" in parts:
        drawn["words"] = [round(float(v), 3) for v in np.nan_to_num(parts["words"].astype(np.float32))]
    if "scalar" in parts:
        drawn["scalar"] = number(float(parts["scalar"][0]), 4)
    details = {
        metrics[metric]: [[number(float(v), 4) for v in arrays[name]] for name in draws[metric]]
        for metric, arrays in parts.get("details", {}).items()
        if metric in metrics and all(name in arrays and len(arrays[name]) <= _LONGEST for name in draws[metric])
    }
    return {**drawn, "details": details} if details else drawn


def _size(drawn: dict[str, Any]) -> int:
    """About how many bytes of a chunk."""
    return (len(drawn["map"][3]) if "map" in drawn else 0) + sum(
        7 * len(curve) for curves in drawn.get("details", {}).values() for curve in curves
    )

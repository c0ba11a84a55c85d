"""Kept maps and details, item by item: bytes that a canvas colours, curves, and how far the maps disagree."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from karat.report.encode import number
from karat.report.evidence import Evidence, Shard
from karat.report.page_output import Sink

ItemKey = tuple[str, str, str, str]  # protocol, model, dataset, sample
Kept = dict[str, dict[str, Any]]  # explainer → {"visual": (h, w), "words": ..., "details": {metric: {name: (k,)}}}
_BLOCK = 8  # samples of a job whose maps are in one chunk
_LONGEST = 400  # numbers of a curve that a page draws
_COMMON = 16  # cells a side on which maps of different explainers are compared


@dataclass
class Written:
    """Chunks of an earlier page of the same runs, and what was learnt from them: what is not new is not read again."""

    folder: Path | None = None
    scenes: dict[str, list[tuple[str | None, str | None]]] = field(default_factory=dict)  # truth, question
    maps: dict[str, dict[int, float]] = field(default_factory=dict)  # position → disagreement


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the maps of items are: chunk and place in it (-1: nowhere), and how far they disagree."""

    chunks: list[str]
    chunk: np.ndarray[Any, np.dtype[np.int32]]
    place: np.ndarray[Any, np.dtype[np.int32]]
    disagreement: np.ndarray[Any, np.dtype[np.float32]]


def write_maps(
    evidence: Evidence, items: Mapping[ItemKey, int], chosen: Collection[tuple[str, str]] | None, sink: Sink,
    written: Written,
) -> Placed:  # fmt: skip
    """Write the maps of the chosen (dataset, sample)s, all if None: eight samples of a job to a chunk."""
    draws = {(metric.protocol, metric.name): [name for name, _ in metric.draws] for metric in evidence.metrics}
    nowhere = np.full(len(items), -1, dtype=np.int32)
    placed = Placed([], nowhere, nowhere.copy(), np.full(len(items), np.nan, dtype=np.float32))
    for job, group in groupby(sorted(evidence.shards, key=_job), key=_job):
        shards = [shard for shard in group if shard.view.attributions]
        if not shards:
            continue
        samples = max((shard.view.samples for shard in shards), key=len)
        wanted = [p for p, name in enumerate(samples) if chosen is None or (job[2], name) in chosen]
        files = "\n".join(dict.fromkeys(shard.view.attributions for shard in shards))
        names = {b: f"maps-{_hash(f'{job[0]} {b} {files}')}" for b in dict.fromkeys(p // _BLOCK for p in wanted)}
        missing = {b for b, name in names.items() if not (name in written.maps and sink.keep(name, written.folder))}
        if missing:
            blocks = _blocks(evidence, shards, missing)
            for b in missing:
                block = blocks.get(b, {})
                written.maps[names[b]] = _disagreements(evidence, block)
                protocol = {name: parts for (of, name), parts in draws.items() if of == job[0] and parts}
                sink.data(names[b], {
                    position: {explainer: _drawn(parts, protocol) for explainer, parts in kept.items()}
                    for position, kept in block.items()
                })  # fmt: skip
        for name in names.values():
            placed.chunks.append(name)
            for position, value in written.maps[name].items():
                item = items.get((job[0], job[1], job[2], samples[position]))
                if item is not None:
                    placed.chunk[item], placed.place[item] = len(placed.chunks) - 1, position
                    placed.disagreement[item] = value
    return placed


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def by_item(evidence: Evidence) -> Iterator[tuple[ItemKey, Kept]]:
    """All maps of one sample together: an extended run holds the explainers of one job in several shards."""
    for job, group in groupby(sorted(evidence.shards, key=_job), key=_job):
        shards = list(group)
        samples = max((shard.view.samples for shard in shards), key=len)
        for block in _blocks(evidence, shards, None).values():
            for position, kept in sorted(block.items()):
                yield (job[0], job[1], job[2], samples[position]), kept


def _blocks(evidence: Evidence, shards: list[Shard], wanted: set[int] | None) -> dict[int, dict[int, Kept]]:
    """Block → position → what was kept of it, explainer by explainer; a cell that several runs hold counts once."""
    by_block: dict[int, dict[int, Kept]] = {}
    done: set[str] = set()

    def kept(position: int, explainer: str) -> dict[str, Any]:
        return by_block.setdefault(position // _BLOCK, {}).setdefault(position, {}).setdefault(explainer, {})

    for shard in shards:
        maps, details = shard.view.kept()
        for cell in shard.view.cells:
            if cell["id"] in done or cell["id"] not in evidence.rows.cells:
                continue
            done.add(cell["id"])
            explainer = shard.place(cell)[3]
            for position, parts in sorted(maps.get(cell["id"], {}).items(), key=lambda one: one[0]):
                if wanted is None or position // _BLOCK in wanted:
                    kept(position, explainer).update(parts)
            for metric, arrays in details.get(cell["id"], {}).items():
                for name, values in arrays.items():
                    for position, value in enumerate(values):
                        if wanted is not None and position // _BLOCK not in wanted:
                            continue
                        if isinstance(value, np.ndarray) and value.ndim == 1 and np.isfinite(value).any():
                            mine = kept(position, explainer).setdefault("details", {})
                            mine.setdefault(metric, {})[name] = value
    return dict(sorted(by_block.items()))


def _job(shard: Shard) -> tuple[Any, ...]:
    cell = shard.view.cells[0]
    protocol, model, dataset, _ = shard.place(cell)
    return protocol, model, dataset, *cell["place"][4:]


def _disagreements(evidence: Evidence, block: Mapping[int, Kept]) -> dict[int, float]:
    return {
        position: disagree(
            [parts["visual"] for name, parts in kept.items() if "visual" in parts and not evidence.is_control(name)]
        )
        for position, kept in block.items()
    }


def disagree(maps: list[np.ndarray[Any, Any]]) -> float:
    """1 - mean pairwise Spearman correlation of the maps, cell by cell on a common grid; NaN for fewer than two."""
    common = []
    for values in maps:
        rows, columns = (((np.arange(_COMMON) + 0.5) * n / _COMMON).astype(np.intp) for n in values.shape)
        common.append(values[rows[:, None], columns].ravel())
    if len(common) < 2:
        return float("nan")
    cells = np.array(common, dtype=np.float32)
    cells = cells[np.isfinite(cells).all(axis=1) & (cells.min(axis=1) < cells.max(axis=1))]
    if len(cells) < 2:
        return float("nan")
    ranks = rankdata(cells, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    ranks /= np.sqrt((ranks**2).sum(axis=1, keepdims=True))
    k = len(ranks)
    together = float((ranks.sum(axis=0) ** 2).sum())  # k + 2 × the sum over pairs
    return float(1 - (together - k) / (k * (k - 1)))


def _drawn(parts: dict[str, Any], draws: Mapping[str, list[str]]) -> dict[str, Any]:
    """A map as bytes: 0..255 for 0..1, or 0..254 for -1..1 where it has negative values; words, details as numbers."""
    drawn: dict[str, Any] = {}
    if "visual" in parts:
        values = parts["visual"].astype(np.float32)
        if not np.isfinite(values).all():
            values = np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0)
        signed = bool(values.min(initial=0.0) < 0)
        levels = np.rint(values * 127 + 127 if signed else values * 255).clip(0, 255).astype(np.uint8)
        drawn["map"] = [*values.shape, int(signed), base64.b64encode(levels.tobytes()).decode()]
    if "words" in parts:
        drawn["words"] = [round(float(v), 3) for v in np.nan_to_num(parts["words"].astype(np.float32))]
    if "scalar" in parts:
        drawn["scalar"] = number(float(parts["scalar"][0]), 4)
    details = {
        metric: [[number(float(v), 4) for v in arrays[name]] for name in draws[metric]]
        for metric, arrays in parts.get("details", {}).items()
        if metric in draws and all(name in arrays and len(arrays[name]) <= _LONGEST for name in draws[metric])
    }
    return {**drawn, "details": details} if details else drawn

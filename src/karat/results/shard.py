"""One job's results as files: scores in Parquet, attributions in safetensors, both named by their content."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy

from karat.kernel.attribution import Attribution
from karat.kernel.cell import Cell
from karat.kernel.errors import BadInput
from karat.kernel.row import Outcomes
from karat.kernel.typing import Meta
from karat.results.store import Store

FORMAT = 1
DETAIL, TEXT = "detail", "text"
STATUS = ("score", "failure", "not_applicable")
_SHOWN_SIDE = 64  # cells a side of the kept maps: enough to look at, small enough to keep


@dataclass(frozen=True, eq=False)
class CellResult:
    cell: Cell
    outcomes: Mapping[str, Outcomes]
    passes: np.ndarray[Any, np.dtype[np.float64]]  # forward passes per sample
    attributions: Sequence[Attribution | None] = ()


@dataclass(frozen=True, eq=False)
class ShardResult:
    """Cells that share their samples (one model on one shard)."""

    samples: Sequence[str]
    meta: Sequence[Meta]
    answers: Sequence[str | None]
    probabilities: Sequence[float | None]  # of the model's answers
    expected: Sequence[str | None]  # the right answers, where the data has them
    cells: Sequence[CellResult]
    seconds: Mapping[str, float] = field(default_factory=dict)  # where the time went; for the events, never for rows


def write_shard(store: Store, result: ShardResult) -> str:
    """Write attributions first, scores last: a cell counts as done only when its scores are there."""
    maps_name = ""
    maps = _maps(result)
    if maps:
        maps_name = store.write_shard("attributions", ".safetensors", safetensors.numpy.save(maps))
    sink = pa.BufferOutputStream()
    about = {
        "format": FORMAT,
        "attributions": maps_name,
        "samples": list(result.samples),  # position → id, for the kept maps
        "cells": [{"id": c.cell.id, "place": list(c.cell.place), "fields": c.cell.fields} for c in result.cells],
    }
    table = _table(result).replace_schema_metadata({"karat": json.dumps(about, sort_keys=True)})
    pq.write_table(table, sink, compression="zstd")
    return store.write_shard("scores", ".parquet", sink.getvalue().to_pybytes())


def read_shard(
    store: Store, name: str, columns: Collection[str] | None = None
) -> tuple[dict[str, Any], pa.Table] | None:
    """What a score shard says about itself and its rows, of all columns or those of the named ones that it has; None
    where the file cannot be trusted."""
    data = store.read_shard(name)
    if data is None:
        return None
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        table = file.read(columns and [name for name in file.schema_arrow.names if name in columns])
        about = json.loads(table.schema.metadata[b"karat"])
        known = int(about["format"]), str(about["attributions"]), [str(cell["id"]) for cell in about["cells"]]
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{name} is not a score shard of Karat: {' '.join(str(error).split())}.") from None
    if known[0] > FORMAT:
        raise BadInput(
            f"{name} was written in format {about['format']}, this Karat reads up to {FORMAT}: upgrade karat."
        )
    return about, table


def _table(result: ShardResult) -> pa.Table:
    n = len(result.samples)
    blocks = [(c, metric, outcomes) for c in result.cells for metric, outcomes in c.outcomes.items()]
    columns: dict[str, Any] = {
        "cell": _repeat([c.cell.id for c, _, _ in blocks], n),
        "protocol": _repeat([c.cell.protocol for c, _, _ in blocks], n),
        "model": _repeat([c.cell.model for c, _, _ in blocks], n),
        "dataset": _repeat([c.cell.dataset for c, _, _ in blocks], n),
        "explainer": _repeat([c.cell.explainer for c, _, _ in blocks], n),
        "metric": _repeat([metric for _, metric, _ in blocks], n),
        "sample": _tile(result.samples, len(blocks), pa.string()),
        "answer": _tile(result.answers, len(blocks), pa.string()),
        "expected": _tile(result.expected, len(blocks), pa.string()),
        "probability": _tile(result.probabilities, len(blocks), pa.float64()),
        "value": _values([outcomes for _, _, outcomes in blocks]),
        "level": _repeat([outcomes.level for _, _, outcomes in blocks], n),
        "status": _repeat_status(blocks, n),
        "reason": _reasons(blocks, n),
        "passes": pa.array(np.concatenate([c.passes for c, _, _ in blocks]) if blocks else np.empty(0)),
    }
    for key in sorted({key for meta in result.meta for key in meta}):
        columns[f"meta.{key}"] = _tile([meta.get(key) for meta in result.meta], len(blocks), None)
    return pa.table(columns)


def _repeat(names: Sequence[str], n: int) -> pa.DictionaryArray:
    known = sorted(set(names))
    codes = np.repeat(np.array([known.index(name) for name in names], dtype=np.int32), n)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(known, pa.string()))


def _tile(values: Sequence[Any], times: int, kind: pa.DataType | None) -> pa.DictionaryArray:
    """The same n values for every block: stored once, pointed at `times` times."""
    known = pa.array(values, kind).dictionary_encode()
    codes = np.tile(known.indices.to_numpy(zero_copy_only=False), times)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=np.isnan(codes) if codes.dtype.kind == "f" else None).cast(pa.int32()), known.dictionary
    )


def _values(columns: Sequence[Outcomes]) -> pa.Array:
    values = np.concatenate([column.values for column in columns]) if columns else np.empty(0)
    return pa.array(values, mask=~np.isfinite(values))


def _repeat_status(blocks: Sequence[tuple[CellResult, str, Outcomes]], n: int) -> pa.DictionaryArray:
    codes = np.zeros((len(blocks), n), dtype=np.int32)
    for row, (_, _, outcomes) in zip(codes, blocks, strict=True):
        row[list(outcomes.failures)] = 1
        row[list(outcomes.not_applicable)] = 2
    return pa.DictionaryArray.from_arrays(pa.array(codes.ravel()), pa.array(STATUS))


def _reasons(blocks: Sequence[tuple[CellResult, str, Outcomes]], n: int) -> pa.Array:
    if not any(outcomes.failures or outcomes.not_applicable for _, _, outcomes in blocks):
        return pa.nulls(len(blocks) * n, pa.string())
    reasons = [{**outcomes.not_applicable, **outcomes.failures} for _, _, outcomes in blocks]
    return pa.array([reason.get(i) for reason in reasons for i in range(n)], pa.string())


def _maps(result: ShardResult) -> dict[str, np.ndarray[Any, Any]]:
    """What is kept beside the scores: `<cell>/<sample position>/<part>`, `<cell>/detail/<metric>/<name>` (n, ...), and
    `<cell>/text/<metric>/<name>`, a JSON list of n texts as bytes."""
    kept: dict[str, np.ndarray[Any, Any]] = {}
    for cell_result in result.cells:
        name = cell_result.cell.id
        for metric, outcomes in cell_result.outcomes.items():
            for detail, values in outcomes.details.items():
                kept[f"{name}/{DETAIL}/{metric}/{detail}"] = np.ascontiguousarray(values)
            for detail, texts in outcomes.texts.items():
                written = json.dumps(list(texts), ensure_ascii=False).encode()
                kept[f"{name}/{TEXT}/{metric}/{detail}"] = np.frombuffer(written, dtype=np.uint8)
        for i, attribution in enumerate(cell_result.attributions):
            if attribution is not None:
                kept |= {f"{name}/{i}/{part}": values for part, values in _parts(attribution).items()}
    return kept


def _parts(attribution: Attribution) -> dict[str, np.ndarray[Any, Any]]:
    """Maps in float16, shrunk to what a page shows and at most 1 in size; `<part>_error` in the same unit; notes."""
    kept: dict[str, np.ndarray[Any, Any]] = {}
    owner = next((p for p in ("pairs", "visual", "words", "scalar") if getattr(attribution, p) is not None), "")
    errors = {"words": attribution.words_error, owner: attribution.standard_error}
    for part in ("visual", "words", "pairs"):
        values = getattr(attribution, part)
        if values is None:
            continue
        small = shrink(values) if part == "visual" else values
        peak = float(np.abs(small).max(initial=0.0))
        unit = peak if 0 < peak < np.inf else 1.0
        kept[part] = np.ascontiguousarray(small / unit, dtype=np.float16)
        error = errors.get(part)
        if error is not None:
            kept[f"{part}_error"] = np.ascontiguousarray(
                (shrink(error) if part == "visual" else error) / unit, dtype=np.float16
            )
    if attribution.scalar is not None:
        kept["scalar"] = np.array([attribution.scalar])
        if owner == "scalar" and attribution.standard_error is not None:
            kept["scalar_error"] = np.asarray(attribution.standard_error, dtype=np.float64).reshape(1)
    return kept | {f"note:{name}": np.array([value], dtype=np.float64) for name, value in attribution.notes.items()}


def shrink(values: np.ndarray[Any, Any], side: int = _SHOWN_SIDE) -> np.ndarray[Any, Any]:
    """A map of at most side × side cells, each the mean of the pixels it stands for."""
    for axis in (0, 1):
        size = values.shape[axis]
        if size > side:
            edges = np.linspace(0, size, side + 1).astype(np.intp)
            sums = np.add.reduceat(values, edges[:-1], axis=axis)
            shape = [1, 1]
            shape[axis] = side
            values = sums / np.diff(edges).reshape(shape)
    return values

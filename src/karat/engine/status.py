"""`status(path)` and `why(path, cell)`: what a run directory says about itself, while it is written and afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karat.engine.events import describe
from karat.engine.plan import plan
from karat.kernel.cell import Cell
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.results.run import load_run
from karat.results.shard import read_shard


@dataclass(frozen=True)
class Status:
    path: Path | str
    cells: int
    cells_done: int
    missing: list[str]
    rows: int
    failures: int
    not_applicable: int
    reasons: list[tuple[str, int]]
    damaged: list[str]
    writer: str
    last_event: str


def status(path: str | Path) -> Status:
    """How far a run is. Safe to call while it is being written."""
    run = load_run(path)
    wanted = set(run.manifest["cells"])
    counts: dict[str, int] = {"score": 0, "failure": 0, "not_applicable": 0}
    reasons: dict[str, int] = {}
    done: set[str] = set()
    for name in run.store.shards("scores", ".parquet"):
        shard = read_shard(run.store, name)
        if shard is None:
            continue
        about, table = shard
        fresh = {cell["id"] for cell in about["cells"]} & wanted - done
        done |= fresh
        for cell, state, reason in zip(*(table[c].to_pylist() for c in ("cell", "status", "reason")), strict=True):
            if cell in fresh:
                counts[state] += 1
                if reason is not None:
                    reasons[reason] = reasons.get(reason, 0) + 1
    events = [event for event in run.events() if isinstance(event, dict)]
    return Status(
        path=run.path,
        cells=len(wanted),
        cells_done=len(done),
        missing=sorted(wanted - done),
        rows=sum(counts.values()),
        failures=counts["failure"],
        not_applicable=counts["not_applicable"],
        reasons=sorted(reasons.items(), key=lambda item: -item[1]),
        damaged=run.damaged(),
        writer=run.store.holder(),
        last_event=next((text for event in reversed(events) if (text := describe(event))), ""),
    )


@dataclass(frozen=True)
class Why:
    """Why a cell has to run (or need not): the fields that differ from the nearest cell on disk."""

    cell: Cell
    done: bool
    nearest: str | None
    differences: list[tuple[str, Any, Any]]  # field, on disk, now


def why(path: str | Path, cell: str) -> Why:
    """Compare a planned cell (by the start of its id) with what is on disk."""
    run = load_run(path)
    matches = [c for c in plan(Spec.parse(run.spec)).cells if c.id.startswith(cell)]
    stored = run.cells()
    if len(matches) != 1:
        old = [name for name in stored if name.startswith(cell)]
        if not matches and len(old) == 1:
            raise BadInput(
                f"cell {old[0]} is on disk, but the present spec does not ask for it: nothing will run for it."
            )
        if not matches:
            raise BadInput(f"no cell of {path} starts with {cell!r}; `karat status {path}` lists the missing ones.")
        raise BadInput(f"{len(matches)} cells of {path} start with {cell!r}; give more of the id, or another one.")
    [match] = matches
    if match.id in stored:
        return Why(match, True, match.id, [])
    now = _flat(match.fields)
    candidates = {name: _flat(entry["fields"]) for name, entry in stored.items()}
    if not candidates:
        return Why(match, False, None, [])
    nearest = min(candidates, key=lambda name: (len(_differences(candidates[name], now)), name))
    return Why(match, False, nearest, _differences(candidates[nearest], now))


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    keys = sorted({*before, *now})
    return [(key, before.get(key), now.get(key)) for key in keys if before.get(key) != now.get(key)]


def _flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat

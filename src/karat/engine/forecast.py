"""How long a run will take, from the events of earlier runs: what `karat run --dry-run` says."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from karat.engine.cost import Costs, Forecast, Work, simulate
from karat.engine.events import duration
from karat.engine.plan import Plan
from karat.engine.rates import Rates
from karat.kernel.cell import Job
from karat.kernel.errors import KaratError
from karat.kernel.registry import label
from karat.results.store import Store

_NEIGHBOURS = 20  # runs next to this one that are looked at, newest first
_MANY = 100


def forecast(planned: Plan, jobs: Sequence[Job], where: str, workers: int | None, tried: str | None = None) -> str:
    """One line: the time on this machine, the time on many, what limits each, and how much of it was measured: in the
    run at `where`, in those beside it, and in a trial if there was one."""
    if not planned.cells:
        return "unknown: nothing of it can be run here, see what is missing"
    if not jobs:
        return "none: everything is done"
    events, alike = [], []
    for store in (*([Store(tried)] if tried is not None else []), *_runs(where)):
        stored = [event for event in store.lines("events.jsonl") if isinstance(event, dict)]
        events += stored
        if _protocol(store) == planned.spec.plain()["protocol"]:  # another protocol's scores take another time
            alike += stored
    rates = measured_rates(planned, alike)
    works = estimate(jobs, rates, alike)
    if works is None:
        cells = [cell for job in jobs for cell in job.cells if rates.of(cell.model, cell.explainer) is None]
        untimed = f"no explanation by {', '.join(dict.fromkeys(cell.explainer for cell in cells))} was timed here yet"
        why = untimed if rates.timings else "nothing like it was run here yet"
        return f"unknown: {why}. Time two samples with `karat check SPEC --try`, or run a part of it (--limit 8)"
    costs = measured_costs(events)
    here = min(max(workers, 1) if workers is not None else os.cpu_count() or 1, len(jobs))
    times = [_say(simulate(works, n, costs), n) for n in dict.fromkeys([here, max(here, _MANY)])]
    pairs = {(cell.model, cell.explainer) for job in jobs for cell in job.cells}
    timed = sum(rates.measured(*pair) for pair in pairs)
    guessed = "" if timed == len(pairs) else f" ({len(pairs) - timed} of {len(pairs)} pairs guessed)"
    return "; ".join(times) + guessed


def measured_rates(planned: Plan, events: Sequence[Mapping[str, Any]]) -> Rates:
    """Rates from the events of earlier runs. What is not a sound event is passed over."""
    rates = Rates()
    for event in events:
        spent, model, samples = event.get("spent"), event.get("model"), event.get("samples")
        if not (isinstance(spent, dict) and isinstance(model, str) and isinstance(samples, int) and samples > 0):
            continue
        for explainer in map(label, planned.explainers):
            parts = [spent.get(f"{part} {explainer}") for part in ("explain", "score")]
            known = [float(part) for part in parts if isinstance(part, int | float) and part >= 0]
            if known:
                rates.add(model, explainer, samples, sum(known), cold=not rates.measured(model, explainer))
    return rates


def estimate(jobs: Sequence[Job], rates: Rates, events: Sequence[Mapping[str, Any]]) -> list[Work] | None:
    """Seconds of every job; None where one of their explainers was never timed."""
    rest, loads = _per_sample(events), _loads(events)
    works = []
    for job in jobs:
        known = [rates.of(cell.model, cell.explainer) for cell in job.cells]
        if None in known:
            return None
        each = sum(rate for rate in known if rate is not None) + rest.get(job.cells[0].model, 0.0)
        works.append(Work(job.model, each * (job.stop - job.start), loads.get(job.cells[0].model)))
    return works


def measured_costs(events: Sequence[Mapping[str, Any]]) -> Costs:
    """Starting, loading and writing as events tell of them; the defaults where they do not."""
    spent = [event["spent"] for event in events if _sound(event)]
    loads = _loads(events).values()
    writes = [s["write"] for s in spent if "write" in s]
    starts: list[float] = []
    began: float | None = None
    for event in events:
        if event.get("event") == "run_started" and isinstance(event.get("time"), int | float):
            began = event["time"]
        elif began is not None and _sound(event) and isinstance(event.get("time"), int | float):
            starts.append(event["time"] - began - event["seconds"])
            began = None
    plain = Costs()
    return Costs(
        start=max(0.0, statistics.median(starts)) if starts else plain.start,
        load=statistics.median(loads) if loads else plain.load,
        store=statistics.median(writes) if writes else plain.store,
    )


def _loads(events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds that the weights of a model take, by model. Most jobs find them warm: those took next to nothing."""
    loads: dict[str, list[float]] = {}
    for event in events:
        if _sound(event) and "load" in event["spent"]:
            loads.setdefault(event["model"], []).append(event["spent"]["load"])
    cold = {model: max(times) / 10 for model, times in loads.items()}
    return {model: statistics.median(s for s in times if s >= cold[model]) for model, times in loads.items()}


def _per_sample(events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds a sample costs a model beside its explanations: reading it, answering it."""
    totals: dict[str, tuple[float, int]] = {}
    for event in events:
        if _sound(event):
            rest = max(0.0, event["seconds"] - sum(s for part, s in event["spent"].items() if part != "read"))
            seconds, samples = totals.get(event["model"], (0.0, 0))
            totals[event["model"]] = seconds + rest, samples + event["samples"]
    return {model: seconds / samples for model, (seconds, samples) in totals.items()}


def _sound(event: Mapping[str, Any]) -> bool:
    """A report of a finished job whose numbers are numbers: files can be damaged."""
    spent, samples, seconds = event.get("spent"), event.get("samples"), event.get("seconds")
    return (
        isinstance(spent, dict)
        and all(isinstance(s, int | float) for s in spent.values())
        and isinstance(samples, int)
        and samples > 0
        and isinstance(seconds, int | float)
        and isinstance(event.get("model"), str)
    )


def _runs(where: str) -> Iterator[Store]:
    """The run itself, then its newest neighbours."""
    yield Store(where)
    if "://" not in where:
        beside = Path(where).parent.glob("*/events.jsonl")
        newest = sorted(beside, key=lambda path: path.stat().st_mtime, reverse=True)[:_NEIGHBOURS]
        yield from (Store(path.parent) for path in newest if path.parent != Path(where))


def _protocol(store: Store) -> Any:
    try:
        return store.read_json("spec.json")["protocol"]
    except (KaratError, KeyError, TypeError):
        return None


def _say(expected: Forecast, workers: int) -> str:
    plural = "s" if workers > 1 else ""
    return f"about {duration(expected.seconds)} with {workers} worker{plural}, limited by {expected.bottleneck}"

"""What every executor has in common: how a job is finished, and what is reported of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from karat.engine.crash_isolation import Care, Watch
from karat.engine.device_failure import DeviceFailed
from karat.engine.plan import Plan
from karat.engine.worker import Tick, run_job
from karat.kernel.cell import Job
from karat.kernel.errors import RunFailed
from karat.results.shard import ShardResult, write_shard
from karat.results.store import Store

Done = tuple[int, int, float]  # explainer, samples, seconds: what a tick says


@dataclass(frozen=True)
class Report:
    """What became of one job, or is becoming of it.

    tick: `Done`; done: what `finish` gives; retry and failed: the reason; warning: what to tell, whatever the job.
    """

    job: Job
    kind: str
    value: Any


def finish(
    plan: Plan,
    job: Job,
    store: Store,
    tick: Tick,
    watch: Watch = lambda step: None,
    care: Care = Care(),  # noqa: B008  frozen
) -> dict[str, Any]:
    """Run a job and write its shard: the whole of what a worker does, on any executor."""
    began = time.perf_counter()
    result = run_job(plan, job, tick, watch, care)
    computed = time.perf_counter()
    name = write_shard(store, result)
    written = time.perf_counter()
    spent = {part: round(seconds, 4) for part, seconds in result.seconds.items()}
    return {
        "shard": name,
        "seconds": round(written - began, 4),
        "spent": {**spent, "write": round(written - computed, 4)},
        **_count(result),
    }


def _count(result: ShardResult) -> dict[str, Any]:
    failures: dict[str, int] = {}
    rows = 0
    for cell in result.cells:
        for outcomes in cell.outcomes.values():
            rows += len(outcomes)
            for reason in outcomes.failures.values():
                failures[reason] = failures.get(reason, 0) + 1
    return {"rows": rows, "failures": sum(failures.values()), "reasons": failures}


def choose(
    waiting: Mapping[int, int], own: int | None, anywhere: Mapping[int, int], on_node: Mapping[int, int] | None = None
) -> int:
    """The model whose job an idle worker takes: its own, else one its node has loaded, else the least attended.

    `waiting` counts jobs by model (all positive), `anywhere` and `on_node` the other workers that have it loaded.

    >>> choose({0: 4, 1: 4}, own=1, anywhere={0: 0, 1: 3})
    1
    >>> choose({0: 4, 1: 4}, own=None, anywhere={0: 1}, on_node={0: 1})
    0
    >>> choose({0: 4, 1: 4}, own=None, anywhere={0: 1})
    1
    """
    if own is not None and own in waiting:
        return own
    near = [model for model in waiting if on_node and on_node.get(model)]
    return max(near or waiting, key=lambda model: (waiting[model] / (1 + anywhere.get(model, 0)), -model))


def in_process(plan: Plan, jobs: Sequence[Job], store: Store) -> Iterator[Report]:
    """One job after the other, here: for debugging, small runs and comparisons. Every model is loaded once."""
    for job in sorted(jobs, key=lambda job: job.model):
        ticks: list[Done] = []
        try:
            done = finish(plan, job, store, lambda *tick: ticks.append(tick))  # noqa: B023  called before the next job
        except DeviceFailed as error:
            raise RunFailed(f"{error}. What is done is kept; run again to go on.") from error
        yield from (Report(job, "tick", tick) for tick in ticks)
        yield Report(job, "done", done)

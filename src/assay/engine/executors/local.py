"""Jobs in worker processes on this machine. A worker that dies takes only its own job with it."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from assay.engine.plan import Plan, plan
from assay.engine.worker import Tick, run_job
from assay.kernel.cell import Job
from assay.kernel.errors import AssayError, BadInput
from assay.kernel.spec import Spec
from assay.results.shard import ShardResult, write_shard
from assay.results.store import Store

Message = tuple[str, Any]


@dataclass(frozen=True)
class Report:
    """What became of one job: where its shard is, or why there is none."""

    job: Job
    kind: str  # tick | done | retry | failed
    value: Any


def finish(plan: Plan, job: Job, store: Store, tick: Tick) -> dict[str, Any]:
    """Run a job and write its shard: the whole of what a worker does, on any executor."""
    began = time.perf_counter()
    result = run_job(plan, job, tick)
    name = write_shard(store, result)
    return {"shard": name, "seconds": round(time.perf_counter() - began, 4), **_count(result)}


def _count(result: ShardResult) -> dict[str, Any]:
    failures: dict[str, int] = {}
    rows = 0
    for cell in result.cells:
        for outcomes in cell.outcomes.values():
            rows += len(outcomes)
            for reason in outcomes.failures.values():
                failures[reason] = failures.get(reason, 0) + 1
    return {"rows": rows, "failures": sum(failures.values()), "reasons": failures}


def in_process(plan: Plan, jobs: Sequence[Job], store: Store) -> Iterator[Report]:
    """One job after the other, here: for debugging, small runs and comparisons."""
    for job in jobs:
        ticks: list[int] = []
        done = finish(plan, job, store, ticks.append)
        yield Report(job, "tick", sum(ticks))
        yield Report(job, "done", done)


def in_workers(plan: Plan, jobs: Sequence[Job], store: Store, workers: int, retries: int = 2) -> Iterator[Report]:
    """Jobs over `workers` processes. A job whose worker dies or raises is tried `retries` times more, then given up."""
    waiting = deque((job, 0) for job in jobs)
    pool = [_Worker(plan.spec, store) for _ in range(min(workers, len(jobs)))]
    try:
        while waiting or any(worker.busy for worker in pool):
            for slot, worker in enumerate(pool):
                if not worker.busy and waiting:
                    if not worker.process.is_alive():
                        worker.stop()
                        worker = pool[slot] = _Worker(plan.spec, store)
                    worker.give(*waiting.popleft())
            for worker in _ready([worker for worker in pool if worker.busy]):
                kind, value = worker.take()
                job, attempt = worker.busy_with()
                if kind == "tick":
                    yield Report(job, "tick", value)
                    continue
                worker.busy = None
                if kind == "refused":
                    raise BadInput(value)
                if kind == "done":
                    yield Report(job, "done", value)
                elif attempt < retries:
                    waiting.append((job, attempt + 1))
                    yield Report(job, "retry", (attempt + 1, value))
                else:
                    yield Report(job, "failed", value)
    finally:
        for worker in pool:
            worker.stop()


class _Worker:
    """One process and the pipe to it. Spawned, not forked: torch and fork do not go together."""

    def __init__(self, spec: Spec, store: Store) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, spec.plain(), store, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()
        self.busy: tuple[Job, int] | None = None

    def give(self, job: Job, attempt: int) -> None:
        self.busy = (job, attempt)
        with suppress(OSError):  # it died between two jobs: `take` will report that
            self.pipe.send(job)

    def busy_with(self) -> tuple[Job, int]:
        assert self.busy is not None
        return self.busy

    def take(self) -> Message:
        try:
            message: Message = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode
            return "died", f"its process died ({f'signal {-code}' if code and code < 0 else f'exit code {code}'})"
        return message

    def stop(self) -> None:
        self.pipe.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join(5)


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    ready: set[Any] = set(wait([worker.pipe for worker in workers], timeout=1.0))
    return [worker for worker in workers if worker.pipe in ready]


def _serve(pipe: Connection, spec: dict[str, Any], store: Store, driver: int) -> None:
    """A worker's life: plan the spec for itself, since only plain data crosses the pipe; then job after job."""
    threading.Thread(target=_leave_with, args=(driver,), daemon=True).start()
    send: Callable[[Message], None] = pipe.send
    planned: Plan | None = None
    while True:
        try:
            job: Job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            planned = planned or plan(Spec.parse(spec))
            send(("done", finish(planned, job, store, lambda pairs: send(("tick", pairs)))))
        except AssayError as error:
            send(("refused", str(error)))  # the user's to mend: trying again would not help
        except Exception as error:
            send(("raised", f"{type(error).__name__}: {error}"))


def _leave_with(driver: int) -> None:
    """Do not outlive the driver: an orphan would burn a core that the resumed run needs."""
    while os.getppid() == driver:
        time.sleep(0.5)
    os._exit(1)

"""Jobs in worker processes on this machine. A worker that dies takes only its own job with it, and not for long."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from karat.engine.crash_isolation import Care, Place, Trial
from karat.engine.executors.job import Report, choose, finish
from karat.engine.plan import Plan, plan
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput, KaratError
from karat.kernel.spec import Spec
from karat.results.files import PlaceFailed
from karat.results.store import Store

Message = tuple[str, Any]


def in_workers(plan: Plan, jobs: Sequence[Job], store: Store, workers: int, retries: int = 2) -> Iterator[Report]:
    """Jobs over `workers` processes. What raises is tried `retries` times more; what kills its worker is taken apart
    until the sample to blame is found (see `Care`), and the rest goes on. A place that fails again and again ends it.
    """
    waiting: dict[int, deque[Trial]] = {}  # by model
    for job in jobs:
        waiting.setdefault(job.model, deque()).append(Trial(job))
    pool = [_Worker(plan.spec, store) for _ in range(min(workers, len(jobs)))]
    unstored = 0  # results in a row
    try:
        while any(waiting.values()) or any(worker.busy for worker in pool):
            for slot, worker in enumerate(pool):
                left = {model: len(trials) for model, trials in waiting.items() if trials}
                if not worker.busy and left:
                    if not worker.process.is_alive():
                        worker.stop()
                        worker = pool[slot] = _Worker(plan.spec, store)
                    others = Counter(other.model for other in pool if other is not worker and other.model is not None)
                    worker.give(waiting[choose(left, worker.model, others)].popleft())
            for worker in _ready([worker for worker in pool if worker.busy]):
                kind, value = worker.take()
                trial = worker.busy_with()
                job = trial.job
                if kind == "tick":
                    yield Report(job, "tick", value)
                    continue
                if kind == "at":
                    worker.place = value
                    continue
                worker.busy = None
                if kind == "refused":
                    raise BadInput(value)
                if kind == "done":
                    unstored = 0
                    yield Report(job, "done", value)
                    continue
                if kind == "unstored":
                    unstored += 1
                    if unstored > retries * len(pool):  # no job will fare better
                        raise PlaceFailed(value)
                    waiting[job.model].appendleft(trial)  # before others are computed in vain
                    yield Report(job, "retry", value)
                    continue
                again = trial.died(worker.place, value) if kind == "died" else trial.raised(retries)
                waiting[job.model].extend(again)
                yield Report(job, "retry", value) if again else Report(job, "failed", value)
    finally:
        for worker in pool:
            worker.pipe.close()  # all hear of it before the first is waited for
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
        self.busy: Trial | None = None
        self.place: Place | None = None  # what it was last about to do
        self.model: int | None = None  # the one it has loaded last

    def give(self, trial: Trial) -> None:
        self.busy, self.place, self.model = trial, None, trial.job.model
        with suppress(OSError):  # it died between two jobs: `take` will report that
            self.pipe.send((trial.job, trial.care))

    def busy_with(self) -> Trial:
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
        if self.busy is None:  # it leaves by itself, and takes its locks with it
            self.process.join(2)
        if self.process.is_alive():
            self.process.terminate()
        self.process.join(5)


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    ready: set[Any] = set(wait([worker.pipe for worker in workers], timeout=1.0))
    return [worker for worker in workers if worker.pipe in ready]


def _serve(pipe: Connection, spec: dict[str, Any], store: Store, driver: int) -> None:
    """A worker's life: plan the spec for itself, since only plain data crosses the pipe; then job after job."""
    threading.Thread(target=_leave_with, args=(driver,), daemon=True).start()
    planned: Plan | None = None
    while True:
        try:
            job, care = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            planned = planned or plan(Spec.parse(spec))
            pipe.send(("done", _finish(planned, job, care, store, pipe)))
        except PlaceFailed as error:
            pipe.send(("unstored", str(error)))
        except KaratError as error:
            pipe.send(("refused", str(error)))  # the user's to mend: trying again would not help
        except Exception as error:
            pipe.send(("raised", f"{type(error).__name__}: {error}"))


def _finish(planned: Plan, job: Job, care: Care, store: Store, pipe: Connection) -> dict[str, Any]:
    return finish(
        planned, job, store, lambda *done: pipe.send(("tick", done)), lambda place: pipe.send(("at", place)), care
    )


def _leave_with(driver: int) -> None:
    """Do not outlive the driver: an orphan would burn a core that the resumed run needs."""
    while os.getppid() == driver:
        time.sleep(0.5)
    os._exit(1)

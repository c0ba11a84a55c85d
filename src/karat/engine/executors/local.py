"""Jobs in worker processes on this machine, each in its place (see `karat.engine.places`).

A worker that dies takes only its own job with it, and not for long; a GPU that fails rests, and is tried again.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from karat.engine.crash_isolation import Trial
from karat.engine.executors.job import Report, choose
from karat.engine.executors.process import WorkerProcess, ready
from karat.engine.places import Place, Placement, Room
from karat.engine.plan import Plan
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput, RunFailed
from karat.results.files import PlaceFailed
from karat.results.store import Store

REST = 30.0  # seconds that a GPU which failed is left alone
FAILURES = 3  # of a GPU without a finished job between them: it is left out for good

Start = Callable[[Place], WorkerProcess]


def in_workers(
    plan: Plan,
    jobs: Sequence[Job],
    store: Store,
    placement: Placement,
    retries: int = 2,
    rest: float | None = None,
    start: Start | None = None,
) -> Iterator[Report]:
    """Jobs over the places of `placement`. What raises is tried `retries` times more; what kills its worker is taken
    apart until the sample to blame is found (see `Care`), and the rest goes on. A store that fails again and again ends
    it. `start` makes a worker in a place: a process, unless a test says otherwise.
    """
    pool = _Pool(
        placement,
        start or (lambda place: WorkerProcess(plan.spec, store, place, plan.checkpointed)),
        retries,
        REST if rest is None else rest,
    )
    for job in jobs:
        pool.waiting.setdefault(job.model, deque()).append(Trial(job))
    try:
        while pool.unfinished:
            pool.hand_out()
            yield from pool.idle_warning(jobs)
            for worker in ready([worker for worker in pool.workers if worker.busy]):
                yield from pool.hear(worker)
    finally:
        for worker in pool.workers:
            worker.pipe.close()  # all hear of it before the first is waited for
        for worker in pool.workers:
            worker.stop()


@dataclass
class _Pool:
    placement: Placement
    start: Start
    retries: int
    rest: float
    waiting: dict[int, deque[Trial]] = field(default_factory=dict)  # by model
    workers: list[WorkerProcess] = field(default_factory=list)
    resting: dict[str, float] = field(default_factory=dict)  # GPU: until when
    failures: Counter[str] = field(default_factory=Counter)  # of a GPU, since it last finished a job
    unstored: int = 0  # results in a row
    warned: bool = False

    def __post_init__(self) -> None:
        self.room: Room = self.placement.room()

    @property
    def unfinished(self) -> bool:
        return any(self.waiting.values()) or any(worker.busy for worker in self.workers)

    def hand_out(self) -> None:
        """Jobs to idle workers; an idle worker without one gives its place up; new workers where there is room."""
        for worker in [worker for worker in self.workers if not worker.busy]:
            model = self._next(worker) if worker.alive else None
            if model is None:
                self._dismiss(worker)
            else:
                worker.give(self.waiting[model].popleft())
        now = time.monotonic()
        resting = [gpu for gpu, until in self.resting.items() if until > now]
        # Those that hold more find their place first.
        models = sorted(self.waiting, key=lambda m: (-self.placement.needs[m].kind.gpus, m))
        for model in [m for m in models for _ in range(len(self.waiting[m]))]:
            kind = self.placement.needs[model].kind
            given = self.placement.given
            if given is not None and len(self.workers) >= given:
                return
            if not self.waiting[model] or not self.placement.fits(model, self._held()):
                continue
            place = self.room.take(kind, resting)
            if place is None:
                continue
            worker = self.start(place)
            self.workers.append(worker)
            chosen = self._next(worker)
            worker.give(self.waiting[model if chosen is None else chosen].popleft())

    def hear(self, worker: WorkerProcess) -> Iterator[Report]:
        """What one worker has to say."""
        kind, value = worker.take()
        trial = worker.busy_with()
        job = trial.job
        if kind == "tick":
            yield Report(job, "tick", value)
            return
        if kind == "at":
            worker.step = value
            return
        worker.busy = None
        if kind == "refused":
            raise BadInput(value)
        if kind == "done":
            self.unstored = 0
            for gpu in worker.place.gpus:
                self.failures.pop(gpu, None)
            yield Report(job, "done", value)
            return
        if kind == "unstored":
            self.unstored += 1
            if self.unstored > self.retries * len(self.workers):  # no job will fare better
                raise PlaceFailed(value)
            self.waiting[job.model].appendleft(trial)  # before others are computed in vain
            yield Report(job, "retry", value)
            return
        if kind == "device":  # its process has ended: what a GPU has lost, only a new process gets back
            yield from self._device_failed(worker, job, value)
        if kind == "device" and worker.step is None:  # while loading: no sample is to blame
            again = [trial]
        elif kind in ("device", "died"):
            again = trial.died(worker.step, value)
        else:
            again = trial.raised(self.retries)
        self.waiting[job.model].extend(again)
        yield Report(job, "retry", value) if again else Report(job, "failed", value)

    def idle_warning(self, jobs: Sequence[Job]) -> Iterator[Report]:
        """Where every place rests: say so once, and wait a little."""
        if any(worker.busy for worker in self.workers):
            self.warned = False
            return
        if not self.warned:
            self.warned = True
            yield Report(jobs[0], "warning", "no GPU can work just now; they are tried again in a while")
        time.sleep(min(1.0, self.rest))

    def _device_failed(self, worker: WorkerProcess, job: Job, reason: str) -> Iterator[Report]:
        for gpu in worker.place.gpus:
            self.failures[gpu] += 1
            out = self.failures[gpu] >= FAILURES
            self.resting[gpu] = float("inf") if out else time.monotonic() + self.rest
            then = "it is left out" if out else f"it rests for {self.rest:g} s"
            yield Report(job, "warning", f"GPU {gpu}: {reason}; {then}")
        if all(self.resting.get(gpu.name) == float("inf") for gpu in self.placement.inventory.gpus):
            raise RunFailed(f"no GPU of this machine works: {reason}. What is done is kept; run again to go on.")

    def _next(self, worker: WorkerProcess) -> int | None:
        """The model whose job an idle worker takes."""
        others = [other for other in self.workers if other is not worker and other.model is not None]
        held = [other.model for other in others if other.model is not None]
        left = {
            model: len(trials)
            for model, trials in self.waiting.items()
            if trials
            and self.placement.needs[model].kind == worker.place.kind
            and (model == worker.model or self.placement.fits(model, held))
        }
        return choose(left, worker.model, Counter(held)) if left else None

    def _held(self) -> list[int]:
        return [worker.model for worker in self.workers if worker.model is not None]

    def _dismiss(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        self.room.give_back(worker.place)
        worker.stop()

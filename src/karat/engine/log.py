"""`Log`: events to disk and to whoever watches, with running totals."""

from __future__ import annotations

import json
import time
from typing import Any

from karat.engine.events import Event, Renderer, stamp
from karat.engine.executors.job import Done
from karat.engine.plan import Plan
from karat.engine.progress import Progress
from karat.kernel.cell import Job
from karat.kernel.errors import RunFailed
from karat.results.store import Store


class Log:
    """Called with an event's kind and fields; the methods are for what also counts."""

    def __init__(self, store: Store, show: Renderer, planned: Plan, jobs: list[Job], workers: int | None) -> None:
        self.store, self.show, self.planned, self.jobs, self.workers = store, show, planned, jobs, workers
        self.progress = Progress(planned, jobs)
        self.rows = self.failures = 0
        self.began = time.monotonic()

    def __call__(self, kind: str, **fields: Any) -> None:
        event: Event = stamp(kind, **fields)
        if kind != "progress":  # ticks are for watching; what is done is in job_done
            self.store.append("events.jsonl", json.dumps(event, ensure_ascii=False))
        self.show(event)

    def start(self, cells_done: int) -> None:
        self(
            "run_started", name=self.planned.spec.name, cells=len(self.planned.cells), cells_done=cells_done,
            jobs=len(self.jobs), workers=self.workers, pairs=self.progress.pairs, pairs_done=self.progress.pairs_done,
        )  # fmt: skip

    def tick(self, job: Job, done: Done) -> None:
        self.progress.tick(job, done)
        self._show_progress()

    def retry(self, job: Job, reason: str) -> None:
        self.progress.again(job)
        self("job_retry", title=title(job), reason=reason)

    def done(self, job: Job, value: dict[str, Any]) -> None:
        if not self.store.exists(value["shard"]):
            raise RunFailed(
                f"a worker wrote {value['shard']}, but {self.store.root} does not show it here: workers and driver "
                "must see the same place. Use a shared file system or an object store's URL."
            )
        self.rows += value["rows"]
        self.failures += value["failures"]
        self.progress.done(job)
        self(
            "job_done", title=title(job), cells=[cell.id for cell in job.cells], model=job.cells[0].model,
            samples=job.stop - job.start, **value,
        )  # fmt: skip
        self._show_progress()

    def end(self) -> None:
        self("run_done", rows=self.rows, failures=self.failures, seconds=round(time.monotonic() - self.began, 3))

    def _show_progress(self) -> None:
        seen = self.progress
        self("progress", pairs=seen.pairs, pairs_done=seen.pairs_done, seconds_left=seen.seconds_left())


def title(job: Job) -> str:
    first = job.cells[0]
    return f"{first.model} on {first.dataset}[{job.start}:{job.stop}]"

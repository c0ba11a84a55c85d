"""`Log`: events to disk and to whoever watches, with running totals."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import Any

from karat.engine.events import Event, Renderer, stamp
from karat.engine.executors.job import Done
from karat.engine.plan import Plan
from karat.engine.progress import Progress
from karat.kernel.cell import Job
from karat.kernel.errors import RunFailed
from karat.results.store import Store

_EVERY = 0.25  # seconds between two looks at the progress, at least
_REST = 20  # times as long as a look took: it goes through every job that is left, and there may be thousands


class Log:
    """Called with an event's kind and fields; the methods are for what also counts."""

    def __init__(
        self, store: Store, show: Renderer, planned: Plan, jobs: list[Job], workers: int | None, racing: bool = False
    ) -> None:
        self.store, self.show, self.planned, self.jobs, self.workers = store, show, planned, jobs, workers
        self.progress = Progress(planned.cells, jobs, workers, open_end=racing)
        self.look_again = -math.inf  # not before
        self.rows = self.failures = 0
        self.began = time.monotonic()

    def __call__(self, kind: str, **fields: Any) -> None:
        event: Event = stamp(kind, **fields)
        if kind != "progress":  # ticks are for watching; what is done is in job_done
            self.store.append("events.jsonl", json.dumps(event, ensure_ascii=False))
        self.show(event)

    def start(self, cells_done: int, places: Sequence[str] = ()) -> None:
        self(
            "run_started", name=self.planned.spec.name, cells=len(self.planned.cells), cells_done=cells_done,
            jobs=len(self.jobs), workers=self.workers, pairs=self.progress.pairs, pairs_done=self.progress.pairs_done,
            places=list(places),
        )  # fmt: skip

    def phase(self, text: str) -> None:
        self("phase", name=self.planned.spec.name, text=text)

    def tick(self, job: Job, done: Done) -> None:
        self.progress.tick(job, done)
        self._show_progress()

    def retry(self, job: Job, reason: str) -> None:
        self.progress.again(job)
        self("job_retry", title=title(job), reason=reason)

    def lost(self, job: Job, reason: str) -> None:
        self.progress.lost(job)
        self("job_failed", title=title(job), reason=reason)

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
        far, began = self.progress, time.monotonic()
        if far.pairs_done < far.pairs and began < self.look_again:
            return
        seconds_left = far.seconds_left()
        now = time.monotonic()
        self.look_again = now + max(_EVERY, _REST * (now - began))
        self(
            "progress", name=self.planned.spec.name, pairs=far.pairs, pairs_done=far.pairs_done,
            seconds_left=seconds_left, until="explanations",
        )  # fmt: skip


def title(job: Job) -> str:
    first = job.cells[0]
    return f"{first.model} on {first.dataset}[{job.start}:{job.stop}]"

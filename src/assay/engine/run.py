"""`run(spec, out)`: carry a spec out, or what is left of it. Re-running resumes; adding to the spec extends."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from assay.engine.events import Event, Renderer, Silent, stamp
from assay.engine.executors.local import Report, in_process, in_workers
from assay.engine.plan import Plan, missing_extras, plan
from assay.kernel.card import Card
from assay.kernel.cell import Job
from assay.kernel.errors import BadInput, RunFailed
from assay.kernel.registry import label
from assay.kernel.spec import Spec
from assay.results.run import Run
from assay.results.store import Store

_RECORDED = (
    "assay",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "torch",
    "torchvision",
    "timm",
    "transformers",
    "captum",
    "shapiq",
)


def run(
    spec: Spec,
    out: str | Path,
    *,
    workers: int | None = None,
    show: Renderer | None = None,
    fail_on_error: float = 1.0,
) -> Run:
    """Run every cell that `out` does not hold yet and return the run.

    `workers` defaults to the number of cores; 0 runs in this process. `fail_on_error` is the largest share of failed
    rows that still counts as success (1.0: never fail, 0: any failure raises RunFailed). Rows are kept either way.
    """
    planned = plan(spec)
    if missing := missing_extras(planned):
        raise BadInput(" ".join(missing))
    store = Store(Path(out))
    with store.lease():
        store.sweep()
        finished = Run(store)
        done = set(finished.cells())
        jobs = planned.jobs(done)
        store.write_json("spec.json", spec.plain())
        store.write_json("manifest.json", _manifest(planned))
        workers = _workers(workers, jobs)
        with show or Silent() as shown:
            log = _Log(store, shown, planned, jobs, workers)
            for damaged in finished.damaged():
                log("warning", text=f"{damaged} was damaged; its cells are computed again")
                store.path(damaged).unlink(missing_ok=True)
            for refusal in planned.refusals:
                log("warning", text=refusal.reason)
            log.start(len(done & {cell.id for cell in planned.cells}))
            reports = in_workers(planned, jobs, store, workers) if workers else in_process(planned, jobs, store)
            given_up = _follow(reports, log)
            if not given_up:
                _conclude(planned, finished, log)
            log("run_done", rows=log.rows, failures=log.failures, seconds=round(time.time() - log.began, 3))
    if given_up:
        raise RunFailed(f"{len(given_up)} jobs were given up, the first because {given_up[0]} Run again to retry them.")
    if fail_on_error < 1 or log.failures == log.rows > 0:  # else some rows have values: no need to read them all back
        _check_failures(finished, fail_on_error)
    return finished


def _conclude(planned: Plan, finished: Run, log: _Log) -> None:
    """What the protocol makes of the whole run, where it has something to say (see `Finding`)."""
    conclude = getattr(planned.protocol, "findings", None)
    if conclude is None:
        return
    try:
        findings = [finding.plain() for finding in conclude(finished.scores())]
    except Exception as error:  # the rows stand, whatever became of their summary
        log("warning", text=f"no findings: {type(error).__name__}: {error}")
        findings = []
    finished.store.write_json("findings.json", findings)


def _follow(reports: Iterator[Report], log: _Log) -> list[str]:
    given_up: list[str] = []
    for report in reports:
        title = _title(report.job)
        if report.kind == "tick":
            log.tick(report.value)
        elif report.kind == "done":
            log.done(report.job, report.value)
        elif report.kind == "retry":
            attempt, reason = report.value
            log("job_retry", title=title, attempt=attempt, reason=reason)
        else:
            given_up.append(f"{title}: {report.value}.")
            log("job_failed", title=title, reason=report.value)
    return given_up


class _Log:
    """Events to disk and to whoever watches; running totals for the time left."""

    def __init__(self, store: Store, show: Renderer, planned: Plan, jobs: list[Job], workers: int) -> None:
        self.store, self.show, self.planned, self.jobs, self.workers = store, show, planned, jobs, workers
        self.pairs = sum(cell.stop - cell.start for cell in planned.cells)
        self.before = self.pairs_done = self.pairs - sum((j.stop - j.start) * len(j.cells) for j in jobs)
        self.rows = self.failures = 0
        self.began = time.time()

    def __call__(self, kind: str, **fields: Any) -> None:
        event: Event = stamp(kind, **fields)
        if kind != "progress":  # ticks are for watching; what is done is in job_done
            self.store.append("events.jsonl", json.dumps(event, ensure_ascii=False))
        self.show(event)

    def start(self, cells_done: int) -> None:
        self(
            "run_started", name=self.planned.spec.name, cells=len(self.planned.cells), cells_done=cells_done,
            jobs=len(self.jobs), workers=self.workers, pairs=self.pairs, pairs_done=self.pairs_done,
        )  # fmt: skip

    def tick(self, pairs: int) -> None:
        self.pairs_done += pairs
        fresh = self.pairs_done - self.before
        left = (time.time() - self.began) / fresh * (self.pairs - self.pairs_done) if fresh else None
        self("progress", pairs=self.pairs, pairs_done=self.pairs_done, seconds_left=left)

    def done(self, job: Job, value: dict[str, Any]) -> None:
        self.rows += value["rows"]
        self.failures += value["failures"]
        self("job_done", title=_title(job), cells=[cell.id for cell in job.cells], **value)


def _title(job: Job) -> str:
    first = job.cells[0]
    return f"{first.model} on {first.dataset}[{job.start}:{job.stop}]"


def _workers(asked: int | None, jobs: list[Job]) -> int:
    if asked is not None and asked < 0:
        raise BadInput(f"--workers must be 0 (in this process) or more; got {asked}.")
    wanted = (os.cpu_count() or 1) if asked is None else asked
    return min(wanted, len(jobs))


def _manifest(planned: Plan) -> dict[str, Any]:
    """What the rows were made with: enough to make them again."""
    return {
        "format": 1,
        "name": planned.spec.name,
        "protocol": planned.protocol.card.name,
        "scores": {card.name: _about(card) for card in planned.protocol.scores},
        "cells": sorted(cell.id for cell in planned.cells),
        "refusals": [{"model": r.model, "explainer": r.explainer, "reason": r.reason} for r in planned.refusals],
        "models": {label(m): m.revision for m in planned.models},
        "datasets": {label(d): d.revision for d in planned.datasets},
        "seed": planned.spec.seed,
        "versions": {"python": platform.python_version(), **_versions()},
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "system": platform.system()},
        "command": " ".join(["assay", *sys.argv[1:]]) if Path(sys.argv[0]).name == "assay" else "",
    }


def _about(card: Card) -> dict[str, Any]:
    """What a page needs to show a score between its floor and its ceiling, without the code that made it."""
    limits = None if card.range is None else [None if math.isinf(limit) else limit for limit in card.range]
    return {
        "summary": card.summary,
        "direction": card.direction,
        "range": limits,
        "floor": card.floor,
        "ceiling": card.ceiling,
        "citation": card.citation,
        "departures": card.departures,
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _RECORDED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _check_failures(finished: Run, allowed: float) -> None:
    """Only failures count; what has no answer by definition is no failure."""
    status = finished.scores()["status"]
    share = float((status == "failure").mean()) if len(status) else 0.0
    if share > allowed or share == 1:  # a run in which everything failed is no success, whatever is allowed
        raise RunFailed(
            f"{share:.1%} of the rows are failures, more than --fail-on-error {allowed:g} allows; "
            f"`assay status {finished.path}` says why."
        )

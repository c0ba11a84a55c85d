"""`run(spec, out)`: carry a spec out, or what is left of it. Re-running resumes; adding to the spec extends."""

from __future__ import annotations

import math
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from karat.engine.events import Renderer, Silent
from karat.engine.executors.job import Report, in_process
from karat.engine.executors.local import in_workers
from karat.engine.footprint import memory_cautions, planned_footprints, rooms, tight_models
from karat.engine.inventory import Inventory
from karat.engine.log import Log, title
from karat.engine.places import Placement, accelerated, place
from karat.engine.plan import Plan, missing_extras, plan
from karat.engine.precision import precision_cautions
from karat.engine.race import Settle, racing
from karat.kernel.card import Card
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput, RunFailed
from karat.kernel.registry import facts, label
from karat.kernel.roles import Concludes, FromPaper, KnowsLevel, KnowsMechanism, ModelRecipe, Writes, plays
from karat.kernel.spec import Spec
from karat.results.facts import PARTS
from karat.results.run import Run
from karat.results.store import Store

ENGINES = ("local", "ray")
_RECORDED = (
    "karat",
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
    per_device: int | None = None,
    engine: str = "local",
    address: str | None = None,
    show: Renderer | None = None,
    fail_on_error: float = 1.0,
    until: Settle | None = None,
    inventory: Inventory | None = None,
) -> Run:
    """Run every cell that `out` (a directory, or an fsspec URL) does not hold yet and return the run.

    Workers are placed by what the models need (see `karat.engine.places`); `workers` says how many instead, 0 being
    this process alone, and `per_device` how many share a GPU. `inventory` is what there is, by default this machine.
    With `engine="ray"` jobs go to the Ray cluster at `address`, and `workers` defaults to what it has room for.
    `fail_on_error` is the largest share of failed rows that still counts as success (1.0: never fail, 0: any failure
    raises RunFailed). Rows are kept either way. With `until`, samples are spent only until the order of the explainers
    is settled (see `karat.engine.race`).
    """
    if engine not in ENGINES:
        raise BadInput(f"--engine {engine}: there are {' and '.join(ENGINES)}.")
    check_workers(workers, engine, per_device)
    planned = plan(spec)
    if missing := missing_extras(planned):
        raise BadInput(" ".join(missing))
    store = Store(out)
    with store.lease() as caution:
        if not caution:  # without a lock, another driver may be about to finish what looks left over
            store.sweep()
        finished = Run(store)
        done = set(finished.cells())
        jobs = planned.jobs(done)
        placed = None if engine == "ray" or workers == 0 else placement(planned, jobs, workers, per_device, inventory)
        chosen = workers if placed is None else placed.workers
        sizes = planned_footprints(planned, rooms(placed)) if placed is not None and jobs else {}
        planned = replace(planned, checkpointed=tight_models(sizes))
        store.write_json("spec.json", spec.plain())
        store.write_json("manifest.json", _manifest(planned))
        with show or Silent() as screen:
            log = Log(store, screen, planned, jobs, chosen, racing=until is not None)
            if caution:
                log("warning", text=caution)
            for damaged in finished.damaged():
                log("warning", text=f"{damaged} was damaged; its cells are computed again")
                store.remove(damaged)
            for refusal in planned.refusals:
                log("warning", text=refusal.reason)
            for text in (*precision_cautions(planned), *memory_cautions(sizes)):
                log("warning", text=text)
            log.start(len(done & {cell.id for cell in planned.cells}), placed.says if placed is not None else ())

            def execute(some: list[Job]) -> Iterator[Report]:
                if engine == "ray":
                    from karat.engine.executors.ray import in_ray

                    return in_ray(planned, some, store, address=address, workers=workers, per_device=per_device)
                return in_process(planned, some, store) if placed is None else in_workers(planned, some, store, placed)

            given_up = _follow(racing(planned, jobs, finished, until, execute) if until else execute(jobs), log)
            _keep_families(planned, store)
            if not given_up:
                _conclude(planned, finished, log)
            log.end()
    if given_up:
        raise RunFailed(f"{len(given_up)} jobs were given up, the first because {given_up[0]} Run again to retry them.")
    if fail_on_error < 1 or log.failures == log.rows > 0:  # else some rows have values: no need to read them all back
        _check_failures(finished, fail_on_error)
    return finished


def _conclude(planned: Plan, finished: Run, log: Log) -> None:
    """What the protocol makes of the whole run, where it has something to say (see `Finding`)."""
    protocol = planned.protocol
    if not plays(protocol, Concludes):
        return
    log.phase("working out the findings")
    findings: list[dict[str, Any]] = []
    try:
        findings += [finding.plain() for finding in protocol.findings(finished)]
        finished.store.write_json("findings.json", findings)  # a comparison may read them
        if plays(protocol, FromPaper):
            section = f"Beside paper {protocol.card.paper}"
            findings += [finding.plain() for finding in protocol.paper(finished).findings(section)]
    except Exception as error:  # the rows stand, whatever became of their summary
        log("warning", text=f"{'no' if not findings else 'not all'} findings: {type(error).__name__}: {error}")
    finished.store.write_json("findings.json", findings)
    if plays(protocol, Writes) and findings:
        for name, text in protocol.writes(finished).items():
            finished.store.write(name, text.encode())
            log("note", text=f"wrote {finished.path}/{name}")


def _keep_families(planned: Plan, store: Store) -> None:
    """How models are built that had to be found out; a spec names such a file as `family`."""
    for recipe in planned.models:
        if plays(recipe, KnowsLevel) and (text := recipe.discovered()) is not None:
            store.write(f"families/{label(recipe).replace('/', '_')}.json", text.encode())


def _follow(reports: Iterator[Report], log: Log) -> list[str]:
    given_up: list[str] = []
    for report in reports:
        if report.kind == "tick":
            log.tick(report.job, report.value)
        elif report.kind == "done":
            log.done(report.job, report.value)
        elif report.kind == "retry":
            log.retry(report.job, report.value)
        elif report.kind == "warning":
            log("warning", text=report.value)
        else:
            given_up.append(f"{title(report.job)}: {report.value}.")
            log.lost(report.job, report.value)
    return given_up


def placement(
    planned: Plan,
    jobs: Sequence[Job],
    workers: int | None = None,
    per_device: int | None = None,
    inventory: Inventory | None = None,
) -> Placement:
    """Where the workers of these jobs run on this machine, or on the one of `inventory`, and why there."""
    counts = Counter(job.model for job in jobs)
    models = {m: planned.models[m] for m in sorted(counts)}
    there = inventory or Inventory.here(accelerated(list(models.values())))
    return place(models, there, counts, workers, per_device)


def check_workers(workers: int | None, engine: str = "local", per_device: int | None = None) -> None:
    if per_device is not None and per_device < 1:
        raise BadInput(f"--per-device is the number of workers that share a GPU, 1 or more; got {per_device}.")
    if workers is not None and workers < 0:
        raise BadInput(f"--workers must be 0 (in this process) or more; got {workers}.")
    if workers == 0 and engine == "ray":
        raise BadInput("--workers 0 is this process alone; with --engine ray say 1 or more, or nothing at all.")


def _manifest(planned: Plan) -> dict[str, Any]:
    """What the rows were made with: enough to make them again."""
    return {
        "format": 1,
        "name": planned.spec.name,
        "protocol": planned.protocol.card.name,
        PARTS: {
            "model": {label(m): {**facts(m), "mechanism": _mechanism(m)} for m in planned.models},
            "dataset": {label(d): facts(d) for d in planned.datasets},
            "explainer": {label(e): facts(e) for e in planned.explainers},
        },
        "scores": {card.name: _about(card) for card in planned.protocol.scores},
        "cells": sorted(cell.id for cell in planned.cells),
        "refusals": [{"model": r.model, "explainer": r.explainer, "reason": r.reason} for r in planned.refusals],
        "models": {label(m): m.revision for m in planned.models},
        "datasets": {label(d): d.revision for d in planned.datasets},
        "seed": planned.spec.seed,
        "versions": {"python": platform.python_version(), **_versions()},
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "system": platform.system()},
        "command": " ".join(["karat", *sys.argv[1:]]) if Path(sys.argv[0]).name == "karat" else "",
    }


def _mechanism(recipe: ModelRecipe) -> str | None:
    return recipe.mechanism if plays(recipe, KnowsMechanism) else None


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
        "draws": [list(pair) for pair in card.draws],
    }


def _versions() -> dict[str, str]:
    versions = {}
    for package in _RECORDED:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _check_failures(finished: Run, allowed: float) -> None:
    """Only failures count; what has no answer by definition is no failure."""
    status = finished.scores(columns=["status"])["status"]
    share = float((status == "failure").mean()) if len(status) else 0.0
    if share > allowed or share == 1:  # a run in which everything failed is no success, whatever is allowed
        raise RunFailed(
            f"{share:.1%} of the rows are failures, more than --fail-on-error {allowed:g} allows; "
            f"`karat status {finished.path}` says why."
        )

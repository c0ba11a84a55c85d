"""`Actor`: what lives in a process of a Ray cluster. It plans for itself, then job after job with warm weights."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from karat.engine.crash_isolation import Care, Step
from karat.engine.device_failure import DeviceFailed, device_failure
from karat.engine.executors.job import Done, finish
from karat.engine.footprint import planned_footprints, tight_models
from karat.engine.inventory import free_bytes
from karat.engine.places import gigabytes, need
from karat.engine.plan import Plan, plan
from karat.kernel.cell import Job
from karat.kernel.errors import KaratError
from karat.kernel.identity import digest
from karat.kernel.spec import Spec
from karat.results.files import PlaceFailed
from karat.results.store import Store

Told = tuple[list[Done], str, Any]  # the ticks of a job, the kind of its report, its value


class Actor:
    """`weights` are the bytes that the largest model of its kind takes on its GPUs; 0 where it has none."""

    def __init__(
        self, spec: dict[str, Any], store: Store, paths: Sequence[str], cells: Sequence[str], weights: int = 0
    ) -> None:
        sys.path += [path for path in paths if path not in sys.path]  # own modules, on a shared file system
        self.spec, self.store, self.cells, self.weights = spec, store, cells, weights
        self.planned: Plan | None = None
        self.done: tuple[int, list[Done]] = 0, []  # number of the present job, its ticks

    def ready(self) -> tuple[str, str]:
        """The node, and why it would not compute the rows that the driver asks for, or nothing."""
        import ray

        return str(ray.get_runtime_context().get_node_id()), self.refusal()

    def refusal(self) -> str:
        where = f"on {socket.gethostname()}"
        try:
            self.planned = plan(Spec.parse(self.spec))
            if not self.store.exists("manifest.json"):
                return f"{self.store.root} cannot be seen {where}: give --out a path on a shared file system, or a URL."
        except KaratError as error:
            return f"{where}: {error}"
        if {cell.id for cell in self.planned.cells} != set(self.cells):
            return f"{where} the spec means other cells: another version of Karat, data or weights?"
        there = gpu_bytes() if self.weights else None
        if there is not None and self.weights > there:
            return f"{where} a worker's GPUs have {gigabytes(there)}, and the weights take {gigabytes(self.weights)}."
        needs = [need(recipe) for recipe in self.planned.models]
        shared, free = max((each.weights or 0 for each in needs if each.shared), default=0), free_bytes()
        if free is not None and shared > free:
            return f"{where} {gigabytes(free)} of memory are free, and the weights take {gigabytes(shared)}."
        room = dict.fromkeys(range(len(self.planned.models)), there or free)
        tight = tight_models(planned_footprints(self.planned, room))
        self.planned = replace(self.planned, checkpointed=tight)
        return ""

    def run(self, job: Job, number: int, care: Care, watched: bool) -> Told:
        """A job. Where it is `watched`, every step is noted in the store first, so that it outlives this process."""
        assert self.planned is not None
        ticks: list[Done] = []
        self.done = number, ticks

        def note(step: Step) -> None:
            if watched:
                self.store.write_json(trail(job), asdict(step))

        try:
            done = finish(self.planned, job, self.store, lambda *tick: ticks.append(tick), note, care)
            return ticks, "done", done
        except PlaceFailed as error:
            return [], "unstored", str(error)
        except (Exception, DeviceFailed) as error:
            if device_failure(error):
                os._exit(1)  # a process never gets its GPU back: the driver starts another
            return [], *(("refused", str(error)) if isinstance(error, KaratError) else ("raised", _say(error)))

    def progress(self) -> tuple[int, list[Done]]:
        number, ticks = self.done
        return number, list(ticks)


def trail(job: Job) -> str:
    """The file in which the steps of a watched job are noted, the last one standing."""
    return f"steps/{digest([cell.id for cell in job.cells])}.json"


def last_step(store: Store, job: Job) -> Step | None:
    """What a watched job was about to do when its process died; the note is taken away."""
    try:
        noted = store.read_json(trail(job))
        store.remove(trail(job))
        return Step(str(noted["what"]), int(noted["start"]), int(noted["stop"]), str(noted["cell"]))
    except (KaratError, KeyError, TypeError, ValueError):
        return None


def gpu_bytes() -> int | None:
    """Bytes of the GPUs that this process sees; None where it sees none."""
    import torch

    sizes = [torch.cuda.get_device_properties(k).total_memory for k in range(torch.cuda.device_count())]
    return sum(sizes) if sizes else None


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"

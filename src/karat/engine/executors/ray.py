"""Jobs on a Ray cluster: one warm actor for each share of a machine, jobs handed out by the driver. No collectives.

The driver alone decides: it starts as many actors as the cluster has room for, gives an idle one the next job of a
model that it (or its node) has loaded already, and tries what was lost with an actor again elsewhere. Nothing but jobs
and short reports crosses the network; rows go from the actor to the store.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from karat.engine.executors.job import Done, Report, choose, finish
from karat.engine.executors.local import in_workers
from karat.engine.plan import Plan, plan
from karat.engine.worker import forget_models
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput, ExtraMissing, KaratError
from karat.kernel.roles import HoldsResources, ModelRecipe, RunsOnDevice, plays
from karat.kernel.spec import Spec
from karat.results.files import PlaceFailed
from karat.results.store import Store

_LOSSES = 6  # times that a job may be lost with its node before it is given up
_STARTS = 3  # times in a row that actors may fail to start before the cluster is at fault
_REST = 60.0  # seconds before more are started, where some have worked and others do not start
_LOOK_EVERY = 2.0  # seconds between looks at the nodes and at how far jobs are

Resources = Mapping[str, float]
Told = tuple[Job, str, Any]  # job, kind of report, its value


class Actor:
    """Lives in a process of the cluster: plans the spec for itself, then job after job with warm weights."""

    def __init__(self, spec: dict[str, Any], store: Store, paths: Sequence[str], cells: Sequence[str]) -> None:
        sys.path += [path for path in paths if path not in sys.path]  # own modules, on a shared file system
        self.spec, self.store, self.cells = spec, store, cells
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
        return ""

    def run(self, job: Job, number: int) -> tuple[list[Done], list[Told]]:
        """Its ticks, and what is to be reported of the job, in order."""
        assert self.planned is not None
        ticks: list[Done] = []
        self.done = number, ticks
        try:
            done = finish(self.planned, job, self.store, lambda *tick: ticks.append(tick))
            return ticks, [(job, "done", done)]
        except PlaceFailed as error:
            return [], [(job, "unstored", str(error))]
        except KaratError as error:
            return [], [(job, "refused", str(error))]
        except Exception as error:
            return [], [(job, "raised", f"{type(error).__name__}: {error}")]

    def run_carefully(self, job: Job, number: int) -> tuple[list[Done], list[Told]]:
        """In a process of its own, which may die: the sample that kills it is found, and the rest goes on."""
        assert self.planned is not None
        self.done = number, []
        forget_models()
        told: list[Told] = []
        try:
            for report in in_workers(self.planned, [job], self.store, workers=1):
                if report.kind != "tick":  # its ticks may belong to attempts that died: they are not counted
                    told.append((report.job, report.kind, report.value))
        except PlaceFailed as error:
            return [], [(job, "unstored", str(error))]  # it will be done again as a whole
        except KaratError as error:
            return [], [(job, "refused", str(error))]
        return [], told

    def progress(self) -> tuple[int, list[Done]]:
        number, ticks = self.done
        return number, list(ticks)


@dataclass(frozen=True)
class _Task:
    job: Job
    lost: int = 0  # actors that died with it
    errors: int = 0


@dataclass(eq=False)
class _Slot:
    """One actor as the driver sees it."""

    actor: Any
    kind: int  # which resources it holds
    starting: Any  # reference to `ready`, until it has answered
    node: str = ""
    model: int | None = None  # the one it has loaded last
    task: _Task | None = None
    running: Any = None
    looking: Any = None
    number: int = 0  # of the present task, among all that were handed out
    ticks: int = 0  # reported so far of the present task


def in_ray(
    planned: Plan,
    jobs: Sequence[Job],
    store: Store,
    *,
    address: str | None = None,
    workers: int | None = None,
    retries: int = 2,
) -> Iterator[Report]:
    """Jobs over a Ray cluster: the one at `address`, else the one this machine belongs to, else one of its own.

    `workers` limits the actors, or asks an autoscaling cluster for more than it has; as many as there is room for if
    not given. Nodes may come and go at any time.
    """
    with _connected(address) as ray:
        driver = _Driver(ray, planned, jobs, store, workers, retries)
        try:
            yield from driver.reports()
        finally:
            driver.stop()


def room(planned: Plan, address: str | None = None) -> int:
    """Workers that the cluster has room for just now; where models hold different resources, of the rarest kind."""
    with _connected(address) as ray:
        nodes = ray.nodes()
    found = []
    for recipe in planned.models:
        found.append(shares(nodes, wanted := resources(recipe)))
        if not found[-1]:
            raise _no_room(wanted)
    return min(found, default=1)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        _knock(address)
        try:
            started = {} if address else {"include_dashboard": False}
            ray.init(address=address, log_to_driver=False, logging_level="error", **started)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BadInput(f"cannot reach a Ray cluster at {address or 'this machine'}: {error}") from None
    with redirect_stdout(sys.stderr):  # Ray tells of lost workers and nodes on stdout, which may be a program's
        try:
            yield ray
        finally:  # inside: its threads may still have a word to say
            if ours:
                ray.shutdown()


def resources(recipe: ModelRecipe) -> dict[str, float]:
    """What one actor of a model holds: one core, a GPU where its recipe's `device` is one, and whatever else the recipe
    declares as `resources` (such as {"GPU": 0.5}).
    """
    gpu = {"GPU": 1.0} if plays(recipe, RunsOnDevice) and recipe.device != "cpu" else {}
    return {"CPU": 1.0, **gpu, **(recipe.resources if plays(recipe, HoldsResources) else {})}


def shares(nodes: Sequence[Mapping[str, Any]], wanted: Resources) -> int:
    """How many actors of such resources the living nodes have room for.

    >>> shares([{"Alive": True, "Resources": {"CPU": 5.0, "GPU": 2.0}}, {"Alive": False}], {"CPU": 2.0})
    2
    """
    living = [node.get("Resources", {}) for node in nodes if node["Alive"]]
    tiny = 1e-6  # a fifth goes five times into one, which floats do not quite see
    return sum(
        min(int(node.get(name, 0.0) / amount + tiny) for name, amount in wanted.items() if amount) for node in living
    )


@dataclass(eq=False)
class _Driver:
    ray: Any
    planned: Plan
    jobs: Sequence[Job]
    store: Store
    workers: int | None
    retries: int
    slots: list[_Slot] = field(default_factory=list)
    failed_starts: int = 0
    failed_at: float = 0.0
    looked: float = 0.0
    handed: int = 0  # tasks so far
    worked: bool = False  # an actor was ready once: the cluster as such is sound
    resting: float = 0.0  # until then, no more actors are started
    avoided: set[str] = field(default_factory=set)  # nodes that would compute something else
    refusals: list[str] = field(default_factory=list)  # of nodes, not yet said
    heard: float = field(default_factory=time.monotonic)  # when an actor last answered
    unstored: int = 0  # results in a row
    waiting_said: bool = False
    placed: set[int] = field(default_factory=set)  # kinds that the cluster had room for

    def __post_init__(self) -> None:
        held = [tuple(sorted(resources(recipe).items())) for recipe in self.planned.models]
        self.kinds = sorted(set(held), key=lambda kind: (-len(kind), kind))  # what asks for more gets its place first
        self.kind_of = [self.kinds.index(each) for each in held]  # by model
        self.waiting: dict[int, deque[_Task]] = {}
        for job in self.jobs:
            self.waiting.setdefault(job.model, deque()).append(_Task(job))
        self.cells = sorted(cell.id for cell in self.planned.cells)

    def reports(self) -> Iterator[Report]:
        while any(self.waiting.values()) or any(slot.task for slot in self.slots):
            self._grow()
            self._hand_out()
            pending = {ref: slot for slot in self.slots for ref in (slot.starting, slot.running, slot.looking) if ref}
            # Every node that could work is away: one may come back, or be added. Actors may be waiting for it.
            stalled = not any(slot.running for slot in self.slots) and time.monotonic() - self.heard > _REST
            if (stalled or not pending) and not self.waiting_said:
                self.waiting_said = True
                yield self._warning("no node of the Ray cluster can work just now; waiting for one")
            if not pending:
                time.sleep(1.0)
                continue
            found, _ = self.ray.wait(list(pending), num_returns=1, timeout=1.0)
            found, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=0)
            if found:
                self.heard, self.waiting_said = time.monotonic(), False
            for ref in found:
                yield from self._hear(pending[ref], ref)
            yield from self._refused()

    def stop(self) -> None:
        for slot in self.slots:
            with suppress(Exception):  # gone already, or the cluster is
                self.ray.kill(slot.actor)

    def _left(self, kind: int) -> int:
        return sum(len(tasks) for model, tasks in self.waiting.items() if self.kind_of[model] == kind)

    def _grow(self) -> None:
        """Start actors where there is room and work; end those of a kind that has no work left."""
        if time.monotonic() - self.looked < _LOOK_EVERY and self.slots:
            return
        self.looked = time.monotonic()
        nodes = [node for node in self.ray.nodes() if node["NodeID"] not in self.avoided]
        for kind, held in enumerate(self.kinds):
            wanted = dict(held)
            room = shares(nodes, wanted) if self.workers is None else self.workers
            if not room and self._left(kind) and kind not in self.placed:
                raise _no_room(wanted)
            mine = [slot for slot in self.slots if slot.kind == kind]
            idle = [slot for slot in mine if slot.task is None and not slot.starting]
            for slot in idle if not self._left(kind) else []:
                self._drop(slot)
            if time.monotonic() < self.resting or (self.refusals and not self.worked):
                continue
            for _ in range(min(room - len(mine), self._left(kind) - (len(mine) - sum(bool(s.task) for s in mine)))):
                self.slots.append(self._start(kind, wanted))
        for slot in self.slots:
            if slot.running and not slot.looking:
                slot.looking = slot.actor.progress.options(concurrency_group="watch").remote()

    def _start(self, kind: int, wanted: dict[str, float]) -> _Slot:
        rest = {name: amount for name, amount in wanted.items() if name not in ("CPU", "GPU")}
        elsewhere = {"label_selector": {"ray.io/node-id": f"!in({','.join(sorted(self.avoided))})"}}
        actor = (
            self.ray.remote(concurrency_groups={"watch": 1})(Actor)
            .options(
                num_cpus=wanted["CPU"],
                num_gpus=wanted.get("GPU", 0),
                resources=rest,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy="SPREAD",
                **(elsewhere if self.avoided else {}),
            )
            .remote(self.planned.spec.plain(), _anywhere(self.store), [os.getcwd(), *sys.path], self.cells)
        )
        self.placed.add(kind)
        return _Slot(actor, kind, actor.ready.remote())

    def _hand_out(self) -> None:
        for slot in self.slots:
            if slot.starting or slot.task:
                continue
            others = [s for s in self.slots if s is not slot]
            on_node = Counter(s.model for s in others if s.model is not None and s.node == slot.node)
            anywhere = Counter(s.model for s in others if s.model is not None)
            waiting = {m: len(q) for m, q in self.waiting.items() if q and self.kind_of[m] == slot.kind}
            if not waiting:
                continue
            slot.model = choose(waiting, slot.model, anywhere, on_node)
            self.handed += 1
            slot.task, slot.number, slot.ticks = self.waiting[slot.model].popleft(), self.handed, 0
            # What went down with an actor may have brought it down.
            method = slot.actor.run_carefully if slot.task.lost else slot.actor.run
            slot.running = method.remote(slot.task.job, slot.number)

    def _hear(self, slot: _Slot, ref: Any) -> Iterator[Report]:
        """One answer of an actor, or its death."""
        if slot not in self.slots:
            return
        try:
            answer = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            if ref is slot.looking:
                slot.looking = None  # whatever became of the actor, its job will tell
                return
            yield from self._lost(slot, _reason(error))
            return
        if ref is slot.starting:
            slot.starting, (slot.node, refusal) = None, answer
            if not refusal:
                self.failed_starts, self.worked = 0, True
                return
            self._drop(slot)
            if slot.node not in self.avoided:
                self.avoided.add(slot.node)
                self.refusals.append(refusal)
        elif ref is slot.looking:
            slot.looking = None
            number, done = answer
            if number == slot.number:  # else of the job before: it was asked late, or answered early
                yield from self._ticks(slot, done)
        else:
            yield from self._ended(slot, *answer)

    def _refused(self) -> Iterator[Report]:
        """A badly set up node is left out, and those that work go on; where none works, that is the user's to mend."""
        if self.worked:
            yield from (self._warning(f"a node is left out: {refusal}") for refusal in self.refusals)
            self.refusals.clear()
        elif self.refusals and not any(slot.starting for slot in self.slots):
            raise BadInput(self.refusals[0])

    def _ticks(self, slot: _Slot, done: Sequence[Done]) -> Iterator[Report]:
        if slot.task is not None:
            yield from (Report(slot.task.job, "tick", tick) for tick in done[slot.ticks :])
            slot.ticks = max(slot.ticks, len(done))

    def _ended(self, slot: _Slot, done: Sequence[Done], told: Sequence[Told]) -> Iterator[Report]:
        yield from self._ticks(slot, done)
        task = slot.task
        assert task is not None
        slot.task = slot.running = None
        for job, kind, value in told:
            if kind == "refused":
                raise BadInput(value)
            self.unstored = self.unstored + 1 if kind == "unstored" else 0
            if self.unstored > self.retries * len(self.slots):  # no job will fare better
                raise PlaceFailed(value)
            if kind == "unstored":
                self.waiting[job.model].appendleft(task)  # before others are computed in vain
                yield Report(job, "retry", value)
            elif kind == "raised" and task.errors < self.retries:
                self.waiting[job.model].append(replace(task, errors=task.errors + 1))
                yield Report(job, "retry", value)
            else:
                yield Report(job, "failed" if kind == "raised" else kind, value)

    def _lost(self, slot: _Slot, reason: str) -> Iterator[Report]:
        task = slot.task
        self._drop(slot)
        if task is None:
            if time.monotonic() - self.failed_at > _LOOK_EVERY:  # all that a dying node takes with it count as one
                self.failed_starts += 1
                self.failed_at = time.monotonic()
            if self.failed_starts >= _STARTS:
                said = f"workers do not start on the Ray cluster: {reason}. Is Karat installed on its nodes?"
                if not self.worked:
                    raise BadInput(said)
                self.failed_starts, self.resting = 0, time.monotonic() + _REST
                yield self._warning(f"{said} Those that have started go on")
        elif task.lost + 1 < _LOSSES:
            self.waiting[task.job.model].append(replace(task, lost=task.lost + 1))
            yield Report(task.job, "retry", reason)
        else:
            yield Report(task.job, "failed", f"{reason}, {_LOSSES} times over")

    def _warning(self, text: str) -> Report:
        return Report(self.jobs[0], "warning", text)

    def _drop(self, slot: _Slot) -> None:
        self.slots.remove(slot)
        with suppress(Exception):  # most often it is dead already
            self.ray.kill(slot.actor)


def _no_room(wanted: Resources) -> BadInput:
    held = ", ".join(f"{amount:g} {name}" for name, amount in sorted(wanted.items()))
    return BadInput(
        f"no node of the Ray cluster has {held}, which a worker needs. Add one, or say with --workers how many to "
        "wait for."
    )


def _anywhere(store: Store) -> Store:
    """The same place for a process in another working directory."""
    return store if "://" in str(store.root) else Store(os.path.abspath(store.root))


def _reason(error: Exception) -> str:
    """One line of Ray's many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"its worker was lost ({type(error).__name__}: {lines[0][:200] if lines else ''})"


def _knock(address: str | None) -> None:
    """Is anybody there? Ray itself would try for a quarter of an hour."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise BadInput(
                f"cannot reach a Ray cluster at {address}: {error}. `ray status` shows its address."
            ) from None


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run reports to nobody
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ExtraMissing("--engine ray", "ray", "ray") from None
    return ray

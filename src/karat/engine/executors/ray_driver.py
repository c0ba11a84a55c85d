"""`Driver`: hands the jobs of a run out to the actors of a Ray cluster, and hears what becomes of them. No collectives.

It alone decides: it starts as many actors as the cluster has room for, gives an idle one the next job of a model that
it (or its node) has loaded already, and tries what was lost with an actor again elsewhere, taking it apart until the
sample to blame is known (see `Care`). Nothing but jobs and short reports crosses the network; rows go to the store.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from karat.engine.crash_isolation import Trial
from karat.engine.executors.job import Done, Report, choose
from karat.engine.executors.ray_actor import Actor, last_step, trail
from karat.engine.executors.ray_resources import no_room, resources, shares, weights_on_gpus
from karat.engine.plan import Plan
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput
from karat.results.files import PlaceFailed
from karat.results.store import Store

_LOSSES = 6  # times that a job may be lost with its node, nobody knows where in it, before it is given up
_STARTS = 3  # times in a row that actors may fail to start before the cluster is at fault
_REST = 60.0  # seconds before more are started, where some have worked and others do not start
_LOOK_EVERY = 2.0  # seconds between looks at the nodes and at how far jobs are


@dataclass(eq=False)
class Slot:
    """One actor as the driver sees it."""

    actor: Any
    kind: int  # which resources it holds
    starting: Any  # reference to `ready`, until it has answered
    node: str = ""
    model: int | None = None  # the one it has loaded last
    task: Trial | None = None
    running: Any = None
    looking: Any = None
    number: int = 0  # of the present task, among all that were handed out
    ticks: int = 0  # reported so far of the present task


@dataclass(eq=False)
class Driver:
    """Decides who does what; see the module."""

    ray: Any
    planned: Plan
    jobs: Sequence[Job]
    store: Store
    workers: int | None
    retries: int
    per_device: int | None = None
    slots: list[Slot] = field(default_factory=list)
    failed_starts: int = 0
    failed_at: float = 0.0
    looked: float = 0.0
    handed: int = 0  # tasks so far
    worked: bool = False  # an actor was ready once: the cluster as such is sound
    resting: float = 0.0  # until then, no more actors are started
    avoided: set[tuple[int, str]] = field(default_factory=set)  # kinds, and nodes that will not do for them
    refusals: list[str] = field(default_factory=list)  # of nodes, not yet said
    heard: float = field(default_factory=time.monotonic)  # when an actor last answered
    unstored: int = 0  # results in a row
    waiting_told: bool = False
    placed: set[int] = field(default_factory=set)  # kinds that the cluster had room for

    def __post_init__(self) -> None:
        held = [tuple(sorted(resources(recipe, self.per_device).items())) for recipe in self.planned.models]
        # What asks for more gets its place first.
        self.kinds = sorted(set(held), key=lambda kind: (-dict(kind).get("GPU", 0.0), -len(kind), kind))
        self.kind_of = [self.kinds.index(each) for each in held]  # by model
        self.waiting: dict[int, deque[Trial]] = {}
        for job in self.jobs:
            self.waiting.setdefault(job.model, deque()).append(Trial(job))
        self.cells = sorted(cell.id for cell in self.planned.cells)

    def reports(self) -> Iterator[Report]:
        while any(self.waiting.values()) or any(slot.task for slot in self.slots):
            self._grow()
            self._hand_out()
            pending = {ref: slot for slot in self.slots for ref in (slot.starting, slot.running, slot.looking) if ref}
            # Every node that could work is away: one may come back, or be added. Actors may be waiting for it.
            stalled = not any(slot.running for slot in self.slots) and time.monotonic() - self.heard > _REST
            if (stalled or not pending) and not self.waiting_told:
                self.waiting_told = True
                yield self._warning("no node of the Ray cluster can work just now; waiting for one")
            if not pending:
                time.sleep(1.0)
                continue
            answered, _ = self.ray.wait(list(pending), num_returns=1, timeout=1.0)
            answered, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=0)
            if answered:
                self.heard, self.waiting_told = time.monotonic(), False
            for ref in answered:
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
        listed = self.ray.nodes()
        for kind, held in enumerate(self.kinds):
            wanted = dict(held)
            nodes = [node for node in listed if (kind, node["NodeID"]) not in self.avoided]
            room = shares(nodes, wanted) if self.workers is None else self.workers
            if not room and self._left(kind) and kind not in self.placed:
                raise no_room(wanted)
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

    def _start(self, kind: int, wanted: dict[str, float]) -> Slot:
        rest = {name: amount for name, amount in wanted.items() if name not in ("CPU", "GPU", "memory")}
        avoided = sorted(node for k, node in self.avoided if k == kind)
        elsewhere = {"label_selector": {"ray.io/node-id": f"!in({','.join(avoided)})"}}
        weights = [
            weights_on_gpus(m, self.per_device) for i, m in enumerate(self.planned.models) if self.kind_of[i] == kind
        ]
        actor = (
            self.ray.remote(concurrency_groups={"watch": 1})(Actor)
            .options(
                num_cpus=wanted["CPU"],
                num_gpus=wanted.get("GPU", 0),
                memory=wanted.get("memory"),
                resources=rest,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy="SPREAD",
                **(elsewhere if avoided else {}),
            )
            .remote(
                self.planned.spec.plain(), _anywhere(self.store), [os.getcwd(), *sys.path], self.cells, max(weights)
            )
        )
        self.placed.add(kind)
        return Slot(actor, kind, actor.ready.remote())

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
            # What went down with an actor may have brought it down: its steps are noted from then on.
            watched = bool(slot.task.deaths)
            slot.running = slot.actor.run.remote(slot.task.job, slot.number, slot.task.care, watched)

    def _hear(self, slot: Slot, ref: Any) -> Iterator[Report]:
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
            if (slot.kind, slot.node) not in self.avoided:
                self.avoided.add((slot.kind, slot.node))
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

    def _ticks(self, slot: Slot, done: Sequence[Done]) -> Iterator[Report]:
        if slot.task is not None:
            yield from (Report(slot.task.job, "tick", tick) for tick in done[slot.ticks :])
            slot.ticks = max(slot.ticks, len(done))

    def _ended(self, slot: Slot, done: Sequence[Done], kind: str, value: Any) -> Iterator[Report]:
        yield from self._ticks(slot, done)
        trial = slot.task
        assert trial is not None
        slot.task = slot.running = None
        job = trial.job
        if kind == "refused":
            raise BadInput(value)
        self.unstored = self.unstored + 1 if kind == "unstored" else 0
        if self.unstored > self.retries * len(self.slots):  # no job will fare better
            raise PlaceFailed(value)
        if kind == "unstored":
            self.waiting[job.model].appendleft(trial)  # before others are computed in vain
            yield Report(job, "retry", value)
            return
        if trial.deaths:
            with suppress(PlaceFailed):
                self.store.remove(trail(job))
        if kind == "done":
            yield Report(job, "done", value)
            return
        again = trial.raised(self.retries)
        self.waiting[job.model].extend(again)
        yield Report(job, "retry" if again else "failed", value)

    def _lost(self, slot: Slot, reason: str) -> Iterator[Report]:
        trial = slot.task
        self._drop(slot)
        if trial is None:
            yield from self._not_started(reason)
            return
        step = last_step(self.store, trial.job) if trial.deaths else None
        again = trial.died(step, reason, unplaced=_LOSSES)
        self.waiting[trial.job.model].extend(again)
        lost = f"{reason}, {_LOSSES} times over, and nobody knows at which sample"
        yield Report(trial.job, "retry", reason) if again else Report(trial.job, "failed", lost)

    def _not_started(self, reason: str) -> Iterator[Report]:
        if time.monotonic() - self.failed_at > _LOOK_EVERY:  # all that a dying node takes with it count as one
            self.failed_starts += 1
            self.failed_at = time.monotonic()
        if self.failed_starts >= _STARTS:
            why = f"workers do not start on the Ray cluster: {reason}. Is Karat installed on its nodes?"
            if not self.worked:
                raise BadInput(why)
            self.failed_starts, self.resting = 0, time.monotonic() + _REST
            yield self._warning(f"{why} Those that have started go on")

    def _warning(self, text: str) -> Report:
        return Report(self.jobs[0], "warning", text)

    def _drop(self, slot: Slot) -> None:
        self.slots.remove(slot)
        with suppress(Exception):  # most often it is dead already
            self.ray.kill(slot.actor)


def _anywhere(store: Store) -> Store:
    """The same place for a process in another working directory."""
    return store if "://" in str(store.root) else Store(os.path.abspath(store.root))


def _reason(error: Exception) -> str:
    """One line of Ray's many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"its worker was lost ({type(error).__name__}: {lines[0][:200] if lines else ''})"

"""One worker process in its place, and the pipe to it. Spawned, not forked: torch and fork do not go together."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from karat.engine.crash_isolation import Care, Step, Trial
from karat.engine.device_failure import DeviceFailed, device_failure
from karat.engine.executors.job import finish
from karat.engine.places import Place
from karat.engine.plan import Plan, plan
from karat.kernel.cell import Job
from karat.kernel.errors import KaratError
from karat.kernel.spec import Spec
from karat.results.files import PlaceFailed
from karat.results.store import Store

Message = tuple[str, Any]


class WorkerProcess:
    """A process that sees what its place shows it, from its first moment: before torch is imported."""

    def __init__(self, spec: Spec, store: Store, place: Place, checkpointed: frozenset[int] = frozenset()) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, spec.plain(), store, os.getpid(), checkpointed)
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        with _environment(place.environment):
            self.process.start()
        theirs.close()
        self.place = place
        self.busy: Trial | None = None
        self.step: Step | None = None  # what it was last about to do
        self.model: int | None = None  # the one it has loaded last

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def give(self, trial: Trial) -> None:
        self.busy, self.step, self.model = trial, None, trial.job.model
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


def ready(workers: Sequence[WorkerProcess]) -> list[WorkerProcess]:
    """Those that have something to say, within a second."""
    heard: set[Any] = set(wait([worker.pipe for worker in workers], timeout=1.0))
    return [worker for worker in workers if worker.pipe in heard]


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """What a process that is started here inherits."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(pipe: Connection, spec: dict[str, Any], store: Store, driver: int, checkpointed: frozenset[int]) -> None:
    """A worker's life: plan the spec for itself, since only plain data crosses the pipe; then job after job."""
    threading.Thread(target=_leave_with, args=(driver,), daemon=True).start()
    planned: Plan | None = None
    while True:
        try:
            job, care = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            planned = planned or replace(plan(Spec.parse(spec)), checkpointed=checkpointed)
            pipe.send(("done", _finish(planned, job, care, store, pipe)))
        except PlaceFailed as error:
            pipe.send(("unstored", str(error)))
        except (Exception, DeviceFailed) as error:
            if reason := device_failure(error):
                pipe.send(("device", reason))
                return  # a process never gets its GPU back
            if isinstance(error, KaratError):
                pipe.send(("refused", str(error)))  # the user's to mend: trying again would not help
            else:
                pipe.send(("raised", f"{type(error).__name__}: {error}"))


def _finish(planned: Plan, job: Job, care: Care, store: Store, pipe: Connection) -> dict[str, Any]:
    return finish(
        planned, job, store, lambda *done: pipe.send(("tick", done)), lambda step: pipe.send(("at", step)), care
    )


def _leave_with(driver: int) -> None:
    """Do not outlive the driver: an orphan would burn a core that the resumed run needs."""
    while os.getppid() == driver:
        time.sleep(0.5)
    os._exit(1)

"""Logs of runs, recorded or made up, and the estimates that `Progress` gives while they are replayed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from karat.engine.events import Event, describe
from karat.engine.progress import Progress
from karat.kernel.cell import Cell, Job

RECORDED = sorted((Path(__file__).parent.parent / "engine" / "recorded_progress").glob("*.jsonl"))
Line = dict[str, Any]
UNITS = {"s": 1, "min": 60, "h": 3600, "days": 86400}


@dataclass(frozen=True)
class Log:
    """One run: lines as tests/engine/recorded_progress/record.py writes them, moments counted from its beginning."""

    name: str
    jobs: Sequence[Job]
    workers: int
    lines: Sequence[Line]
    done_before: Sequence[Cell] = ()  # cells of an earlier run

    @property
    def last(self) -> float:
        """When the last explanation was there."""
        return max(line["at"] for line in self.lines if "tick" in line or "done" in line)


@dataclass(frozen=True)
class Estimate:
    at: float
    said: str  # as it is printed
    left: float  # the truth

    @property
    def seconds(self) -> float | None:
        """As read by a person; None for the end of the run, of which only "a few seconds" is said."""
        about = re.search(r"in about ([\d.]+) (\w+)$", self.said)
        return float(about[1]) * UNITS[about[2]] if about else None

    def within(self, factor: float, slack: float = 2.0) -> bool:
        """Within a factor of the truth, give or take a couple of seconds."""
        if self.seconds is None:
            return self.left <= 7.5 * factor + slack
        return self.left / factor - slack <= self.seconds <= self.left * factor + slack


def jobs_of(plain: Sequence[dict[str, Any]]) -> list[Job]:
    """
    >>> [job] = jobs_of([{"model": "m", "dataset": "d", "start": 0, "stop": 4, "explainers": ["a", "b"]}])
    >>> [cell.explainer for cell in job.cells]
    ['a', 'b']
    """
    jobs = []
    models = list(dict.fromkeys(job["model"] for job in plain))
    for job in plain:
        place = job["dataset"], job["start"], job["stop"]
        cells = tuple(
            Cell("replay", job["model"], name, *place, {"at": [job["model"], name, *place]})
            for name in job["explainers"]
        )
        jobs.append(Job(models.index(job["model"]), 0, job["start"], job["stop"], tuple(range(len(cells))), cells))
    return jobs


def recorded(path: Path) -> tuple[list[Log], list[Line]]:
    """The runs of a recorded demo, and all its lines (the first says what the machine was like)."""
    about, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    logs = []
    for k, line in enumerate(lines):
        if "spec" in line:
            end = next(i for i in range(k, len(lines)) if "end" in lines[i])
            own = [{**each, "at": each["at"] - line["at"]} for each in lines[k + 1 : end + 1]]
            logs.append(Log(line["spec"], jobs_of(line["jobs"]), line["workers"], own))
    return logs, [about, *lines]


def made_up(
    jobs: Sequence[Job],
    seconds: Callable[[Cell, int], float],
    workers: int = 1,
    batch: int = 4,
    done_before: Sequence[Cell] = (),
    dies: Callable[[int, int], bool] = lambda job, times: False,
) -> Log:
    """A run in which a full batch takes what `seconds` says of its cell and its number, and a part of one its share;
    idle workers take the next job.

    A job of which `dies` is true (its position, how often it was tried before) is lost at its end and done again.
    """
    free = [0.0] * workers
    lines: list[Line] = []
    waiting = [(k, 0) for k in range(len(jobs))]
    while waiting:
        (k, times), now, worker = waiting.pop(0), min(free), free.index(min(free))
        for number, start in enumerate(range(jobs[k].start, jobs[k].stop, batch)):
            samples = min(batch, jobs[k].stop - start)
            for e, cell in enumerate(jobs[k].cells):
                spent = seconds(cell, number) * samples / batch
                now += spent
                lines.append({"at": now, "tick": [k, e, samples, spent]})
        lost = dies(k, times)
        lines.append({"at": now, "again" if lost else "done": k})
        if lost:
            waiting.append((k, times + 1))
        free[worker] = now
    return Log("made up", jobs, workers, sorted(lines, key=lambda line: line["at"]), done_before)


@dataclass
class Clock:
    now: float = 0.0
    patched: Any = field(default=None, repr=False)

    def __enter__(self) -> Clock:
        self.patched = mock.patch("time.monotonic", side_effect=lambda: self.now)
        self.patched.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.patched.stop()


def replay(log: Log, clock: Clock, began: float = 0.0) -> Iterator[Event]:
    """The progress events of a run, one for each of its lines."""
    progress = Progress([*log.done_before, *(c for job in log.jobs for c in job.cells)], log.jobs, log.workers)
    for line in log.lines:
        clock.now = began + line["at"]
        if "tick" in line:
            job, explainer, samples, seconds = line["tick"]
            progress.tick(log.jobs[job], (explainer, samples, seconds))
        elif "done" in line:
            progress.done(log.jobs[line["done"]])
        elif "again" in line:
            progress.again(log.jobs[line["again"]])
        else:
            continue
        yield {
            "event": "progress", "time": clock.now, "name": log.name, "pairs": progress.pairs,
            "pairs_done": progress.pairs_done, "seconds_left": progress.seconds_left(), "until": "explanations",
        }  # fmt: skip


def estimates(log: Log) -> list[Estimate]:
    """Every time that could be printed, beside the truth."""
    with Clock() as clock:
        events = list(replay(log, clock))
    spoken = [event for event in events if event["seconds_left"] is not None and event["time"] < log.last]
    assert all(math.isfinite(event["seconds_left"]) for event in spoken)
    return [Estimate(event["time"], describe(event), log.last - event["time"]) for event in spoken]

"""One event stream: written to events.jsonl, and shown by one of three renderers (live, plain lines, JSON lines)."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.text import Text

Event = dict[str, Any]  # always has "event" and "time"


class Renderer(Protocol):
    """Shows events to a person or a program. Used as a context manager, so that the terminal is always restored."""

    def __call__(self, event: Event) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Silent:
    """Shows nothing: for callers in Python."""

    def __call__(self, event: Event) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lines(Silent):
    """Plain lines for pipes and logs: every event that matters, and progress at each tenth of the explanations, though
    at most every five seconds; where a tenth takes long, after a quarter of the time so far, or ten minutes.
    """

    def __init__(self, write: Callable[[str], object] | None = None, every: float = 5.0) -> None:
        self.write, self.every = write or sys.stderr.write, every
        self.began = self.last = 0.0  # the first run, and the last line about progress
        self.tenths = 0

    def __call__(self, event: Event) -> None:
        if event["event"] == "run_started" and not self.began:
            self.began = self.last = event["time"]
            self.tenths = _tenths(event)
        elif event["event"] == "progress":
            patience = 0.0 if _tenths(event) > self.tenths else min(600.0, (event["time"] - self.began) / 4)
            if event["time"] - self.last < max(self.every, patience):
                return
            self.last, self.tenths = event["time"], _tenths(event)
        text = describe(event)
        if text:
            self.write(text + "\n")


class JsonLines(Silent):
    """Every event as one JSON line."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self.write = write or sys.stdout.write

    def __call__(self, event: Event) -> None:
        self.write(json.dumps(event, ensure_ascii=False) + "\n")


class _Elapsed(ProgressColumn):
    """Goes on when the bar is full: the findings follow, or the page."""

    def render(self, task: Task) -> Text:
        return Text(str(timedelta(seconds=int(task.elapsed or 0.0))), style="progress.elapsed")


class Live(Silent):
    """A progress bar with the time left, warnings above it."""

    def __init__(self, console: Console | None = None) -> None:
        self.progress = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(bar_width=None), TextColumn("{task.fields[now]}"),
            _Elapsed(), console=console or Console(stderr=True), expand=True,
        )  # fmt: skip
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, event: Event) -> None:
        if event["event"] == "run_started":
            begun = {"description": event["name"], "completed": event["pairs_done"], "now": "starting workers"}
            if self.task is None:
                self.task = self.progress.add_task(total=event["pairs"], **begun)
            self.progress.update(self.task, **begun)
            if event["cells_done"]:
                self.progress.console.print(describe(event), markup=False, highlight=False)
        elif event["event"] == "progress" and self.task is not None:
            counts = f"{event['pairs_done']:,} of {event['pairs']:,}"
            now = f"{counts}, {left}" if (left := _left(event)) else f"{counts} explanations"
            self.progress.update(self.task, completed=event["pairs_done"], now=now)
        elif event["event"] == "phase" and self.task is not None:
            self.progress.update(self.task, description=event["name"], now=event["text"])
        elif event["event"] == "run_done" and self.task is not None:
            self.progress.update(self.task, now=describe(event))
        elif event["event"] in ("job_retry", "job_failed", "warning", "note"):
            self.progress.console.print(describe(event), markup=False, highlight=False)


def renderer(style: str | None = None) -> Renderer:
    """`live` on a terminal, `plain` when piped; `json` and `none` on request."""
    style = style or ("live" if sys.stderr.isatty() else "plain")
    return {"live": Live, "plain": Lines, "json": JsonLines, "none": Silent}[style]()


def describe(event: Event) -> str:
    """One line of plain English, or nothing (also for an event read from a damaged log)."""
    try:
        return _describe(event)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return ""


def _describe(event: Event) -> str:
    match event["event"]:
        case "run_started":
            kept = f", {event['cells_done']} of them already done" if event["cells_done"] else ""
            return f"{event['name']}: {event['cells']} cells in {event['jobs']} jobs{kept}, {_workers(event)}"
        case "progress":
            counts = f"{event['name']}: {event['pairs_done']:,} of {event['pairs']:,} explanations"
            return ", ".join(filter(None, [counts, _left(event)]))
        case "phase":
            return f"{event['name']}: {event['text']}"
        case "job_retry":
            return f"trying {event['title']} again: {event['reason']}"
        case "job_failed":
            return f"failed: {event['title']}: {event['reason']}"
        case "warning":
            return f"warning: {event['text']}"
        case "note":
            return str(event["text"])
        case "run_done":
            failed = f", {event['failures']} failures" if event["failures"] else ""
            return f"done: {event['rows']} new rows{failed} in {duration(event['seconds'])}"
    return ""


_UNTIL = {"explanations": "the rest in", "page": "the page in"}  # what the seconds of a progress event lead to


def _left(event: Event) -> str:
    return "" if event["seconds_left"] is None else f"{_UNTIL[event['until']]} {roughly(event['seconds_left'])}"


def _tenths(event: Event) -> int:
    return 10 * int(event["pairs_done"]) // max(1, int(event["pairs"]))


def _workers(event: Event) -> str:
    if places := event.get("places"):
        return "; ".join(places)
    return "as many workers as the cluster has room for" if event["workers"] is None else f"{event['workers']} workers"


def duration(seconds: float) -> str:
    """
    >>> duration(7.2), duration(200), duration(8000)
    ('7 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def roughly(seconds: float) -> str:
    """An estimate, to no more figures than it is worth.

    >>> [roughly(s) for s in (3, 12, 56, 130, 4000, 50_000, 400_000)]
    ['a few seconds', 'about 10 s', 'about 60 s', 'about 2 min', 'about 70 min', 'about 15 h', 'about 5 days']
    """
    if seconds < 7.5:
        return "a few seconds"
    units = (("s", 1, 105), ("min", 60, 105), ("h", 3600, 42), ("days", 86400, math.inf))
    unit, size, _ = next(each for each in units if seconds / each[1] < each[2])
    steps = [step * 10**power for power in range(4) for step in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)]
    return f"about {min(steps, key=lambda step: abs(step - seconds / size)):g} {unit}"


def stamp(kind: str, **fields: Any) -> Event:
    return {"event": kind, "time": round(time.time(), 3), **fields}

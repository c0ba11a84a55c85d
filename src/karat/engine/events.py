"""One event stream: written to events.jsonl, and shown by one of three renderers (live, plain lines, JSON lines)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

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
    """Plain lines for pipes and logs: every event that matters, and progress at most every two seconds."""

    def __init__(self, write: Callable[[str], object] = sys.stderr.write, every: float = 2.0) -> None:
        self.write, self.every, self.last = write, every, 0.0

    def __call__(self, event: Event) -> None:
        if event["event"] in ("job_done", "progress"):
            if event["time"] - self.last < self.every:
                return
            self.last = event["time"]
        text = describe(event)
        if text:
            self.write(text + "\n")


class JsonLines(Silent):
    """Every event as one JSON line."""

    def __init__(self, write: Callable[[str], object] = sys.stdout.write) -> None:
        self.write = write

    def __call__(self, event: Event) -> None:
        self.write(json.dumps(event, ensure_ascii=False) + "\n")


class Live(Silent):
    """A progress bar with the time left, warnings above it."""

    def __init__(self, console: Console | None = None) -> None:
        self.progress = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("explanations"),
            TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=console or Console(stderr=True),
        )  # fmt: skip
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, event: Event) -> None:
        if event["event"] == "run_started":
            totals = {"total": event["pairs"], "completed": event["pairs_done"]}
            self.task = self.progress.add_task(event["name"], **totals, left="")
            if event["cells_done"]:
                self.progress.console.print(describe(event), markup=False, highlight=False)
        elif event["event"] == "progress" and self.task is not None:
            self.progress.update(self.task, completed=event["pairs_done"], left=_left(event).removeprefix(", "))
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
            return f"{event['pairs_done']}/{event['pairs']} explanations{_left(event)}"
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


def _left(event: Event) -> str:
    return f", about {duration(event['seconds_left'])} left" if event["seconds_left"] is not None else ""


def _workers(event: Event) -> str:
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


def stamp(kind: str, **fields: Any) -> Event:
    return {"event": kind, "time": round(time.time(), 3), **fields}

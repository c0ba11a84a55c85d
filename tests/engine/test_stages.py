"""Several runs shown as one: in the recorded demos, and resumed ones."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from run_logs import RECORDED, Clock, Estimate, recorded, replay

from karat.cli.demo import SPECS
from karat.engine.events import Event, Lines, Live, Silent, describe
from karat.engine.stages import Stage, Stages


class Collect(Silent):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)


def play(path: Path, show: Any, done_before: Sequence[int] = (0, 0, 0)) -> Iterator[Event]:
    """The recorded demo through `Stages`, with the clock at each event."""
    logs, lines = recorded(path)
    begins = [line["at"] for line in lines if "spec" in line]
    pairs = [sum(cell.stop - cell.start for job in log.jobs for cell in job.cells) for log in logs]
    stages = [
        Stage(log.name, n + done, done, *SPECS[log.name]) for log, n, done in zip(logs, pairs, done_before, strict=True)
    ]
    whole = Stages(show, "demo", stages)
    with Clock() as clock:
        for stage, log, began in zip(stages, logs, begins, strict=True):
            clock.now = began
            whole.next("about it")
            common = {"name": log.name, "pairs": stage.pairs}
            started = {"cells": 80, "cells_done": 0, "jobs": len(log.jobs), "workers": log.workers}
            whole({"event": "run_started", "time": clock.now, **common, **started, "pairs_done": stage.pairs_done})
            for event in replay(log, clock, began):
                whole({**event, **common, "pairs_done": event["pairs_done"] + stage.pairs_done})
                yield event
            whole({"event": "phase", "time": clock.now, "name": log.name, "text": "working out the findings"})
        whole.end("making the page")


def total(path: Path) -> float:
    page: float = recorded(path)[1][-1]["at"]
    return page


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_page_is_there_when_they_say(path: Path) -> None:
    show, page = Collect(), total(path)
    moments = [event["time"] for event in play(path, show)]
    events = [event for event in show.events if event["event"] == "progress"]
    told = [
        Estimate(moment, describe(event), page - moment)
        for moment, event in zip(moments, events, strict=True)
        if event["seconds_left"] is not None
    ]
    for estimate in told:
        assert estimate.within(4 if estimate.at < page / 4 else 2), estimate
    assert told[0].at < page / 3
    assert " explanations, the page in about " in told[0].said
    counts = [event["pairs_done"] for event in events]
    assert counts == sorted(counts)
    assert {event["pairs"] for event in events} == {counts[-1]} == {sum(s.pairs for s in _stages(path))}


def _stages(path: Path) -> list[Stage]:
    return [
        Stage(log.name, sum(cell.stop - cell.start for job in log.jobs for cell in job.cells), 0, *SPECS[log.name])
        for log in recorded(path)[0]
    ]


def test_the_seconds_of_the_demo_are_those_of_the_quiet_recording() -> None:
    [path] = [path for path in RECORDED if path.stem == "quiet"]
    _, lines = recorded(path)
    for spec in [i for i, line in enumerate(lines) if "spec" in line]:
        explaining, after = SPECS[lines[spec]["spec"]]
        ticks = [line for line in lines[spec:] if "tick" in line or "page" in line]
        end = next(line["at"] for line in lines[spec:] if "end" in line)
        first, own = ticks[0], [line["at"] for line in ticks if line["at"] < end]
        following = next(line for line in ticks if line["at"] > end)
        assert own[-1] - first["at"] == pytest.approx(explaining, rel=0.3)
        assert following["at"] - following.get("tick", [0])[-1] - own[-1] == pytest.approx(after, rel=0.3)


def test_what_an_earlier_demo_has_left_counts_as_done_and_takes_no_time() -> None:
    show = Collect()
    for _ in play(RECORDED[0], show, done_before=(0, 1000, 0)):
        pass
    events = [event for event in show.events if event["event"] == "progress"]
    assert events[0]["pairs_done"] == 12 + 1000
    assert events[-1]["pairs_done"] == events[-1]["pairs"]
    whole = Stages(show, "demo", [Stage("a", 10, 10, 5.0, 1.0), Stage("b", 10, 0, 5.0, 3.0)])
    with Clock() as clock:
        whole.next("done before")
        whole.next("to do")
        for done, moment in ((1, 100.0), (10, 109.0)):
            clock.now = moment
            whole({"event": "progress", "time": moment, "name": "b", "pairs": 10, "pairs_done": done})
    assert show.events[-1]["seconds_left"] == pytest.approx(9 * 3.0 / 4.5)  # one explanation in half a second, there


def test_there_is_one_bar_and_few_lines() -> None:
    lines: list[str] = []
    text = io.StringIO()
    live = Live(Console(file=text, force_terminal=True, width=100, height=30))
    for _ in play(RECORDED[0], Lines(lines.append)):
        pass
    progress = [line for line in lines if " explanations" in line]
    assert 6 <= len(progress) <= 16
    assert progress[-1].startswith("demo 3 of 3: pixel-quick: ")
    with live:
        for _ in play(RECORDED[0], live):
            pass
        assert len(live.progress.tasks) == 1
    [bar] = [line for line in text.getvalue().splitlines() if "making the page" in line][-1:]
    assert "demo" in bar
    assert "3 of 3" not in bar

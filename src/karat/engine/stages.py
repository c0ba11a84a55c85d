"""Several runs shown as one: one count, one bar, and the time until the page that is made of them is there.

How long each run takes beside the others was measured once (`Stage`), so the pace of this machine so far tells the
rest. Nothing is said before a tenth of the way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from karat.engine.events import Event, Renderer, Silent, stamp

LEAST = 0.1


@dataclass(frozen=True)
class Stage:
    """One run, and how long it took on some machine: only the ratios to other stages count."""

    name: str
    pairs: int  # explanations
    pairs_done: int  # those that are there before it starts
    explaining: float  # seconds from its first explanation to its last
    after: float  # seconds from there to the first explanation of the next stage, or to the page

    def seconds(self, pairs_done: int) -> float:
        """From its beginning until so many explanations are there."""
        return self.explaining * (pairs_done - self.pairs_done) / self.pairs


class Stages(Silent):
    """Shows the events of one run after the other as those of one whole, called `title`."""

    def __init__(self, show: Renderer, title: str, stages: Sequence[Stage]) -> None:
        self.show, self.title, self.stages = show, title, stages
        self.at = -1
        self.began: tuple[float, float] | None = None  # the moment and the place of the first explanation

    def next(self, about: str) -> None:
        """The next run is about to begin."""
        self.at += 1
        self.show(stamp("note", text=f"{self._name}: {about}"))

    def end(self, text: str) -> None:
        """What follows the last run is about to begin."""
        self.show(stamp("phase", name=self.title, text=text))

    def __call__(self, event: Event) -> None:
        if "name" in event:
            event = {**event, "name": self._name}
        if "pairs_done" in event:
            before, later = self.stages[: self.at], self.stages[self.at + 1 :]
            pairs_done = sum(s.pairs for s in before) + event["pairs_done"] + sum(s.pairs_done for s in later)
            totals = {"pairs": sum(s.pairs for s in self.stages), "pairs_done": pairs_done}
            if event["event"] == "progress":
                totals |= {"seconds_left": self._seconds_left(event["pairs_done"]), "until": "page"}
            event = {**event, **totals}
        self.show(event)

    @property
    def _name(self) -> str:
        return f"{self.title} {self.at + 1} of {len(self.stages)}: {self.stages[self.at].name}"

    def _seconds_left(self, pairs_done: int) -> float | None:
        """At the pace so far."""
        before, stage = self.stages[: self.at], self.stages[self.at]
        place = sum(s.seconds(s.pairs) + s.after for s in before) + stage.seconds(pairs_done)
        whole = sum(s.seconds(s.pairs) + s.after for s in self.stages)
        if self.began is None:
            self.began = time.monotonic(), place
        began, first = self.began
        if place - first < LEAST * (whole - first):
            return None
        return (time.monotonic() - began) * (whole - place) / (place - first)

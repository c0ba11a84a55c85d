"""Trackers: an object with three methods that gets a run's events, whatever service it passes them on to.

    class Mine:
        def start(self, name, settings): ...   # once: the run's name, and its sizes
        def event(self, event): ...            # every event: {"event": "progress", "time": ..., ...}
        def end(self): ...                     # once, however the run ends

A tracker that fails is dropped with a warning: a run never ends because of one.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from karat.engine.events import Event, Renderer, stamp
from karat.kernel.errors import BadInput
from karat.kernel.roles import plays


class Tracker(Protocol):
    def start(self, name: str, settings: Mapping[str, Any]) -> None: ...
    def event(self, event: Mapping[str, Any]) -> None: ...
    def end(self) -> None: ...


def tracker_named(name: str) -> Tracker:
    """The tracker at `module:Name`, made without arguments."""
    module, _, attribute = name.partition(":")
    try:
        tracker = vars(importlib.import_module(module))[attribute]()
    except (ImportError, KeyError, ValueError) as error:
        raise BadInput(f"--tracker {name}: expected module:Name of a class; {type(error).__name__}: {error}.") from None
    if not plays(tracker, Tracker):
        raise BadInput(f"--tracker {name}: a tracker has the methods start, event and end (see karat.engine.trackers).")
    return tracker


class Tracked:
    """Shows events as `renderer` does, and tells the trackers.

    Example:
        >>> run(spec, "runs/mine", show=Tracked(renderer(), [Mine()]))  # doctest: +SKIP
    """

    def __init__(self, renderer: Renderer, trackers: Sequence[Tracker]) -> None:
        self.renderer, self.trackers = renderer, list(trackers)

    def __call__(self, event: Event) -> None:
        self.renderer(event)
        for tracker in list(self.trackers):
            if event["event"] == "run_started":
                settings = {key: value for key, value in event.items() if key not in ("event", "time", "name")}
                self._tell(tracker, lambda to=tracker, sizes=settings: to.start(event["name"], sizes))
            self._tell(tracker, lambda to=tracker: to.event(event))

    def __enter__(self) -> Self:
        self.renderer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tracker in list(self.trackers):
            self._tell(tracker, tracker.end)
        self.renderer.__exit__(kind, error, trace)

    def _tell(self, tracker: Tracker, act: Any) -> None:
        if tracker not in self.trackers:
            return
        try:
            act()
        except Exception as error:  # another's code, or a server that is away
            self.trackers.remove(tracker)
            text = f"tracker {type(tracker).__name__} is left out from here on: {type(error).__name__}: {error}"
            self.renderer(stamp("warning", text=text))

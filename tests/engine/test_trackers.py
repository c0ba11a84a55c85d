"""Trackers get every event; one that fails is left out and the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from karat.engine.events import Silent
from karat.engine.run import run
from karat.engine.trackers import Tracked, tracker_named
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec

SPEC = {"protocol": "localization", "models": ["gridprog.pure"], "datasets": [{"name": "grid", "per_bucket": 2}],
        "explainers": ["control/random"], "limit": 2, "keep_maps": False}  # fmt: skip


class Keeps:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        self.calls.append(("start", (name, settings["jobs"])))

    def event(self, event: Mapping[str, Any]) -> None:
        self.calls.append(("event", event["event"]))

    def end(self) -> None:
        self.calls.append(("end", None))


class Fails(Keeps):
    def event(self, event: Mapping[str, Any]) -> None:
        raise ConnectionError("the server is away")


class Heard(Silent):
    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.append(event)


def test_a_run_is_told_from_start_to_end_and_a_failing_tracker_harms_nobody(tmp_path: Path) -> None:
    kept, failing, heard = Keeps(), Fails(), Heard()
    finished = run(Spec.parse(SPEC), tmp_path, workers=0, show=Tracked(heard, [failing, kept]))
    assert len(finished.scores())
    assert kept.calls[0] == ("start", ("run", 1))
    assert kept.calls[-1] == ("end", None)
    events = [what for kind, what in kept.calls if kind == "event"]
    assert {"run_started", "job_done", "run_done"} <= set(events)
    assert [e["text"] for e in heard.events if e["event"] == "warning" and "Fails" in e["text"]]
    assert len(failing.calls) == 1


def test_what_is_no_tracker_is_said_before_any_work() -> None:
    assert isinstance(tracker_named(f"{__name__}:Keeps"), Keeps)
    with pytest.raises(BadInput, match="start, event and end"):
        tracker_named(f"{__name__}:Heard")
    with pytest.raises(BadInput, match="module:Name"):
        tracker_named("nowhere:Thing")


def test_mlflow_takes_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: the example was not tried")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    from docs.examples.trackers import ToMlflow

    run(Spec.parse(SPEC), tmp_path / "run", workers=0, show=Tracked(Silent(), [ToMlflow()]))
    client = mlflow.tracking.MlflowClient((tmp_path / "mlruns").as_uri())
    kept = client.search_runs([client.get_experiment_by_name("karat").experiment_id])
    assert len(kept) == 1
    assert kept[0].info.status == "FINISHED"
    assert kept[0].data.params["jobs"] == "1"
    assert kept[0].data.metrics["rows"] > 0

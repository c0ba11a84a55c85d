"""Trackers get every event; one that fails is left out and the run goes on."""

from __future__ import annotations

import importlib.util
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


def example(name: str) -> Any:
    """A tracker of the docs, which are no package."""
    place = Path(__file__).parents[2] / "docs" / "examples" / "trackers.py"
    spec = importlib.util.spec_from_file_location("trackers", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)[name]()


def test_what_is_no_tracker_is_said_before_any_work() -> None:
    assert isinstance(tracker_named(f"{__name__}:Keeps"), Keeps)
    with pytest.raises(BadInput, match="start, event and end"):
        tracker_named(f"{__name__}:Heard")
    with pytest.raises(BadInput, match="module:Name"):
        tracker_named("nowhere:Thing")


@pytest.mark.parametrize("store", ["sqlite", "file"])
def test_mlflow_takes_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    """MLflow 3 wants a database, for which its small package (`mlflow-skinny`) needs SQLAlchemy and alembic beside it;
    its file store must be allowed by name."""
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: the example was not tried")
    if store == "sqlite":
        for package in ("sqlalchemy", "alembic"):
            pytest.importorskip(package, reason="MLflow's SQLite store needs SQLAlchemy and alembic")
    place = {"sqlite": f"sqlite:///{tmp_path}/mlflow.db", "file": (tmp_path / "mlruns").as_uri()}[store]
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    monkeypatch.chdir(tmp_path)  # artifacts of a database go beside it
    run(Spec.parse(SPEC), tmp_path / "run", workers=0, show=Tracked(Silent(), [example("ToMlflow")]))
    client = mlflow.tracking.MlflowClient(place)
    [kept] = client.search_runs([client.get_experiment_by_name("karat").experiment_id])
    assert kept.info.status == "FINISHED"
    assert kept.data.params["jobs"] == "1"
    assert kept.data.metrics["rows"] > 0


def test_weights_and_biases_takes_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline: a run is a folder with a log of its own, and nothing leaves the machine."""
    pytest.importorskip("wandb", reason="Weights & Biases is not installed: the example was not tried")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    heard = Heard()
    run(Spec.parse(SPEC), tmp_path / "run", workers=0, show=Tracked(heard, [example("ToWandb")]))
    assert not [e for e in heard.events if e["event"] == "warning" and "ToWandb" in e["text"]]
    [log] = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    assert log.stat().st_size > 0

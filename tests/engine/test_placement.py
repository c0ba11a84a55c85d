"""Who gets which job on a cluster: models stay where their weights are. No Ray is needed to see it."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import toys
import yaml

from karat.cli.run import run
from karat.engine.executors.job import Report
from karat.engine.executors.ray import room
from karat.engine.executors.ray_driver import Driver, Slot, _anywhere
from karat.engine.executors.ray_resources import resources, shares
from karat.engine.plan import Plan, plan
from karat.engine.run import run as carry_out
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.results.files import PlaceFailed
from karat.results.store import Store


def driver(planned: Plan, nodes: str, tmp_path: Path) -> Driver:
    """With an idle actor on every node named (twice: two of them)."""
    made = Driver(None, planned, planned.grid, Store(tmp_path), None, 2)
    method = SimpleNamespace(remote=lambda job, number, care, watched: job)
    actor = SimpleNamespace(run=method)
    made.slots = [Slot(actor, 0, None, node) for node in nodes]
    return made


def played(made: Driver) -> list[tuple[str, int]]:
    """Every job handed out and finished, round by round: (node, model) of each."""
    order = []
    while any(made.waiting.values()):
        made._hand_out()
        for slot in made.slots:
            if slot.task is not None:
                assert slot.model == slot.task.job.model
                order.append((slot.node, slot.model))
                slot.task = slot.running = None
    return order


def two_models(samples: int) -> Plan:
    models: list[Any] = ["toys:Toy", {"name": "toys:Toy", "weights": "b"}]
    return plan(Spec.parse(toys.spec(models=models, datasets=[{"name": "toys:Squares", "n": samples}])))


def test_each_node_keeps_to_one_model_as_long_as_it_has_jobs(tmp_path: Path) -> None:
    order = played(driver(two_models(32), "aabb", tmp_path))
    assert len(order) == 2 * 8
    assert set(order) == {("a", 0), ("b", 1)}  # every model is loaded on one node only


def test_a_node_that_has_run_out_helps_with_another_model(tmp_path: Path) -> None:
    made = driver(two_models(32), "ab", tmp_path)
    for _ in range(3):
        made.waiting[0].popleft()  # done already, in an earlier run
    order = played(made)
    assert order.count(("b", 0)) == 5  # the whole of it
    assert ("a", 0) not in order
    assert order.count(("b", 1)) >= 1
    assert len(order) == 8 + 5


def test_more_actors_than_jobs_stand_idle(tmp_path: Path) -> None:
    made = driver(two_models(4), "aaabbb", tmp_path)
    made._hand_out()
    assert sum(slot.task is not None for slot in made.slots) == 2


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"CPU": 1.0}, 12),
        ({"CPU": 1.0, "GPU": 1.0}, 2),
        ({"CPU": 1.0, "GPU": 0.5}, 4),
        ({"CPU": 1.0, "GPU": 0.2}, 8),
        ({"GPU": 0.1}, 20),
        ({"CPU": 1.0, "TPU": 1.0}, 0),
    ],
)
def test_a_share_is_what_a_model_declares(wanted: dict[str, float], expected: int) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}}, {"Alive": True, "Resources": {"CPU": 4.0}}]
    assert shares([*nodes, {"Alive": False, "Resources": {"CPU": 64.0}}], wanted) == expected


def test_a_cluster_has_room_for_the_rarest_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 8.0, "GPU": 6.0}}]
    cluster = nullcontext(SimpleNamespace(nodes=lambda: nodes))
    monkeypatch.setattr("karat.engine.executors.ray._connected", lambda address: cluster)
    planned = plan(Spec.parse(toys.spec(models=["toys:Toy", {"name": "toys:Hungry", "weights": "b"}])))
    assert room(planned) == 3
    nodes[0]["Resources"] = {"CPU": 8.0}
    with pytest.raises(BadInput, match="no node of the Ray cluster has 1 CPU, 2 GPU"):
        room(planned)


def test_a_dry_run_asks_the_cluster_how_many_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("karat.engine.executors.ray.room", lambda planned, address, per_device: 37)
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(toys.spec(datasets=[{"name": "toys:Squares", "n": 400}])))
    carry_out(Spec.parse(toys.spec()), tmp_path / "part", workers=0)
    run(str(spec), out=str(tmp_path / "run"), dry_run=True, engine="ray", address="somewhere:6379")
    assert "with 37 workers" in capsys.readouterr().out


def test_models_that_hold_other_resources_have_actors_of_their_own(tmp_path: Path) -> None:
    planned = plan(Spec.parse(toys.spec(models=["toys:Toy", {"name": "toys:Hungry", "weights": "b"}])))
    made = Driver(None, planned, planned.grid, Store(tmp_path), None, 2)
    held = [dict(kind) for kind in made.kinds]
    assert [held[made.kind_of[m]] for m in (0, 1)] == [resources(recipe) for recipe in planned.models]
    assert made.kind_of[0] > made.kind_of[1]  # the one that wants GPUs is placed before the cores are taken


def test_a_node_that_takes_many_starting_actors_down_is_no_fault_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = driver(two_models(32), "a" * 16, tmp_path)
    made.ray = SimpleNamespace(kill=lambda actor: None)
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for slot in list(made.slots):
        assert list(made._lost(slot, "its node died")) == []
    assert made.slots == []
    for again in range(2):  # but where nothing ever starts, the run ends with a line that says so
        now[0] += 10
        made.slots = [Slot(SimpleNamespace(), 0, None, "a")]
        if again:
            with pytest.raises(BadInput, match="workers do not start"):
                list(made._lost(made.slots[0], "no karat here"))
        else:
            list(made._lost(made.slots[0], "no karat here"))
    made.worked = True  # where others have worked, they go on
    made.failed_starts = 2
    now[0] += 10
    made.slots = [Slot(SimpleNamespace(), 0, None, "a")]
    [said] = made._lost(made.slots[0], "no karat here")
    assert said.kind == "warning"
    assert "workers do not start" in said.value
    assert made.resting > now[0]


def heard(made: Driver, slot: Slot, answer: object) -> list[Report]:
    """What the driver makes of an answer to the question that a slot is waiting for."""
    made.ray = SimpleNamespace(
        get=lambda ref: answer, kill=lambda actor: None, exceptions=SimpleNamespace(RayError=OSError)
    )
    return [*made._hear(slot, slot.starting or slot.looking or slot.running), *made._refused()]


def test_a_badly_set_up_node_ends_a_run_only_where_none_works(tmp_path: Path) -> None:
    made = driver(two_models(32), "", tmp_path)
    first, second = made.slots = [Slot(SimpleNamespace(), 0, object()) for _ in range(2)]
    assert heard(made, first, ("a", "on a the spec means other cells")) == []  # the other has not answered yet
    with pytest.raises(BadInput, match="on a the spec means other cells"):
        heard(made, second, ("b", "on b the spec means other cells"))


@pytest.mark.parametrize("good_first", [True, False])
def test_a_badly_set_up_node_is_left_out_whoever_answers_first(good_first: bool, tmp_path: Path) -> None:
    made = driver(two_models(32), "", tmp_path)
    good, bad = made.slots = [Slot(SimpleNamespace(), 0, object()) for _ in range(2)]
    answers = [(good, ("a", "")), (bad, ("b", "on b the spec means other cells"))]
    said = [
        report for slot, answer in (answers if good_first else answers[::-1]) for report in heard(made, slot, answer)
    ]
    assert [(each.kind, each.value) for each in said] == [
        ("warning", "a node is left out: on b the spec means other cells")
    ]
    assert made.slots == [good]
    assert made.avoided == {(0, "b")}


def test_a_node_that_was_left_out_gets_no_actor(tmp_path: Path) -> None:
    made = driver(two_models(32), "", tmp_path)
    asked: list[dict[str, Any]] = []

    class Remote:
        def options(self, **options: Any) -> Any:
            asked.append(options)
            return SimpleNamespace(remote=lambda *_: SimpleNamespace(ready=SimpleNamespace(remote=object)))

    nodes = [{"NodeID": name, "Alive": True, "Resources": {"CPU": 2.0}} for name in "abc"]
    made.ray = SimpleNamespace(nodes=lambda: nodes, remote=lambda **_: lambda _: Remote())
    made.avoided = {(0, "b"), (0, "c")}
    made._grow()
    assert len(made.slots) == 2
    assert [options["label_selector"] for options in asked] == [{"ray.io/node-id": "!in(b,c)"}] * 2  # Ray trims nothing


def test_a_late_answer_is_not_credited_to_the_next_job(tmp_path: Path) -> None:
    made = driver(two_models(32), "a", tmp_path)
    made._hand_out()
    [slot] = made.slots
    slot.looking, first = object(), slot.number
    slot.task = slot.running = None  # the first job has ended in the meantime
    made._hand_out()
    assert heard(made, slot, (first, [(0, 2, 1.0)])) == []
    slot.looking = object()
    [tick] = heard(made, slot, (slot.number, [(0, 2, 1.0)]))
    assert tick.kind == "tick"


def test_waiting_for_a_node_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = driver(two_models(4), "", tmp_path)
    made.placed = {0}  # there was one before
    made.ray = SimpleNamespace(nodes=list)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            made.waiting.clear()

    monkeypatch.setattr("time.sleep", sleep)
    assert [report.kind for report in made.reports()] == ["warning"]
    assert len(slept) == 3


def test_actors_that_nothing_starts_are_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--workers` actors are asked for, room or not: they may wait for a node as well."""
    made = driver(two_models(4), "", tmp_path)
    made.slots = [Slot(SimpleNamespace(), 0, object())]
    made.looked = made.heard = time.monotonic()
    asked: list[object] = []

    def wait(refs: list[object], **_: Any) -> tuple[list[object], list[object]]:
        asked.append(refs)
        made.heard = made.looked - 1e6 if len(asked) == 4 else made.heard  # long ago
        if len(asked) == 8:
            made.waiting.clear()
        return [], refs

    made.ray = SimpleNamespace(wait=wait)
    assert [report.kind for report in made.reports()] == ["warning"]


def test_a_place_that_fails_is_tried_again_and_ends_the_run_only_then(tmp_path: Path) -> None:
    made = driver(two_models(4), "a", tmp_path)
    said = []
    for _ in range(2):
        made._hand_out()
        job = made.slots[0].task.job  # type: ignore[union-attr]  handed out just now
        said += [report.kind for report in made._ended(made.slots[0], [], "unstored", "cannot write")]
        made.waiting = {job.model: made.waiting[job.model]}
    assert said == ["retry", "retry"]
    made._hand_out()
    with pytest.raises(PlaceFailed, match="cannot write"):
        list(made._ended(made.slots[0], [], "unstored", "cannot write"))


def test_actors_get_a_place_that_means_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _anywhere(Store("runs/mine")).root == str(tmp_path / "runs/mine")
    assert _anywhere(Store("s3://bucket/run")).root == "s3://bucket/run"

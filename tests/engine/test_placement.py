"""Who gets which job on a cluster: models stay where their weights are. No Ray is needed to see it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import toys

from assay.engine.executors.ray import _Driver, _Slot, resources, shares
from assay.engine.plan import Plan, plan
from assay.kernel.errors import BadInput
from assay.kernel.spec import Spec
from assay.results.store import Store


def driver(planned: Plan, nodes: str, tmp_path: Path) -> _Driver:
    """With an idle actor on every node named (twice: two of them)."""
    made = _Driver(None, planned, planned.grid, Store(tmp_path), None, 2)
    method = SimpleNamespace(remote=lambda job: job)
    actor = SimpleNamespace(run=method, run_carefully=method)
    made.slots = [_Slot(actor, 0, None, node) for node in nodes]
    return made


def played(made: _Driver) -> list[tuple[str, int]]:
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
    [({"CPU": 1.0}, 12), ({"CPU": 1.0, "GPU": 1.0}, 2), ({"CPU": 1.0, "GPU": 0.5}, 4), ({"CPU": 1.0, "TPU": 1.0}, 0)],
)
def test_a_share_is_what_a_model_declares(wanted: dict[str, float], expected: int) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}}, {"Alive": True, "Resources": {"CPU": 4.0}}]
    assert shares([*nodes, {"Alive": False, "Resources": {"CPU": 64.0}}], wanted) == expected


def test_models_that_hold_other_resources_have_actors_of_their_own(tmp_path: Path) -> None:
    planned = plan(Spec.parse(toys.spec(models=["toys:Toy", {"name": "toys:Hungry", "weights": "b"}])))
    made = _Driver(None, planned, planned.grid, Store(tmp_path), None, 2)
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
        made.slots = [_Slot(SimpleNamespace(), 0, None, "a")]
        if again:
            with pytest.raises(BadInput, match="workers do not start"):
                list(made._lost(made.slots[0], "no assay here"))
        else:
            list(made._lost(made.slots[0], "no assay here"))

"""A Ray cluster of two node processes on loopback: kill a worker, kill a node, add one, restart the driver.

Whatever happens, the run ends with exactly the rows of an undisturbed one, none twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import toys
import yaml
from faulty import INJECTED

from karat.engine.crash_isolation import Care
from karat.engine.plan import plan
from karat.engine.run import run
from karat.engine.status import status
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.results import load_run

pytest.importorskip("ray", reason="the ray extra is not installed")
pytestmark = pytest.mark.xdist_group("ray")  # one cluster at a time is enough for a small machine

SPEC = toys.spec(
    models=["toys:Toy", {"name": "toys:Toy", "weights": "b"}],
    datasets=[{"name": "toys:Squares", "n": 48}],
    explainers=[{"name": "toys:Noise", "wait": 0.15}, "control/oracle"],
)


class Nodes:
    """The cluster and the drivers that use it."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster

    def start(self, spec: dict[str, object], out: Path, scheme: str = "") -> subprocess.Popen[str]:
        path = out.with_suffix(".yaml")
        path.write_text(yaml.safe_dump(spec))
        code = "from karat.cli.main import main; main()"
        options = ["--engine", "ray", "--address", self.cluster.address, "--progress", "json"]
        return subprocess.Popen(
            [sys.executable, "-c", code, "run", str(path), "--out", f"{scheme}{out}", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment(),
        )  # fmt: skip

    def alive(self) -> int:
        return len([node for node in self.cluster.list_all_nodes() if node.any_processes_alive()])


def _environment() -> dict[str, str]:
    paths = os.pathsep.join(filter(None, [str(Path(toys.__file__).parent), *sys.path]))
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
    }


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ.update(_environment())  # node processes inherit it, and their workers from them
    try:
        arguments = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}
        cluster = Cluster(initialize_head=True, head_node_args=arguments)
        cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
        yield Nodes(cluster)
        cluster.shutdown()
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(Spec.parse(SPEC), tmp_path_factory.mktemp("whole"), workers=0).scores()


def wait_for(what: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.1)


def shards(out: Path) -> int:
    return len(list(out.glob("scores/*.parquet")))


def actors() -> list[int]:
    """Processes of Karat's actors on this machine that belong to a test's cluster."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().startswith(b"ray::Actor"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return sorted(found)


def finished_well(driver: subprocess.Popen[str], out: Path, rows: pd.DataFrame) -> list[dict[str, Any]]:
    said, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors
    found = load_run(out).scores()
    pd.testing.assert_frame_equal(found, rows, check_exact=True)
    assert not found.duplicated(["model", "explainer", "metric", "sample"]).any()
    return [json.loads(line) for line in said.splitlines()]  # nothing but JSON lines, whatever Ray has to say


def test_a_worker_killed_midway_costs_no_row(nodes: Nodes, tmp_path: Path, undisturbed: pd.DataFrame) -> None:
    out = tmp_path / "run"
    driver = nodes.start(SPEC, out)
    wait_for(lambda: shards(out) >= 2)
    os.kill(actors()[0], signal.SIGKILL)
    events = finished_well(driver, out, undisturbed)
    assert [e["event"] for e in events].count("job_retry") == 1
    assert "its worker was lost" in next(e["reason"] for e in events if e["event"] == "job_retry")
    assert events[-1] == {**events[-1], "event": "run_done", "rows": len(undisturbed)}
    assert max(e["pairs_done"] for e in events if e["event"] == "progress") == 48 * 2 * 2
    INJECTED["workers killed on a Ray cluster"] += 1


@pytest.mark.slow
def test_a_driver_killed_midway_is_resumed_by_the_next(nodes: Nodes, tmp_path: Path, undisturbed: pd.DataFrame) -> None:
    out = tmp_path / "run"
    first = nodes.start(SPEC, out)
    wait_for(lambda: shards(out) >= 3)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    kept = shards(out)
    events = finished_well(nodes.start(SPEC, out), out, undisturbed)
    assert events[0]["cells_done"] >= 2 * kept
    assert status(out).damaged == []
    INJECTED["drivers killed on a Ray cluster"] += 1


@pytest.mark.slow
def test_a_node_lost_midway_and_one_added(nodes: Nodes, tmp_path: Path) -> None:
    gate, out = tmp_path / "gate", tmp_path / "run"
    spec = {**SPEC, "explainers": [{"name": "toys:Patient", "gate": str(gate)}, "control/oracle"]}
    driver = nodes.start(spec, out)
    wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 2)  # both are at work
    [second] = nodes.cluster.worker_nodes
    nodes.cluster.remove_node(second, allow_graceful=False)
    assert nodes.alive() == 1
    wait_for(lambda: len(actors()) == 1)
    [survivor] = actors()
    nodes.cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    wait_for(lambda: set(actors()) > {survivor})
    wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 3)  # a third process, the new node's, is at work
    gate.touch()
    events = finished_well(driver, out, run(Spec.parse(spec), tmp_path / "whole", workers=0).scores())
    assert [e["event"] for e in events].count("job_retry") == 1
    INJECTED["nodes of a Ray cluster killed, and replaced midway"] += 1


@pytest.mark.slow
def test_a_badly_set_up_node_that_joins_midway_is_left_out(nodes: Nodes, tmp_path: Path) -> None:
    gate, out = tmp_path / "gate", tmp_path / "run"
    squares = [{"name": "faulty:Drifting", "n": 48}]
    spec = {**SPEC, "datasets": squares, "explainers": [{"name": "toys:Patient", "gate": str(gate)}, "control/oracle"]}

    def warnings() -> list[str]:
        return [e["text"] for e in load_run(out).events() if e["event"] == "warning"]

    driver = nodes.start(spec, out)
    wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 2)  # both are at work
    bad = nodes.cluster.add_node(num_cpus=2, object_store_memory=80_000_000, env_vars={"FAULTY_REVISION": "2"})
    try:
        wait_for(lambda: bool(warnings()))
        working = {int(path.suffix[1:]) for path in tmp_path.glob("gate.*")}
        os.kill(min(working), signal.SIGKILL)  # its successor must not go where there is room, but to where it was
        wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 3)
        gate.touch()
        finished_well(driver, out, run(Spec.parse(spec), tmp_path / "whole", workers=0).scores())
    finally:
        nodes.cluster.remove_node(bad)
    [said] = warnings()
    assert said.startswith("a node is left out: on ")
    assert "the spec means other cells" in said
    INJECTED["badly set up nodes added to a Ray cluster midway"] += 1


@pytest.mark.slow
def test_a_poisonous_sample_fails_alone(nodes: Nodes, tmp_path: Path) -> None:
    out = tmp_path / "run"
    spec = toys.spec(explainers=["toys:Poisoned", "control/oracle"])
    driver = nodes.start(spec, out)
    _, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors
    scores = load_run(out).scores()
    lost = scores[scores.status == "failure"]
    assert set(zip(lost.explainer, lost["sample"], strict=True)) == {("toys/poisoned", "square-5")}
    assert lost.reason.str.startswith("its worker was lost (").all()
    assert lost.reason.str.endswith("each of 2 times this sample was tried alone").all()
    assert len(scores) == 100
    INJECTED["samples that kill their process on a Ray cluster"] += 1


@pytest.mark.slow
def test_a_run_at_a_url_has_the_same_rows(nodes: Nodes, tmp_path: Path) -> None:
    """The driver and its workers are other processes than this one: all go through fsspec's local files."""
    spec, out = toys.spec(), tmp_path / "run"
    driver = nodes.start(spec, out, scheme="local://")
    _, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors
    whole = run(Spec.parse(spec), tmp_path / "whole", workers=0).scores()
    pd.testing.assert_frame_equal(load_run(f"local://{out}").scores(), whole, check_exact=True)


@pytest.mark.slow
def test_what_the_cluster_cannot_do_is_one_line(nodes: Nodes, tmp_path: Path) -> None:
    driver = nodes.start(toys.spec(models=["toys:Hungry"]), tmp_path / "run")
    _, errors = driver.communicate(timeout=300)
    assert driver.returncode == 2
    assert errors.strip().splitlines()[-1].startswith("karat: no node of the Ray cluster has 1 CPU, 2 GPU")


def test_resources_are_what_a_recipe_declares() -> None:
    from karat.engine.executors.ray_resources import resources
    from karat.models import recipe

    assert resources(toys.Toy()) == {"CPU": 1.0}
    assert resources(toys.Hungry()) == {"CPU": 1.0, "GPU": 2.0}
    assert resources(recipe("clip", path="somewhere", labels=["a", "b"], device="cuda")) == {"CPU": 1.0, "GPU": 1.0}


def test_an_actor_refuses_cells_that_are_not_the_drivers(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from karat.engine.executors.ray_actor import Actor
    from karat.results.store import Store

    spec = Spec.parse(toys.spec())
    store = Store(tmp_path)
    cells = [cell.id for cell in plan(spec).cells]
    assert Actor(spec.plain(), store, [], cells).refusal().startswith(str(tmp_path))
    store.write_json("manifest.json", {})
    assert "another version" in Actor(spec.plain(), store, [], ["another"]).refusal()
    assert Actor(spec.plain(), store, [], cells).refusal() == ""


def test_an_actor_says_which_job_its_progress_is_of(tmp_path: Path) -> None:
    from karat.engine.executors.ray_actor import Actor
    from karat.results.store import Store

    spec = Spec.parse(toys.spec())
    actor = Actor(spec.plain(), Store(tmp_path), [], [])
    actor.refusal()  # plans
    ticks, kind, _ = actor.run(plan(spec).grid[0], 7, Care(), watched=False)
    assert kind == "done"
    assert actor.progress() == (7, ticks)


def test_no_such_cluster(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot reach a Ray cluster at 127"):
        run(Spec.parse(toys.spec()), tmp_path, engine="ray", address="127.0.0.1:1")

"""The cost model against closed forms and lower bounds; what a dry run says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import toys
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karat.engine.cost import Costs, Work, bounds, simulate
from karat.engine.events import describe
from karat.engine.forecast import estimate, forecast, measured_costs, measured_rates
from karat.engine.plan import plan
from karat.engine.run import run
from karat.kernel.spec import Spec
from karat.results.store import Store

FREE = Costs(start=0, load=0, driver=0, store=0)


def test_equal_jobs_take_rounds() -> None:
    works = [Work(0, 2.0)] * 10
    assert simulate(works, 1, FREE).seconds == 20
    assert simulate(works, 4, FREE).seconds == 6
    assert simulate(works, 50, FREE).seconds == 2


def test_each_bottleneck_is_named() -> None:
    works = [Work(0, 1.0)] * 1000
    assert simulate(works, 10, FREE).bottleneck == "computing"
    slow_driver = simulate(works, 1000, Costs(start=0, load=0, driver=0.1, store=0))
    assert slow_driver.bottleneck == "the driver"
    assert slow_driver.seconds == pytest.approx(101)
    slow_store = simulate(works, 1000, Costs(start=0, load=0, driver=0, store=0.5, lanes=2))
    assert slow_store.bottleneck == "the store"
    assert slow_store.seconds == pytest.approx(251)
    assert simulate(works, 1000, Costs(start=30, load=60, driver=0, store=0)).bottleneck == (
        "starting workers and loading models"
    )
    assert simulate([*works, Work(0, 900.0)], 1000, FREE).bottleneck == "the longest job"
    three = simulate([Work(k, 40.0) for k in range(3)], 1, Costs(start=0, load=60, driver=0, store=0))
    assert three.seconds == 300
    assert three.bottleneck == "starting workers and loading models"  # 180 of them


def test_models_are_loaded_once_by_each_worker_that_needs_them() -> None:
    works = [Work(model, 1.0) for _ in range(8) for model in (0, 1)]  # the models alternate in the queue
    assert simulate(works, 2, Costs(start=0, load=100, driver=0, store=0)).seconds == 108
    assert simulate(works, 1, Costs(start=0, load=100, driver=0, store=0)).seconds == 216


def test_each_model_takes_its_own_time_to_load() -> None:
    works = [Work(0, 1.0, load=0.0), Work(1, 1.0, load=60.0), Work(2, 1.0)]
    costs = Costs(start=0, load=10, driver=0, store=0)
    assert simulate(works, 1, costs).seconds == 73
    assert simulate(works, 3, costs).seconds == 61
    assert bounds(works, 3, costs)["starting workers and loading models"] == 60


def test_loads_are_read_from_events_by_model_and_small_ones_count_as_what_they_are() -> None:
    planned = plan(Spec.parse(toys.spec(models=["toys:Toy", {"name": "toys:Toy", "weights": "b"}])))
    spent = {"explain control/random": 1.0, "explain control/oracle": 1.0}
    small, large = [0.004, 0.0, 0.0], [40.0, 0.0, 44.0, 0.0002, 0.0]
    events = [
        {"model": model, "samples": 4, "seconds": 50.0, "spent": {**spent, "load": load}}
        for model, loads in (("toy-a", small), ("toy-b", large))
        for load in loads
    ]
    works = estimate(planned.grid, measured_rates(planned, events), events)
    assert {(work.model, work.load) for work in works or []} == {(0, 0.004), (1, 42.0)}
    assert measured_costs(events[:3]).load == 0.004  # not the default of a second


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])  # no time is asserted
@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 50)), min_size=1, max_size=30),
    st.lists(st.none() | st.floats(0, 5), min_size=4, max_size=4),
    st.integers(1, 80),
    st.builds(Costs, st.floats(0, 5), st.floats(0, 5), st.floats(0, 1), st.floats(0, 1), st.integers(1, 4)),
)
def test_no_schedule_beats_its_bounds_or_wastes_more_than_everything_in_a_row(
    jobs: list[tuple[int, float]], loads: list[float | None], workers: int, costs: Costs
) -> None:
    works = [Work(model, seconds, loads[model]) for model, seconds in jobs]
    found = simulate(works, workers, costs).seconds
    assert found >= max(bounds(works, workers, costs).values()) - 1e-9
    each = max(costs.load, *(load or 0 for load in loads)) + costs.driver + costs.store
    assert found <= costs.start + sum(work.seconds + each for work in works) + 1e-9


def test_a_pair_never_timed_takes_what_the_same_explainer_takes_elsewhere() -> None:
    planned = plan(Spec.parse(toys.spec()))
    spent = {"explain control/random": 0.6, "score control/random": 0.2}
    rates = measured_rates(planned, [{"model": model, "samples": 4, "spent": spent} for model in ("toy-a", "toy-b")])
    assert rates.of("toy-a", "control/random") == rates.of("another", "control/random") == pytest.approx(0.2)
    assert rates.measured("toy-a", "control/random")
    assert not rates.measured("another", "control/random")
    assert rates.of("toy-a", "control/oracle") is None


def test_a_first_shard_counts_only_as_long_as_there_is_no_other() -> None:
    planned = plan(Spec.parse(toys.spec()))
    events = [{"model": "toy-a", "samples": 4, "spent": {"explain control/random": s}} for s in (40.0, 2.0, 4.0)]
    assert measured_rates(planned, events[:1]).of("toy-a", "control/random") == 10
    assert measured_rates(planned, events).of("toy-a", "control/random") == pytest.approx(0.75)


def test_damaged_events_are_passed_over() -> None:
    planned = plan(Spec.parse(toys.spec()))
    broken = [
        {}, {"spent": 3}, {"spent": {"explain control/random": "x"}, "model": "toy-a", "samples": 4},
        {"spent": {"explain control/random": 1.0}, "model": "toy-a", "samples": "many"},
        {"spent": {"load": None}, "model": 7, "samples": 4, "seconds": 1}, {"event": "run_started", "time": "noon"},
    ]  # fmt: skip
    assert measured_rates(planned, broken).of("toy-a", "control/random") is None
    assert estimate(planned.grid, measured_rates(planned, broken), broken) is None
    assert measured_costs(broken) == Costs()
    assert [describe(event) for event in ({"event": "progress"}, {"event": "run_done", "rows": []}, {})] == [""] * 3


def test_a_forecast_comes_from_a_part_of_the_run(tmp_path: Path) -> None:
    whole = plan(Spec.parse(toys.spec(datasets=[{"name": "toys:Squares", "n": 1000}])))
    assert forecast(whole, whole.grid, str(tmp_path / "run"), 2).startswith("unknown")
    slow = toys.spec(datasets=[{"name": "toys:Squares", "n": 1000}], limit=8)
    run(Spec.parse(slow), tmp_path / "part", workers=0)
    told = forecast(whole, whole.grid, str(tmp_path / "run"), 2)
    assert told.startswith("about ")
    assert "with 2 workers, limited by" in told
    assert "with 100 workers" in told
    more = plan(Spec.parse(toys.spec(explainers=["control/random", "toys:Noise", "control/edges"])))
    assert forecast(more, more.grid, str(tmp_path / "run"), 2).startswith(
        "unknown: no explanation by toys/noise, control/edges was timed here yet. Time two samples with `karat check"
    )
    part = Store(tmp_path / "part")
    part.write_json("spec.json", part.read_json("spec.json") | {"protocol": {"name": "synergy"}})
    assert forecast(whole, whole.grid, str(tmp_path / "run"), 2).startswith("unknown")  # another protocol's seconds


def test_what_cannot_be_read_is_not_called_done(tmp_path: Path) -> None:
    gone = [{"name": "arrays", "images": str(tmp_path / "gone.npy")}]
    planned = plan(Spec.parse(toys.spec(datasets=gone)), strict=False)
    assert planned.absent
    assert forecast(planned, planned.grid, str(tmp_path / "run"), 2).startswith("unknown: nothing of it can be run")


def test_a_dry_run_lists_every_refusal_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(toys.spec(explainers=["toys:Greedy", "control/random", "cam/gradcam"])))
    code = "from karat.cli.main import main; main()"
    told = subprocess.run(
        [sys.executable, "-c", code, "run", str(path), "--dry-run", "--out", str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1
    assert "toys/greedy, cam/gradcam" in told.stderr
    assert told.stdout.count("not run:") == 2
    assert "jobs to run\t3" in told.stdout
    assert not (tmp_path / "run").exists()


def test_finished_jobs_say_where_their_time_went(tmp_path: Path) -> None:
    run(Spec.parse(toys.spec()), tmp_path, workers=0)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    done = [json.loads(line) for line in lines if '"job_done"' in line]
    assert len(done) == 3
    assert {"load", "read", "write", "explain control/random", "score control/oracle"} <= set(done[0]["spent"])
    assert done[0]["model"] == "toy-a"
    assert done[0]["samples"] == 4

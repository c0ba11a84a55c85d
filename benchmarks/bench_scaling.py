"""The cost model beside measured runs at 1, 2 and 4 workers, and what it says of the papers' full grids.

    python benchmarks/bench_scaling.py [--jobs 24] [--seconds 1.0]

Jobs of the measured runs sleep, so that four workers are four workers on a machine with two cores. Rows are compared
between the runs first. All forecasts are made from the events of the run with one worker.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from side_by_side import compared

from assay.engine.cost import Costs, Forecast, Work, simulate
from assay.engine.events import duration
from assay.engine.forecast import estimate, measured_costs
from assay.engine.plan import plan
from assay.engine.progress import measured_rates
from assay.engine.run import run
from assay.kernel.attribution import Attribution
from assay.kernel.card import Card
from assay.kernel.spec import Spec

# Models, instances, and the accelerator hours that the papers say the whole took. The 3,700 instances of the first and
# the three models of the second are assumptions: they decide the number of jobs, not the work.
PAPERS = {"fsyn2026 (001), 300 GPU hours": (3, 3700, 300.0), "creg2026 (002), 20 GPU hours": (3, 836, 20.0)}
WORKERS = (1, 4, 16, 64, 256, 1000)
LOADING = 60.0  # seconds to load a 7B model, an assumption; starting a worker is measured


@dataclass(frozen=True)
class Sleeper:
    """Sleeps over every batch, then gives a flat map."""

    seconds: float
    card: ClassVar[Card] = Card("bench/sleeper", "sleeps", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Any) -> list[Attribution]:
        time.sleep(self.seconds)
        return [Attribution(np.ones((2, 2))) for _ in session.samples]


def same(images: np.ndarray, texts: list[str | None]) -> list[str]:
    return ["same"] * len(images)


def spec(root: Path, seconds: float) -> Spec:
    return Spec.parse(
        {
            "protocol": "localization",
            "models": [{"name": "blackbox", "fn": "bench_scaling:same", "answers": ["same"]}],
            "datasets": [{"name": "arrays", "images": str(root / "images.npy"), "masks": str(root / "masks.npy")}],
            "explainers": [{"name": "bench_scaling:Sleeper", "seconds": seconds}],
            "shard_size": 2,
            "batch_size": 2,
            "keep_maps": False,
        }
    )


def measured(root: Path, wanted: Spec) -> dict[int, tuple[float, pd.DataFrame, list[dict[str, Any]]]]:
    found = {}
    for workers in (1, 2, 4):
        began = time.monotonic()
        done = run(wanted, root / f"run-{workers}", workers=workers)
        found[workers] = time.monotonic() - began, done.scores(), list(done.events())
    return found


def driver_cost(root: Path) -> float:
    """CPU seconds of the driver for one more job: the slope between a run of few and one of many."""
    spent = []
    run(replace_limit(spec(root, 0.0), 4), root / "warm", workers=1)
    for jobs in (20, 120):
        wanted = replace_limit(spec(root, 0.0), 2 * jobs)
        began = time.process_time()
        run(wanted, root / f"driver-{jobs}", workers=1)
        spent.append(time.process_time() - began)
    return (spent[1] - spent[0]) / 100


def replace_limit(wanted: Spec, limit: int) -> Spec:
    return wanted.override([f"limit={limit}"])


def say(seen: Forecast) -> str:
    return f"{duration(seen.seconds):>12}  limited by {seen.bottleneck}"


def full_grids(costs: Costs) -> None:
    for name, (models, instances, hours) in PAPERS.items():
        for shard in (64, 8):
            jobs = models * -(-instances // shard)
            works = [Work(i % models, hours * 3600 / jobs) for i in range(jobs)]
            print(f"{name}: {models} models × {instances:,} instances in shards of {shard}: {jobs} jobs")
            for workers in WORKERS:
                print(f"  {workers:5} workers {say(simulate(works, workers, costs))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        np.save(root / "images.npy", np.zeros((240, 8, 8, 3), np.uint8))
        np.save(root / "masks.npy", np.ones((240, 8, 8), bool))
        driver = driver_cost(root)
        print(f"driver: {driver * 1e3:.1f} ms of CPU time for a job")
        wanted = replace_limit(spec(root, options.seconds), 2 * options.jobs)
        runs = measured(root, wanted)
        _, rows, events = runs[1]
        for _, other, _ in runs.values():
            pd.testing.assert_frame_equal(rows, other, check_exact=True)
        planned = plan(wanted)
        works = estimate(planned, planned.grid, measured_rates(planned, events), events)
        assert works is not None
        costs = replace(measured_costs(events), driver=driver)
        print(f"start {costs.start:.1f} s, store {costs.store * 1e3:.0f} ms a shard, as the run with one worker tells")
        for workers, (seconds, _, _) in runs.items():
            seen = simulate(works, workers, costs)
            off = seen.seconds / seconds - 1
            print(f"  {workers} workers: measured {seconds:6.1f} s, forecast {seen.seconds:6.1f} s ({off:+.0%})")
            compared(f"forecast, {workers} workers", "the run itself", seconds, seen.seconds, "rows equal", "1 ± 0.15")
        full_grids(replace(costs, load=LOADING))


if __name__ == "__main__":
    main()

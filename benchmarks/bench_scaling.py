"""The cost model beside measured runs at 1, 2 and 4 workers, and what it says of the papers' full grids.

    python benchmarks/bench_scaling.py [--jobs 24] [--seconds 1.0] [--ray] [--picture docs/images/scaling.png]

Jobs of the measured runs sleep, so that four workers are four workers on a machine with two cores. Rows are compared
between the runs first. All forecasts are made from the events of the run with one worker. `--ray` measures the driver
of a Ray cluster, too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from side_by_side import compared, in_turns, median, size

import karat
from karat.engine.cost import Costs, Forecast, Work, simulate
from karat.engine.events import duration
from karat.engine.forecast import estimate, measured_costs, measured_rates
from karat.engine.plan import plan
from karat.engine.run import run
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.registry import build
from karat.kernel.sample import Sample
from karat.kernel.spec import Spec

WORKERS = (1, 4, 16, 64, 256, 1000)
LOADING = 60.0  # seconds to load a model of some billion parameters, an assumption; starting a worker is measured
SHARDS = (64, 8)


@dataclass(frozen=True)
class Paper:
    """A paper's full grid. The work is what its authors say it took, or the passes that the shipped spec of it asks
    for, at the seconds that a pass of `probe` takes on one core here.
    """

    name: str
    models: int
    samples: int  # of each model
    hours: float | None = None
    spec: str = ""
    probe: str = ""


# The 3,700 instances of fsyn2026 are an assumption: they decide the number of jobs, not the work. ImageNet-S has 12,419
# images for validation, of which three answers each are explained; CIFAR-10 has 10,000 images for testing.
PAPERS = (
    Paper("gridvqax2026 (000)", 4, 3800, spec="papers/000-twins", probe="gridvlm"),
    Paper("fsyn2026 (001)", 3, 3700, hours=300.0),
    Paper("creg2026 (002)", 5, 836, hours=20.0),
    Paper("semscore2025 (003)", 9, 3 * 12_419, spec="semantic-classifiers", probe="ViT-base"),
    Paper("pixelrules2024 (004)", 4, 10_000, spec="papers/004-cifar10", probe="ResNet-18"),
)


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


def sleeping(root: Path, seconds: float, jobs: int) -> Spec:
    return Spec.parse(
        {
            "protocol": "localization",
            "models": [{"name": "blackbox", "fn": "bench_scaling:same", "answers": ["same"]}],
            "datasets": [{"name": "arrays", "images": str(root / "images.npy"), "masks": str(root / "masks.npy")}],
            "explainers": [{"name": "bench_scaling:Sleeper", "seconds": seconds}],
            "shard_size": 2,
            "batch_size": 2,
            "limit": 2 * jobs,
            "keep_maps": False,
        }
    )


def measured(root: Path, wanted: Spec) -> dict[int, tuple[float, pd.DataFrame, list[dict[str, Any]]]]:
    runs = {}
    for workers in (1, 2, 4):
        began = time.monotonic()
        done = run(wanted, root / f"run-{workers}", workers=workers)
        runs[workers] = time.monotonic() - began, done.scores(), list(done.events())
    return runs


def driver_cost(root: Path, engine: str = "local") -> float:
    """CPU seconds of the driver for one more job: the slope between a run of few and one of many."""
    spent = []
    few, many = size((20, 120), (4, 12))
    run(sleeping(root, 0.0, 2), root / f"{engine}-warm", workers=1, engine=engine)
    for jobs in (few, many):
        began = time.process_time()
        run(sleeping(root, 0.0, jobs), root / f"{engine}-{jobs}", workers=1, engine=engine)
        spent.append(time.process_time() - began)
    return (spent[1] - spent[0]) / (many - few)


def seconds_of_a_pass(probe: str) -> float:
    """CPU seconds on one core, in batches of eight."""
    import torch

    torch.set_num_threads(1)
    if probe == "gridvlm":
        model: Any = karat.load_model("gridvlm.pure")
        samples: list[Any] = karat.datasets.grid.generate("D2_M_F0_d0.7", 8)
        answers = [str(sample.answer) for sample in samples]
    else:
        from karat.models import classifier
        from karat.models.preprocessing import Preprocessing

        side = 224 if probe == "ViT-base" else 32
        module = _vit() if probe == "ViT-base" else _resnet()
        model = classifier(module.eval(), Preprocessing((side, side)), labels=[str(k) for k in range(10)])
        rng = np.random.default_rng(0)
        samples = [Sample(f"s{i}", rng.integers(0, 256, (side, side, 3), dtype=np.uint8)) for i in range(8)]
        answers = ["1"] * 8
    [taken] = in_turns(lambda: model.score(samples, answers), rounds=3)
    return median(taken) / len(samples)


def _vit() -> Any:
    import timm

    return timm.create_model("vit_base_patch16_224", num_classes=10)


def _resnet() -> Any:
    from torchvision.models import resnet18

    return resnet18(num_classes=10)


def core_hours(paper: Paper) -> float:
    """What the shipped spec of a paper asks for: declared passes, at the pace of one core here."""
    spec = Spec.read(Path(karat.__file__).parent / "specs" / f"{paper.spec}.yaml")
    protocol: Any = build("protocol", spec.protocol.name, spec.protocol.parameters)
    explainers = [build("explainer", each.name, each.parameters) for each in spec.explainers]
    own = float(getattr(protocol, "passes", 0))
    passes = 2 + sum(own + float(getattr(explainer, "passes", 1)) for explainer in explainers)
    each = seconds_of_a_pass(paper.probe)
    print(f"  {paper.name}: {passes:,.0f} passes a sample, {each * 1e3:.1f} ms a pass of {paper.probe}")
    return paper.models * paper.samples * passes * each / 3600


def full_grids(costs: Costs) -> dict[str, list[Forecast]]:
    """Forecasts by paper and shard size, one for each number of workers; printed as a table."""
    print("the papers' full grids")
    hours = {paper: core_hours(paper) if paper.hours is None else paper.hours for paper in PAPERS}
    forecasts: dict[str, list[Forecast]] = {}
    for paper, total in hours.items():
        kind = "hours of one core here" if paper.hours is None else "GPU hours, as published"
        print(f"{paper.name}: {paper.models} models × {paper.samples:,} samples, {total:,.0f} {kind}")
        for shard in SHARDS:
            jobs = paper.models * -(-paper.samples // shard)
            works = [Work(i % paper.models, total * 3600 / jobs) for i in range(jobs)]
            schedules = [simulate(works, workers, costs) for workers in WORKERS]
            forecasts[f"{paper.name}, shards of {shard}"] = schedules
            told = "; ".join(
                f"{n}: {duration(s.seconds)}, {s.bottleneck}" for n, s in zip(WORKERS, schedules, strict=True)
            )
            print(f"  shards of {shard:2}, {jobs:,} jobs: {told}")
    return forecasts


def draw(
    took: dict[int, float], told: Sequence[tuple[int, float]], grids: dict[str, list[Forecast]], path: Path
) -> None:
    """Left: measured runs on the forecast. Right: the papers' grids, in shards of 8."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4), constrained_layout=True)
    left.plot(*zip(*told, strict=True), "-", color="#888888", label="forecast from the run with one worker")
    left.plot(list(took), list(took.values()), "o", color="#1b6ca8", label="measured")
    highest = max(*took.values(), *(seconds for _, seconds in told))
    left.set(xlabel="workers", ylabel="seconds", ylim=(0, 1.15 * highest), xscale="log")
    left.set_xticks([n for n, _ in told], [str(n) for n, _ in told])
    left.minorticks_off()
    for (name, curve), colour in zip(
        [(n, s) for n, s in grids.items() if n.endswith(f"of {SHARDS[-1]}")],
        ("#1b6ca8", "#d9822b", "#3a8a4f", "#8a4fa8", "#b03a48"),
        strict=True,
    ):
        right.loglog(WORKERS, [s.seconds / 3600 for s in curve], "o-", color=colour, markersize=3,
                     label=name.partition(",")[0])  # fmt: skip
    right.set(xlabel="workers", ylabel="hours")
    right.set_xticks(WORKERS, [f"{n:,}" for n in WORKERS])
    right.minorticks_off()
    for axis in (left, right):
        axis.legend(fontsize=7, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=size(24, 8))
    parser.add_argument("--seconds", type=float, default=size(1.0, 0.1))
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--picture", type=Path, default=root / size("docs/images/scaling.png", "build/scaling.png"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        np.save(place / "images.npy", np.zeros((240, 8, 8, 3), np.uint8))
        np.save(place / "masks.npy", np.ones((240, 8, 8), bool))
        driver = driver_cost(place)
        print(f"driver: {driver * 1e3:.1f} ms of CPU time for a job")
        if options.ray:
            print(f"driver of a Ray cluster: {driver_cost(place, 'ray') * 1e3:.1f} ms of CPU time for a job")
        wanted = sleeping(place, options.seconds, options.jobs)
        runs = measured(place, wanted)
        planned = plan(wanted)
    _, rows, events = runs[1]
    for _, other, _ in runs.values():
        pd.testing.assert_frame_equal(rows, other, check_exact=True)
    works = estimate(planned.grid, measured_rates(planned, events), events)
    assert works is not None
    costs = replace(measured_costs(events), driver=driver)
    print(f"start {costs.start:.1f} s, store {costs.store * 1e3:.0f} ms a shard, as the run with one worker tells")
    for workers, (seconds, _, _) in runs.items():
        schedule = simulate(works, workers, costs)
        off = schedule.seconds / seconds - 1
        print(f"  {workers} workers: measured {seconds:6.1f} s, forecast {schedule.seconds:6.1f} s ({off:+.0%})")
        plural = "s" if workers > 1 else ""
        what = f"wall time with {workers} worker{plural}: forecast over measured"
        compared(what, "the run itself", seconds, schedule.seconds, "rows equal", "1 ± 0.15")
    grids = full_grids(replace(costs, load=LOADING))
    told = [(n, simulate(works, n, costs).seconds) for n in (1, 2, 4, 8, 16)]
    draw({n: seconds for n, (seconds, _, _) in runs.items()}, told, grids, options.picture)


if __name__ == "__main__":
    main()

"""How cost grows with samples, players, steps, classes and workers; draws docs/images/growth.png.

    python benchmarks/bench_growth.py [--picture docs/images/growth.png]

CPU seconds, medians, the sizes of a line in turns. Results are checked at the smallest size against something that does
not depend on the code timed, such as slow twins; additive games have their weights as Shapley values, and no synergy.
What is not checked here says so in its row.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import compared, in_turns, median, size

from karat.datasets.grid import generate
from karat.engine.cost import Costs, Work, simulate
from karat.engine.run import run
from karat.explainers.gradient import IntegratedGradients
from karat.kernel.spec import Spec
from karat.metrics import relevance_mass, spuriousity, weighted_iou
from karat.metrics.ranking import KS, WEIGHTS
from karat.metrics.synergy import synergy
from karat.models import load_model
from karat.probe import Game, Session, shapley
from tests.twins import localization as twins

TWIN = "equal to a slow twin at the smallest"
Line = tuple[str, Sequence[float], list[float], str]  # label, sizes, cost, how results were checked


def line(name: str, sizes: Sequence[int], work: Callable[[int], object], checked: str, rounds: int = 5) -> Line:
    """One line of a panel: `work(n)` for every size, in turns."""
    sizes = size(sizes, sizes[:3])
    taken = in_turns(*(lambda n=n: work(n) for n in sizes), rounds=rounds)
    return name, sizes, [median(turns) for turns in taken], checked


def same(images: np.ndarray, texts: list[str | None]) -> list[str]:
    return ["same"] * len(images)


def additive(players: int) -> tuple[Game, np.ndarray]:
    weights = np.linspace(-1, 1, players)

    def value(visual: np.ndarray, text: np.ndarray) -> np.ndarray:
        return np.concatenate([visual, text], axis=1) @ weights

    return Game(value, players // 2, players - players // 2), weights


def samples() -> list[Line]:
    sizes = [250, 500, 1000, 2000, 4000]
    rng = np.random.default_rng(0)
    maps, masks = rng.random((sizes[-1], 64, 64)), rng.random((sizes[-1], 64, 64)) < 0.3
    n = sizes[0]
    assert np.allclose(relevance_mass(maps[:n], masks[:n]), [*map(twins.relevance_mass, maps[:n], masks[:n])])
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/images.npy", rng.integers(0, 256, (sizes[-1], 32, 32, 3), dtype=np.uint8))
        np.save(f"{folder}/masks.npy", masks[:, ::2, ::2])
        numbers = iter(range(1000))
        runs = line(
            "samples: a run, in all", sizes, lambda n: whole_run(Path(folder), n, next(numbers)),
            "rows counted, values not compared", rounds=3,
        )  # fmt: skip
    return [line("samples: relevance mass", sizes, lambda n: relevance_mass(maps[:n], masks[:n]), TWIN), runs]


def whole_run(folder: Path, n: int, number: int) -> None:
    spec: dict[str, Any] = {
        "protocol": "localization",
        "models": [{"name": "blackbox", "fn": "bench_growth:same", "answers": ["same"]}],
        "datasets": [{"name": "arrays", "images": f"{folder}/images.npy", "masks": f"{folder}/masks.npy"}],
        "explainers": ["control/edges"],
        "limit": n,
        "keep_maps": False,
    }
    assert len(run(Spec.parse(spec), folder / str(number), workers=0).scores()) >= 5 * n


def players() -> list[Line]:
    def exact(n: int) -> np.ndarray:
        return shapley(additive(n)[0], budget=2**n, method="exact").values

    def estimated(n: int) -> np.ndarray:
        return shapley(additive(n)[0], 2000, "permutation", rng=0).values

    assert np.allclose(exact(6), additive(6)[1])
    assert np.allclose(estimated(16), additive(16)[1])  # no order of the players changes what one adds
    checked = "equal to the game's weights at the smallest"
    return [
        line("players: exact Shapley values", [6, 8, 10, 12, 14], exact, checked),
        line("players: estimated, 2,000 passes", [16, 32, 64, 128, 256], estimated, checked),
    ]


def steps() -> list[Line]:
    sizes = [5, 11, 21, 41, 81]
    game, _ = additive(100)
    orders = np.arange(50), np.arange(50)
    assert abs(synergy(game, *orders, steps=5).value) < 1e-9  # nothing in an additive game matters together
    model: Any = load_model("gridnet.pure")
    samples = generate("D1_M_F0_d0.3", 2)
    session = Session(model, samples, [str(sample.answer) for sample in samples])
    return [
        line("steps: F_syn", sizes, lambda k: synergy(game, *orders, steps=k), "zero at the smallest, as it must be"),
        line(
            "steps: integrated gradients", sizes, lambda k: IntegratedGradients(steps=k)(session),
            "not compared here", rounds=3,
        ),
    ]  # fmt: skip


def classes() -> list[Line]:
    """Every class of a segmented image has its own map and mask: as many as samples, but of one image."""
    sizes = [1, 4, 16, 64, 256]
    rng = np.random.default_rng(1)
    maps, ids = rng.random((sizes[-1], 64, 64)), rng.integers(0, sizes[-1], (64, 64))
    masks = ids == np.arange(sizes[-1])[:, None, None]
    assert masks.sum() == 64 * 64
    assert np.isclose(spuriousity(maps[:1], masks[:1])[0], twins.spuriousity(maps[0], masks[0], 0.0, "soft"))
    assert np.isclose(weighted_iou(maps[:1], maps[-1:])[0], twins.weighted_iou(maps[0], maps[-1], KS, WEIGHTS))
    return [
        line("classes: spuriousity", sizes, lambda n: spuriousity(maps[:n], masks[:n]), TWIN, rounds=9),
        line("classes: weighted IoU", sizes, lambda n: weighted_iou(maps[:n], maps[::-1][:n]), TWIN, rounds=9),
    ]


def workers() -> list[Line]:
    """Forecast wall time of 1,000 jobs of 10 s; falls, where the others rise."""
    sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    works = [Work(i % 3, 10.0) for i in range(1000)]
    return [("workers: 1,000 jobs of 10 s", sizes, [simulate(works, n, Costs()).seconds for n in sizes], "a forecast")]


def draw(lines: Sequence[Line], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = ("samples", "players", "steps", "classes", "workers")
    figure, axes = plt.subplots(1, len(panels), figsize=(14, 3.1), constrained_layout=True)
    for axis, panel in zip(axes, panels, strict=True):
        rows = [line for line in lines if line[0].startswith(panel)]
        for (name, sizes, cost, _), colour in zip(rows, ("#1b6ca8", "#d9822b"), strict=False):
            axis.loglog(
                sizes, np.array(cost) / cost[0], "o-", color=colour, label=name.partition(": ")[2], markersize=4
            )
        ends = np.array([min(s[0] for _, s, *_ in rows), max(s[-1] for _, s, *_ in rows)], dtype=float)
        grows = ends[0] / ends if panel == "workers" else ends / ends[0]
        axis.loglog(ends, grows, "--", color="#888888", linewidth=1)
        marks = sorted({size for _, sizes, *_ in rows for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1])})
        marks = [mark for i, mark in enumerate(marks) if i == 0 or mark > 1.3 * marks[i - 1]]  # room for the labels
        axis.set_xticks(marks, [f"{mark:,}" for mark in marks], fontsize=8)
        axis.minorticks_off()
        axis.set_xlabel(panel)
        axis.legend(fontsize=7, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("cost, first point = 1")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main() -> None:
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, default=root / size("docs/images/growth.png", "build/growth.png"))
    options = parser.parse_args()
    lines = [*samples(), *players(), *steps(), *classes(), *workers()]
    for name, sizes, cost, checked in lines:
        slope = np.polyfit(np.log(sizes), np.log(cost), 1)[0]
        print(f"{name:32} {json.dumps([float(f'{c:.3g}') for c in cost])} s at {list(sizes)}: power {slope:.2f}")
        if not name.startswith("workers"):
            what = f"{name}, {sizes[0]:,} to {sizes[-1]:,}"
            compared(what, "growth in proportion", cost[-1] / cost[0], sizes[-1] / sizes[0], checked)
    draw(lines, options.picture)


if __name__ == "__main__":
    main()

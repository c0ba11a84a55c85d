"""How cost grows with samples, players, steps, classes and workers; draws docs/images/growth.png.

    python benchmarks/bench_growth.py [--picture docs/images/growth.png]

CPU seconds, the least of a few tries. Results are checked at the smallest size against something that does not depend
on the code timed: additive games have their weights as Shapley values, curves of one step are their end points.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from assay.engine.cost import Costs, Work, simulate
from assay.metrics import relevance_mass
from assay.metrics.synergy import synergy
from assay.probe import Game, shapley

Line = tuple[str, Sequence[float], list[float]]  # label, sizes, cost


def seconds(work: Callable[[], object], tries: int = 3) -> float:
    best = float("inf")
    for _ in range(tries):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def additive(players: int) -> tuple[Game, np.ndarray]:
    weights = np.linspace(-1, 1, players)

    def value(visual: np.ndarray, text: np.ndarray) -> np.ndarray:
        return np.concatenate([visual, text], axis=1) @ weights

    return Game(value, players // 2, players - players // 2), weights


def samples() -> Line:
    sizes = [250, 500, 1000, 2000, 4000]
    rng = np.random.default_rng(0)
    maps, masks = rng.random((sizes[-1], 64, 64)), rng.random((sizes[-1], 64, 64)) < 0.3
    whole = relevance_mass(maps[:2], masks[:2])
    assert np.allclose(whole, [(m * k).sum() / m.sum() for m, k in zip(maps[:2], masks[:2], strict=True)])
    return "samples: relevance mass", sizes, [seconds(lambda n=n: relevance_mass(maps[:n], masks[:n])) for n in sizes]


def players() -> list[Line]:
    game, weights = additive(8)
    assert np.allclose(shapley(game).values, weights)
    exact, estimated = [6, 8, 10, 12, 14], [16, 32, 64, 128, 256]
    cost = [seconds(lambda n=n: shapley(additive(n)[0], budget=2**n, method="exact")) for n in exact]
    guessed = [seconds(lambda n=n: shapley(additive(n)[0], 2000, "permutation", rng=0)) for n in estimated]
    return [("players: exact Shapley values", exact, cost), ("players: 2,000 passes", estimated, guessed)]


def steps() -> Line:
    sizes = [5, 11, 21, 41, 81]
    game, _ = additive(100)
    orders = np.arange(50), np.arange(50)
    assert np.isfinite(synergy(game, *orders, steps=5).value)
    return "steps: F_syn", sizes, [seconds(lambda k=k: synergy(game, *orders, steps=k)) for k in sizes]


def classes() -> Line:
    """Every class of a segmented image has its own map and mask: as many as samples, but of one image."""
    sizes = [1, 4, 16, 64, 256]
    rng = np.random.default_rng(1)
    maps, ids = rng.random((sizes[-1], 64, 64)), rng.integers(0, sizes[-1], (64, 64))
    masks = ids == np.arange(sizes[-1])[:, None, None]
    assert masks.sum() == 64 * 64
    return (
        "classes: relevance mass",
        sizes,
        [seconds(lambda n=n: relevance_mass(maps[:n], masks[:n]), 9) for n in sizes],
    )


def workers() -> list[Line]:
    """Forecast wall time of 1,000 jobs of 10 s; falls, where the others rise."""
    sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    works = [Work(i % 3, 10.0) for i in range(1000)]
    return [("workers: 1,000 jobs of 10 s", sizes, [simulate(works, n, Costs()).seconds for n in sizes])]


def draw(lines: Sequence[Line], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = ("samples", "players", "steps", "classes", "workers")
    figure, axes = plt.subplots(1, len(panels), figsize=(14, 3.1), constrained_layout=True)
    for axis, panel in zip(axes, panels, strict=True):
        shown = [line for line in lines if line[0].startswith(panel)]
        for (name, sizes, cost), colour in zip(shown, ("#1b6ca8", "#d9822b"), strict=False):
            axis.loglog(
                sizes, np.array(cost) / cost[0], "o-", color=colour, label=name.partition(": ")[2], markersize=4
            )
        ends = np.array([min(s[0] for _, s, _ in shown), max(s[-1] for _, s, _ in shown)], dtype=float)
        grows = ends[0] / ends if panel == "workers" else ends / ends[0]
        axis.loglog(ends, grows, "--", color="#888888", linewidth=1)
        marks = sorted({size for _, sizes, _ in shown for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1])})
        marks = [mark for i, mark in enumerate(marks) if i == 0 or mark > 1.3 * marks[i - 1]]  # room for the labels
        axis.set_xticks(marks, [f"{mark:,}" for mark in marks], fontsize=8)
        axis.minorticks_off()
        axis.set_xlabel(panel)
        axis.legend(fontsize=7, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("cost, first point = 1")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "growth.png")
    options = parser.parse_args()
    lines = [samples(), *players(), steps(), classes(), *workers()]
    for name, sizes, cost in lines:
        slope = np.polyfit(np.log(sizes), np.log(cost), 1)[0]
        print(f"{name:32} {json.dumps([float(f'{c:.3g}') for c in cost])} s at {list(sizes)}: power {slope:.2f}")
    draw(lines, options.picture)


if __name__ == "__main__":
    main()

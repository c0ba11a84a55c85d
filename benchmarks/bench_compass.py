"""The compass readout beside a loop over samples, and beside the cheapest trace of the same samples.

    python benchmarks/bench_compass.py [--maps 10000]

CPU time (one thread), alternating, medians; results are checked equal first.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from side_by_side import compared, in_turns, size

from karat.metrics import compass, direction_error

SECTORS, SIGMA = 8, 1.2


def in_a_loop(maps: Any, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """One map after the other, in plain NumPy: compass, DAE of peak and of circular mean, EA."""
    shares, peak_errors, mean_errors, right = np.empty((len(maps), SECTORS)), [], [], []
    centres = np.arange(SECTORS) * 2 * np.pi / SECTORS
    for i, (heat, p, q) in enumerate(zip(maps, a, b, strict=True)):
        y, x = np.indices(heat.shape) + 0.5
        angle = np.arctan2(-(y - p[1]), x - p[0])
        rho = np.sqrt((x - p[0]) ** 2 + (y - p[1]) ** 2)
        width = SIGMA * math.dist(p, q)
        weighed = heat * np.exp(-(rho**2) / (2 * width**2))
        sector = np.floor(angle * SECTORS / (2 * np.pi) + 0.5).astype(int) % SECTORS
        mass = np.array([weighed[sector == k].sum() for k in range(SECTORS)])
        shares[i] = mass / mass.sum()
        true = math.atan2(-(q[1] - p[1]), q[0] - p[0])
        mean = math.atan2((shares[i] * np.sin(centres)).sum(), (shares[i] * np.cos(centres)).sum())
        for direction, errors in ((centres[shares[i].argmax()], peak_errors), (mean, mean_errors)):
            errors.append(abs((math.degrees(direction - true) + 180) % 360 - 180))
        right.append(peak_errors[-1] <= 45)
    return shares, np.array(peak_errors), np.array(mean_errors), np.array(right)


def at_once(maps: Any, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    shares = compass(maps, a, b, SECTORS, SIGMA)
    peak = direction_error(shares, a, b)
    return shares, peak, direction_error(shares, a, b, "mean"), peak <= 45


def cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", type=int, default=size(10_000, 500))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    maps = rng.random((options.maps, 24, 24))
    a, b = rng.uniform(1, 23, (2, options.maps, 2))
    for ours, theirs in zip(at_once(maps, a, b), in_a_loop(maps, a, b), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)
    taken = in_turns(lambda: at_once(maps, a, b), lambda: in_a_loop(maps, a, b), rounds=options.repeats)
    ours, loop = map(statistics.median, taken)
    what = f"compass and its metrics, {options.maps:,} maps of 24 × 24"
    compared(what, "a loop over samples", *taken, "within 1e-7", "≥ 20")
    print(f"{options.maps} maps of 24 × 24, projection and metrics, results equal")
    print(f"  loop over samples {1e6 * loop / options.maps:8.1f} µs a map")
    print(f"  karat             {1e6 * ours / options.maps:8.1f} µs a map   {loop / ours:.1f} times faster (asked: 20)")
    trace(ours / options.maps)


def trace(readout: float) -> None:
    """The cheapest trace there is here (one forward, no gradients, one layer) on the smallest model that ships."""
    import torch

    from karat.datasets.spatial import GridRelations
    from karat.models import load_model
    from karat.probe.session import Session

    torch.set_num_threads(1)
    samples = GridRelations(64).load(0, 64)
    answers = [str(sample.answer) for sample in samples]
    for name in ("gridprog.pure", "gridnet.pure"):
        model: Any = load_model(name)
        layers = list(model.layers)[:1]
        Session(model, samples, answers).trace(layers, ("activations",))
        spent = []
        for _ in range(5):
            session = Session(model, samples, answers)
            assert session.inputs is not None  # encoded beforehand: the trace alone is timed
            spent.append(cpu(partial(session.trace, layers, ("activations",))))
        each = statistics.median(spent) / len(samples)
        share = 100 * readout / each
        compared(f"compass readout, {name}", "the cheapest trace", readout, each, "as above", "≥ 50")
        print(
            f"  trace of {name:14s} {1e6 * each:8.1f} µs a sample; the readout is {share:.2f} % of it (asked: under 2)"
        )


if __name__ == "__main__":
    main()

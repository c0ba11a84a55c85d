"""Are the nulls of `compass` fair? p-values of maps that know nothing, on the grid and on COCO's boxes.

    python benchmarks/simulate_nulls.py docs/recorded/compass_nulls.json --instances COCO_INSTANCES [--times 300]

Noise is drawn anew for every one of `times` experiments on 60 questions: white, or smooth with a bias to the middle, as
maps of photographs have it. Of a fair null p is uniform: 5 % lie below .05, and the mean is .5.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from karat.datasets.spatial import CocoPairs, GridRelations
from karat.kernel.attribution import Attribution
from karat.kernel.sample import Sample
from karat.models import blackbox
from karat.probe.session import Session
from karat.protocols.common.judge import one_sided
from karat.protocols.compass import nulls
from karat.protocols.compass.analysis import clustered_mean
from karat.protocols.compass.reading import scenes
from karat.protocols.compass.undecided import undecided

SIDE, QUESTIONS = 12, 60
Noise = Callable[[np.random.Generator, int], Any]


def white(rng: np.random.Generator, n: int) -> Any:
    return rng.random((n, SIDE, SIDE))


def smooth(rng: np.random.Generator, n: int) -> Any:
    """Noise of two cells' width with a bias to the middle."""
    y, x = (np.indices((SIDE, SIDE)) - (SIDE - 1) / 2) / (SIDE / 2)
    bumps = gaussian_filter(rng.normal(0, 1, (n, SIDE, SIDE)), (0, 2, 2)) * 6
    return np.maximum(bumps + np.exp(-(x**2) - y**2), 0) + 0.01


NOISE: dict[str, Noise] = {"white": white, "smooth": smooth}


def p_values(
    samples: list[Sample], noise: Noise, times: int, tell: Callable[[int], None] = lambda done: None
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """(times, 2) one-sided p of the unrelated and of the permuted null, each time on fresh noise."""
    rng = np.random.default_rng(0)
    session = Session(blackbox(undecided, answers=samples[0].choices), samples, [samples[0].choices[0]] * len(samples))
    picture = np.array([nulls.picture_of(one) for one in samples])
    drawn = []
    for k in range(times):
        [scene], _ = scenes(samples, [Attribution(m) for m in noise(rng, len(samples))], 48)
        errors = scene.errors()
        both = nulls.unrelated_error(session, scene), nulls.permuted_error(session, scene)
        drawn.append([one_sided(clustered_mean(null - errors, picture))[0] for null in both])
        tell(k + 1)
    return np.array(drawn)


class Told:
    """How far one simulation is, on one line."""

    def __init__(self, what: str, times: int) -> None:
        self.what, self.times = what, times

    def __call__(self, done: int) -> None:
        end = "\n" if done == self.times else ""
        print(f"\r{self.what}: {done} of {self.times}", end=end, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--instances", required=True, help="COCO's instances_val2017.json")
    parser.add_argument("--times", type=int, default=300)
    given = parser.parse_args()
    worlds = {
        "grid": GridRelations(QUESTIONS).load(0, QUESTIONS),
        "COCO-Pairs": CocoPairs(given.instances, n=QUESTIONS).load(0, QUESTIONS),
    }
    rows = []
    for world, samples in worlds.items():
        for name, noise in NOISE.items():
            p = p_values(samples, noise, given.times, Told(f"{world}, {name}", given.times))
            for null, values in zip(("unrelated", "permuted"), p.T, strict=True):
                rows.append({"boxes": world, "noise": name, "null": null, "times": given.times, "questions": QUESTIONS,
                             "below_05": float((values < 0.05).mean()), "mean_p": float(values.mean())})  # fmt: skip
    given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

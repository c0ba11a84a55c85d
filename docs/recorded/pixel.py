"""Keeps runs on CIFAR-10 as the one that `assay paper 004` reads when no run is named.

    python docs/recorded/pixel.py src/assay/recorded/pixel runs/pixel-cifar10 runs/pixel-cifar10-clean ...

The first has classifiers that were trained on the shortcut, with all explainers; further ones may have other models and
other images. A classifier that was trained on clean images has nothing to be explained, so noise is its only explainer,
on all test images instead.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

from assay.protocols.pixel import Pixel
from assay.results.record import record
from assay.results.run import KEYS, Run, load_run
from assay.results.store import Store


class Joined(Run):
    """Rows of several runs; explainers that failed on a model altogether are left out there."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__(runs[0].store)
        self.__dict__["runs"] = runs

    def scores(self) -> pd.DataFrame:
        frames = []
        for run in self.__dict__["runs"]:
            frame = run.scores()
            worked = frame.groupby(["model", "explainer"])["value"].transform("count") > 0
            frames.append(frame[worked])
        return pd.concat(frames, ignore_index=True)

    def details(self, metric: str) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
        found = [run.details(metric) for run in self.__dict__["runs"]]
        wide = max(values.shape[1] for _, values in found)
        kept = [(keys, values) for keys, values in found if values.shape[1] == wide]
        keys = pd.concat([keys for keys, _ in kept], ignore_index=True).sort_values(list(KEYS), kind="stable")
        values = np.concatenate([values for _, values in kept])[keys.index]
        return keys.reset_index(drop=True), values


def main(out: str, *names: str) -> None:
    runs = [load_run(name) for name in names]
    joined = Joined(runs)
    kept = record(joined, out, details=("dominant",))
    store = Store(out)
    explainers = {str(each): each for run in runs for each in run.spec["explainers"]}
    models = [model for run in runs for model in run.spec["models"]]
    spec = {key: value for key, value in runs[0].spec.items() if key != "limit"}  # runs may differ in it
    store.write_json("spec.json", {**spec, "models": models, "explainers": list(explainers.values())})
    store.write_json("manifest.json", {**runs[0].manifest, "command": "assay run pixel-cifar10"})
    store.write_json("findings.json", [finding.plain() for finding in Pixel().findings(joined)])
    print(f"{len(kept.scores())} rows in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Keeps two runs on CIFAR-10 as the one that `assay paper 004` reads when no run is named.

    python docs/recorded/pixel.py runs/pixel-cifar10 runs/pixel-cifar10-clean src/assay/recorded/pixel

The first has the classifiers that were trained on the shortcut with all explainers. The second has one that was trained
on clean images: nothing is to be explained there, so it has no explainer but noise, and all test images instead.
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
    """Rows of both runs; explainers that failed on a model altogether are left out there."""

    def __init__(self, first: Run, second: Run) -> None:
        super().__init__(first.store)
        self.__dict__["runs"] = (first, second)

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


def main(first: str, second: str, out: str) -> None:
    runs = load_run(first), load_run(second)
    joined = Joined(*runs)
    kept = record(joined, out, details=("dominant",))
    store = Store(out)
    models = [model for run in runs for model in run.spec["models"]]
    store.write_json("spec.json", {**runs[0].spec, "models": models})
    store.write_json("findings.json", [finding.plain() for finding in Pixel().findings(joined)])
    print(f"{len(kept.scores())} rows in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])

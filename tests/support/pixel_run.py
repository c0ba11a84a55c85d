"""A run of protocol `pixel` made by hand: rows, facts of parts, no details."""

import numpy as np
import pandas as pd

from karat.results.details import Details

GRADIENT, CAM, RISE = "gradient/gradient(channels=max)", "cam/gradcam", "perturbation/rise"
UP = {GRADIENT: 0.1, CAM: 0.2, RISE: 0.3}
DOWN = {GRADIENT: 0.3, CAM: 0.2, RISE: 0.1}


class HandMade:
    """As much of a run as an analysis reads: rows, facts of parts, details."""

    def __init__(self, scores, models=None, explainers=(), preset="cifar10"):
        models = models or {"m": {}}
        rng = np.random.default_rng(0)
        rows = [
            {"model": model, "dataset": "d", "sample": f"s{k}", "explainer": explainer, "metric": metric,
             "value": value + rng.normal(0, 1e-3)}
            for model in models for metric, means in scores.items() for explainer, value in means.items()
            for k in range(10)
        ]  # fmt: skip
        self.frame = pd.DataFrame(rows)
        labels = self.frame["explainer"].unique()
        named = {label: {"name": label.partition("(")[0], "is_control": "control" in label} for label in labels}
        self.manifest = {
            "parts": {
                "model": models,
                "dataset": {"d": {"preset": preset}},
                "explainer": {**named, **dict(explainers)},
            }
        }

    def scores(self):
        return self.frame

    def details(self, metric):
        return Details(self.frame.iloc[:0])

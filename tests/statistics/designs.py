"""Crossed score frames with known effects, for the tests of this folder."""

from __future__ import annotations

import numpy as np
import pandas as pd


def crossed(
    seed: int,
    instances: int = 20,
    models: int = 3,
    datasets: int = 3,
    explainers: int = 4,
    sd: tuple[float, float, float, float] = (0.1, 0.05, 0.05, 0.1),
    keep: float = 1.0,
) -> pd.DataFrame:
    """One row per instance × model × explainer; sd of instance, model, dataset and residual; a share `keep` of rows."""
    rng = np.random.default_rng(seed)
    i, m, e = (a.ravel() for a in np.meshgrid(*map(np.arange, (instances, models, explainers)), indexing="ij"))
    d = i % datasets
    effects = [rng.normal(0, s, k) for s, k in zip(sd, (instances, models, datasets, len(i)), strict=True)]
    score = 0.2 + 0.03 * e + effects[0][i] + effects[1][m] + effects[2][d] + effects[3]
    frame = pd.DataFrame(
        {
            "score": score,
            "explainer": [f"e{k}" for k in e],
            "model": [f"m{k}" for k in m],
            "instance": [f"i{k}" for k in i],
            "dataset": [f"d{k}" for k in d],
        }
    )
    return frame[rng.random(len(frame)) < keep].reset_index(drop=True)

"""Rows of protocol grid whose every value is made up on purpose: for tests of what is concluded from rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from karat.datasets.grid import generate_batch, parse_bucket
from karat.models.counterfactual import verdicts
from karat.protocols.grid.readings import WITHIN

Made = Callable[[str, str, str, int], float]  # metric, twin, mode, index of the sample -> value
MIXED = ("D1_M_F0_d0.3", "D2_M_F0_d0.3", "D3_M_F0_d0.3", "D1_M_F1_d0.7", "D2_M_F1_d0.7", "D3_M_F1_d0.7")


def made(
    explainers: Mapping[str, Mapping[str, Made]],
    buckets: Sequence[str] = MIXED,
    n: int = 6,
    family: str = "t",
    right: float = 1.0,
) -> pd.DataFrame:
    """Both twins on both modes. Answers follow the twin's mechanism on the first `right` share of samples.

    An explainer is a registered name, with parameters in brackets after it: `interaction/dime(part=uc)`.
    """
    rows = []
    for mode in ("pure", "spur"):
        for name in buckets:
            bucket = parse_bucket(name)
            batch = generate_batch(name, range(n), mode=mode)
            known = verdicts(batch)
            for twin, own in (("pure", known.truth), ("spur", known.shortcut)):
                for i in range(n):
                    common = {
                        **of_model(family, twin), "sample": f"{mode}/{name}/{i}",
                        "answer": own[i] if i < right * n else "nonsense", "expected": known.truth[i],
                        "status": "score", "meta.mode": mode, "meta.bucket": name, "meta.preset": "certified",
                        "meta.seed": 0, "meta.index": i, "meta.form": bucket.form, "meta.qtype": bucket.qtype,
                        "meta.depth": bucket.depth, "meta.density": bucket.density,
                    }  # fmt: skip
                    for explainer, metrics in explainers.items():
                        for metric, value in metrics.items():
                            found = value(f"{metric} {name}", twin, mode, i)
                            reason = WITHIN if np.isnan(found) else ""
                            rows.append({**common, **of_explainer(explainer), "metric": metric, "value": found,
                                         "reason": reason})  # fmt: skip
    return pd.DataFrame(rows)


def of_model(family: str, twin: str, **facts: object) -> dict[str, object]:
    """The columns that a run has of a model; `dose(0.5)` is a dosed twin."""
    mechanism = {"pure": "reasons", "spur": "matches_words"}.get(twin, "mixed")
    dose = float(twin[5:-1]) if twin.startswith("dose(") else float("nan")
    variant = "dose" if twin.startswith("dose(") else twin
    seed = f" (seed {facts['seed']})" if "seed" in facts else ""
    columns = {"family": family, "mechanism": mechanism, "variant": variant, "dose": dose, **facts}
    return {"model": f"{family}.{twin}{seed}", **{f"model.{name}": value for name, value in columns.items()}}


def of_explainer(label: str) -> dict[str, object]:
    """The columns that a run has of an explainer."""
    name, _, rest = label.partition("(")
    given = dict(part.split("=") for part in rest.rstrip(")").split(", ") if part)
    parameters: dict[str, object] = {"absence": None, "value": "auto", "part": "mi", **given}
    return {"explainer": label, "explainer.name": name, "explainer.is_control": name.startswith("control/"),
            **{f"explainer.{key}": value for key, value in parameters.items()}}  # fmt: skip


def noise(mean: float = 0.5, spread: float = 0.05, seed: int = 0) -> Made:
    rng = np.random.default_rng(seed)
    return lambda metric, twin, mode, i: float(rng.normal(mean, spread))


def per_twin(pure: float, spur: float, spread: float = 0.01, seed: int = 0) -> Made:
    rng = np.random.default_rng(seed)
    return lambda metric, twin, mode, i: float(rng.normal(pure if twin == "pure" else spur, spread))

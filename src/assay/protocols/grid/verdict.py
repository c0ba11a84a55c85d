"""The verdict: from the explanations alone, how well can one tell which twin made them?

Both twins explain their answers to the same pure samples. What an explanation says about distractors, anchors and
relation words goes into a classifier that is fitted on other samples, and its AUC says how well the twins come apart:
0.5 is blind, 1 sees. (By chance a cross-fitted AUC may fall below 0.5: that is blind too.) An explainer that cannot
tell a model that reasons from one that takes a shortcut scores 0.5, however well its maps look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from assay.kernel.errors import BadInput
from assay.kernel.identity import generator
from assay.statistics import auc, cross_fitted_scores

FEATURES = ("distractor_mass", "anchor_mass", "relation_mass")
_RELATIONAL = ("SO", "CO", "M", "CMP")


def verdict(scores: pd.DataFrame, *, folds: int = 5, seed: int = 0) -> pd.DataFrame:
    """One row per twin family and explainer: auc, low, high (95 %), samples, features used.

    `scores` are rows of protocol `grid`; families are models called `<family>.pure` and `<family>.spur`.
    """
    rows = relational(scores)
    families = sorted({name.removesuffix(".pure") for name in rows["model"] if name.endswith(".pure")})
    found = [
        {"family": family, "explainer": explainer, **told}
        for family in families
        for explainer, told in tell_apart(rows, f"{family}.pure", f"{family}.spur", folds=folds, seed=seed).items()
    ]
    return pd.DataFrame(found, columns=["family", "explainer", "auc", "low", "high", "samples", "features"])


def dose_curve(scores: pd.DataFrame, family: str = "gridprog", *, folds: int = 5, seed: int = 0) -> pd.DataFrame:
    """How strong must the shortcut be before the explanations show it? One row per explainer and dose p in (0, 1].

    Each `<family>.dose(p)` is told apart from the reasoning twin; `detected` says that the interval lies above 0.5.
    """
    rows = relational(scores)
    doses = sorted({(_dose(name), name) for name in rows["model"] if name.startswith(f"{family}.dose(")})
    doses = [(p, name) for p, name in doses if p > 0]
    if f"{family}.spur" in set(rows["model"]):
        doses.append((1.0, f"{family}.spur"))
    found = [
        {"explainer": explainer, "dose": p, **told, "detected": told["low"] > 0.5}
        for p, name in doses
        for explainer, told in tell_apart(rows, f"{family}.pure", name, folds=folds, seed=seed).items()
    ]
    columns = ["explainer", "dose", "auc", "low", "high", "samples", "features", "detected"]
    return pd.DataFrame(found, columns=columns).sort_values(["explainer", "dose"], ignore_index=True)


def detection_threshold(curve: pd.DataFrame) -> pd.Series:
    """Per explainer the smallest dose from which on every dose is detected; NaN where none is."""

    def smallest(group: pd.DataFrame) -> float:
        seen = group.sort_values("dose", ascending=False)
        lasting = seen[seen["detected"].cummin()]
        return float(lasting["dose"].min()) if len(lasting) else float("nan")

    return pd.Series({name: smallest(group) for name, group in curve.groupby("explainer")}, dtype=float)


def relational(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows on which the twins' reasons differ: pure samples of relational questions."""
    for column in ("meta.mode", "meta.qtype", "meta.depth"):
        if column not in scores:
            raise BadInput(f"the verdict reads rows of protocol grid on the grid world; these have no {column}.")
    anchored = scores["meta.qtype"].isin(_RELATIONAL) & ~((scores["meta.qtype"] == "CMP") & (scores["meta.depth"] == 1))
    return scores[anchored & (scores["meta.mode"] == "pure")]


def tell_apart(
    rows: pd.DataFrame, honest: str, other: str, *, folds: int = 5, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Per explainer, how well `other` is told from `honest` on the samples that both have explained."""
    table = rows[rows["model"].isin([honest, other]) & rows["metric"].isin(FEATURES)].pivot_table(
        index=["explainer", "model", "sample"], columns="metric", values="value", aggfunc="first"
    )
    found: dict[str, dict[str, Any]] = {}
    for explainer, group in table.groupby(level="explainer"):
        used = [name for name in FEATURES if name in group and group[name].notna().any()]
        complete = group[used].dropna().droplevel("explainer")
        per_model = [set(complete.xs(name, level="model").index) for name in (honest, other) if name in complete.index]
        if len(per_model) < 2 or len(shared := sorted(per_model[0] & per_model[1])) < folds:
            continue
        features = np.concatenate([complete.loc[name].loc[shared].to_numpy() for name in (honest, other)])
        is_other = np.repeat([False, True], len(shared))
        samples = shared * 2
        rng = generator(seed, str(explainer), "grid/verdict")
        odds = cross_fitted_scores(features, is_other, samples, rng=rng, folds=folds)
        # A feature that is the same for both twins on every sample says nothing; rounding must not let it speak.
        estimate = auc(np.round(odds, 9), is_other, clusters=samples)
        found[str(explainer)] = {
            "auc": estimate.value, "low": estimate.low, "high": estimate.high, "samples": len(shared),
            "features": ", ".join(used),
        }  # fmt: skip
    return found


def sentences(table: pd.DataFrame) -> Iterable[str]:
    """The verdict in plain words, one sentence per row."""
    for row in table.to_dict("records"):
        if row["low"] > 0.5:
            how = "tells the twins apart" if row["auc"] > 0.9 else "tells the twins apart, though not reliably"
        else:
            how = "cannot be shown to tell the twins apart"
        interval = f"AUC {row['auc']:.2f}, {row['low']:.2f} to {row['high']:.2f}"
        yield f"{row['explainer']} on {row['family']}: {how} ({interval})."


def _dose(name: str) -> float:
    return float(name.partition("(")[2].rstrip(")"))

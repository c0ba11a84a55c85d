"""Which rule made this explanation? Fitted on other photographs, and held against models of the same rule."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.identity import generator
from karat.kernel.roles import Results
from karat.protocols.common.rows import frame_of
from karat.protocols.lineup.pointing import POINTED
from karat.statistics import bootstrap_mean

FOLDS = 5
FACTS: dict[str, Any] = {
    "model.family": "",
    "model.variant": "",
    "model.implant": "",
    "model.seed": 0,
    "model.dose": 1.0,
}
Floats = npt.NDArray[np.float64]
Names = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Identified:
    """How often the percentiles of an explanation name the rule of its model, fitted on other photographs."""

    explainer: str
    is_control: bool
    value: float
    low: float
    high: float
    n: int
    chance: float


@dataclass(frozen=True)
class Spread:
    """Models of one rule that differ in their seed. `across`: how often the rule is named by what was fitted on models
    of *other* seeds (and other photographs), among the rules that have several, `chance` being one over their number.
    `seeds` and `rules`: how often two models are told apart that differ in their seed alone, or in their rule alone;
    one half is chance. An explanation of the rule tells rules apart and seeds not."""

    explainer: str
    is_control: bool
    across: float
    across_low: float
    across_high: float
    chance: float
    seeds: float
    rules: float
    n: int


def with_facts(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores with all columns of `FACTS`: what no model of a run differs in is no column of it."""
    return scores.assign(**{name: usual for name, usual in FACTS.items() if name not in scores})


def percentile_rows(run: Results) -> pd.DataFrame:
    """One row for each explanation of a model that followed its rule: facts of the model and the sample, the percentile
    of every cue (`of_tag`) and whether the rule uses it here (`uses_tag`)."""
    details = run.details("pointing")
    rows = details.keys.reset_index(drop=True)[["model", "explainer", "sample"]].astype(str)
    if "percentile" not in details.arrays or not len(rows):
        return pd.DataFrame()
    for name, array in (("of", details.arrays["percentile"]), ("uses", details.arrays["used"])):
        for k, cue in enumerate(POINTED):
            rows[f"{name}_{cue}"] = np.asarray(array, dtype=np.float64)[:, k]
    scores = with_facts(run.scores())
    models = scores[["model", "model.mechanism", *FACTS]].drop_duplicates("model")
    explainers = scores[["explainer", "explainer.is_control"]].drop_duplicates("explainer")
    samples = scores[["sample", "meta.photograph"]].drop_duplicates("sample")
    for frame, key in ((models, "model"), (explainers, "explainer"), (samples, "sample")):
        rows = rows.merge(frame.assign(**{key: frame[key].astype(str)}), on=key, how="left")
    read = rows[[f"of_{cue}" for cue in POINTED]].notna().any(axis=1)
    return rows[read & rows["model.mechanism"].notna()].reset_index(drop=True)


def identification(rows: pd.DataFrame) -> pd.DataFrame:
    """`Identified` of every explainer. A missing percentile (the method, or the cue, is not there) stands at one half
    with an indicator beside it."""
    identified = []
    for explainer, own in rows.groupby("explainer", observed=True, sort=False) if len(rows) else ():
        labels = own["model.mechanism"].to_numpy(dtype=object)
        if len(set(labels)) < 2:
            continue
        clusters = own["meta.photograph"].to_numpy(dtype=object)
        right = cross_fitted(_table(own), labels, clusters, str(explainer))
        rng = generator(0, str(explainer), "lineup/identification")
        e = bootstrap_mean(right, rng=rng, clusters=clusters)
        control = bool(own["explainer.is_control"].iloc[0])
        identified.append(Identified(str(explainer), control, e.value, e.low, e.high, e.n, 1 / len(set(labels))))
    return frame_of(identified, Identified)


def spread(rows: pd.DataFrame) -> pd.DataFrame:
    """`Spread` of every explainer, over models of one family and implant whose rule has several seeds."""
    made = []
    for explainer, own in rows.groupby("explainer", observed=True, sort=False) if len(rows) else ():
        groups = own.groupby(["model.family", "model.implant"], observed=True, dropna=True)
        for _, part in groups:
            seeds = part.groupby("model.mechanism", observed=True)["model.seed"].nunique()
            part = part[part["model.mechanism"].isin(seeds.index[seeds > 1])]
            if part["model.mechanism"].nunique() < 2:
                continue
            labels, seed = part["model.mechanism"].to_numpy(dtype=object), part["model.seed"].to_numpy(dtype=object)
            clusters, name = part["meta.photograph"].to_numpy(dtype=object), str(explainer)
            right = cross_fitted(_table(part), labels, clusters, name, apart=seed)
            e = bootstrap_mean(right, rng=generator(0, name, "lineup/spread"), clusters=clusters)
            control = bool(part["explainer.is_control"].iloc[0])
            made.append(
                Spread(
                    name, control, e.value, e.low, e.high, 1 / len(set(labels)),
                    _told_apart(part, "model.seed", "model.mechanism", name),
                    _told_apart(part, "model.mechanism", "model.seed", name), e.n,
                )
            )  # fmt: skip
    return frame_of(made, Spread)


def _told_apart(rows: pd.DataFrame, by: str, within: str, name: str) -> float:
    """Mean accuracy of telling two values of `by` apart, over all couples of them within each value of `within`."""
    shares = []
    for _, part in rows.groupby(within, observed=True):
        for couple in combinations(sorted(part[by].unique()), 2):
            two = part[part[by].isin(couple)]
            labels, clusters = two[by].to_numpy(dtype=object), two["meta.photograph"].to_numpy(dtype=object)
            shares.append(float(np.nanmean(cross_fitted(_table(two), labels, clusters, name))))
    return float(np.mean(shares)) if shares else float("nan")


def _table(rows: pd.DataFrame) -> Floats:
    return rows[[f"of_{cue}" for cue in POINTED]].to_numpy(dtype=np.float64)


def cross_fitted(percentiles: Floats, labels: Names, clusters: Names, name: str, apart: Names | None = None) -> Floats:
    """1.0 where the label with the nearest mean, in the units of the pooled covariance, is the row's; rows of one
    cluster are never both fitted on and judged, nor (with `apart`) rows that share its value.

    NaN where what is fitted on knows nothing of some label.
    """
    missing = np.isnan(percentiles)
    features = np.hstack([np.where(missing, 0.5, percentiles), missing[:, missing.any(axis=0)]]).astype(np.float64)
    groups = np.array(sorted(set(clusters.tolist()), key=str), dtype=object)
    order = generator(0, name, "lineup/folds").permutation(len(groups))
    fold = dict(zip(groups[order].tolist(), (np.arange(len(groups)) % FOLDS).tolist(), strict=True))
    folds = np.array([fold[cluster] for cluster in clusters])
    kinds = np.zeros(len(labels), dtype=object) if apart is None else apart
    names = sorted(set(labels.tolist()), key=str)
    right = np.full(len(labels), np.nan)
    for k in range(FOLDS):
        for kind in sorted(set(kinds.tolist()), key=str):
            test = (folds == k) & (kinds == kind)
            fit = (folds != k) & ((kinds != kind) if apart is not None else True)
            if not test.any() or any(np.count_nonzero(labels[fit] == label) < 2 for label in names):
                continue
            nearest = _nearest(features[fit], labels[fit], features[test], names)
            right[test] = [float(names[j] == label) for j, label in zip(nearest, labels[test], strict=True)]
    return right


def _nearest(known: Floats, labels: Names, features: Floats, names: list[object]) -> list[int]:
    """Number of the label whose mean lies nearest to each row; ties are broken by the order of names."""
    means = np.stack([known[labels == label].mean(axis=0) for label in names])
    centred = known - means[[names.index(label) for label in labels]]
    pooled = centred.T @ centred / max(1, len(centred) - len(names)) + 1e-3 * np.eye(known.shape[1])
    away = features[:, None] - means[None]
    distance = np.einsum("nkd,de,nke->nk", away, np.linalg.inv(pooled), away)
    return [int(j) for j in distance.argmin(axis=1)]

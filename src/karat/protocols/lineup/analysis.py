"""What a run of `lineup` shows, as frames with named columns: accusations, their confusion, identification, doses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.identity import generator
from karat.kernel.roles import Results
from karat.protocols.common.rows import frame_of
from karat.protocols.lineup.pointing import POINTED
from karat.statistics import Estimate, bootstrap_mean

FOLDS = 5
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Accusation:
    """How often one explainer accused rightly: of one model, or (`model` is "all") over all of them."""

    explainer: str
    is_control: bool
    model: str
    rule: str
    metric: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Accused:
    """How often an explainer accused one cue, over the models of one rule."""

    explainer: str
    rule: str
    cue: str
    share: float
    n: int


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
class Dose:
    """How often an explainer accused the planted cue of a model that follows it with probability `dose`."""

    explainer: str
    is_control: bool
    rule: str
    dose: float
    share: float
    low: float
    high: float
    n: int


def accusations(scores: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row for each explainer and model, and one for each explainer over all models, with intervals clustered by
    photograph. Every sample that counts weighs the same, so that hits have the interval of a proportion."""
    rows = scores[(scores["metric"] == metric) & scores["value"].notna()]
    found: list[Accusation] = []
    for explainer, own in rows.groupby("explainer", observed=True, sort=False):
        control = bool(own["explainer.is_control"].iloc[0])
        for (model, rule), part in own.groupby(["model", "model.mechanism"], observed=True, sort=False):
            e = _mean(part["value"].to_numpy(), part["meta.photograph"].to_numpy(), metric, explainer, model)
            found.append(
                Accusation(str(explainer), control, str(model), str(rule), metric, e.value, e.low, e.high, e.n)
            )
        e = _mean(own["value"].to_numpy(), own["meta.photograph"].to_numpy(), metric, explainer, "all")
        found.append(Accusation(str(explainer), control, "all", "all", metric, e.value, e.low, e.high, e.n))
    return frame_of(found, Accusation)


def confusion(scores: pd.DataFrame) -> pd.DataFrame:
    """Who is accused, by rule: models that follow one rule alone, whatever their samples' certificates say."""
    cues = {f"accuses_{cue}": cue for cue in POINTED}
    rows = scores[scores["metric"].isin(list(cues)) & scores["value"].notna() & scores["model.mechanism"].notna()]
    found = [
        Accused(str(explainer), str(rule), cues[str(metric)], float(part["value"].mean()), len(part))
        for (explainer, rule, metric), part in rows.groupby(
            ["explainer", "model.mechanism", "metric"], observed=True, sort=False
        )
    ]
    return frame_of(found, Accused)


def identification(run: Results) -> pd.DataFrame:
    """Which rule made this explanation? Linear discriminants of the percentiles, fitted on other photographs.

    Samples that every model of the run followed its rule on count once for each model; a missing percentile (the
    method, or the cue, is not there) stands at one half with an indicator beside it.
    """
    details = run.details("pointing")
    keys = details.keys.reset_index(drop=True)
    table = np.asarray(details.arrays["percentile"], dtype=np.float64) if "percentile" in details.arrays else None
    if table is None or not len(keys):
        return frame_of([], Identified)
    scores = run.scores()
    facts = scores[["model", "model.mechanism"]].drop_duplicates().set_index("model")["model.mechanism"]
    kinds = scores[["explainer", "explainer.is_control"]].drop_duplicates()
    controls = dict(zip(kinds["explainer"].astype(str), kinds["explainer.is_control"], strict=True))
    photographs = scores[["sample", "meta.photograph"]].drop_duplicates("sample").set_index("sample")["meta.photograph"]
    rules = keys["model"].astype(str).map({str(k): v for k, v in facts.items()})
    found = []
    for explainer, part in keys.groupby("explainer", observed=True, sort=False):
        at = part.index.to_numpy()
        valid = at[np.isfinite(table[at]).any(axis=1) & rules.iloc[at].notna().to_numpy()]
        labels = rules.iloc[valid].to_numpy(dtype=object)
        if len(set(labels)) < 2:
            continue
        clusters = keys["sample"].iloc[valid].map(photographs).to_numpy(dtype=object)
        right = cross_fitted_rules(table[valid], labels, clusters, str(explainer))
        e = _mean(right, clusters, "identification", explainer, "all")
        control = bool(controls[str(explainer)])
        found.append(Identified(str(explainer), control, e.value, e.low, e.high, e.n, 1 / len(set(labels))))
    return frame_of(found, Identified)


def cross_fitted_rules(
    percentiles: Floats, labels: npt.NDArray[np.object_], clusters: npt.NDArray[np.object_], name: str
) -> Floats:
    """1.0 where the rule with the nearest mean, in the units of the pooled covariance, is the label's; rows of one
    cluster are never both fitted on and judged. NaN where a fold knows nothing of some label."""
    missing = np.isnan(percentiles)
    features = np.hstack([np.where(missing, 0.5, percentiles), missing[:, missing.any(axis=0)]]).astype(np.float64)
    groups = np.array(sorted(set(clusters.tolist()), key=str), dtype=object)
    order = generator(0, name, "lineup/folds").permutation(len(groups))
    fold = dict(zip(groups[order].tolist(), (np.arange(len(groups)) % FOLDS).tolist(), strict=True))
    folds = np.array([fold[cluster] for cluster in clusters])
    names = sorted(set(labels.tolist()))
    right = np.full(len(labels), np.nan)
    for k in range(FOLDS):
        fit, test = folds != k, folds == k
        if not test.any() or any(np.count_nonzero(labels[fit] == label) < 2 for label in names):
            continue
        means = np.stack([features[fit & (labels == label)].mean(axis=0) for label in names])
        centred = features[fit] - means[[names.index(label) for label in labels[fit]]]
        spread = centred.T @ centred / max(1, len(centred) - len(names)) + 1e-3 * np.eye(features.shape[1])
        away = features[test][:, None] - means[None]
        distance = np.einsum("nkd,de,nke->nk", away, np.linalg.inv(spread), away)
        right[test] = [float(names[j] == label) for j, label in zip(distance.argmin(axis=1), labels[test], strict=True)]
    return right


def doses(scores: pd.DataFrame) -> pd.DataFrame:
    """The share of samples on which the planted cue is accused, by dose; rules of one cue only."""
    if "model.dose" not in scores or "model.variant" not in scores:
        return frame_of([], Dose)
    found = []
    for cue in POINTED:
        rows = scores[
            (scores["metric"] == f"accuses_{cue}") & (scores["model.variant"] == cue) & scores["value"].notna()
        ]
        if rows["model.dose"].nunique() < 2:
            continue
        for (explainer, dose), part in rows.groupby(["explainer", "model.dose"], observed=True, sort=True):
            e = _mean(part["value"].to_numpy(), part["meta.photograph"].to_numpy(), "dose", explainer, f"{cue} {dose}")
            control = bool(part["explainer.is_control"].iloc[0])
            found.append(Dose(str(explainer), control, cue, float(str(dose)), e.value, e.low, e.high, e.n))
    return frame_of(found, Dose)


def followed(scores: pd.DataFrame) -> Iterator[tuple[str, str, int, int]]:
    """Model, rule, samples on which it followed its rule, samples in all."""
    rows = scores[(scores["metric"] == "pointing") & scores["model.mechanism"].notna()]
    for (model, rule), part in rows.groupby(["model", "model.mechanism"], observed=True, sort=False):
        own = part[part["explainer"] == part["explainer"].iloc[0]]
        kept = own[own["value"].notna()]
        yield str(model), str(rule), len(kept), len(own)


def _mean(values: Floats, clusters: npt.NDArray[Any], *name: object) -> Estimate:
    rng = generator(0, " ".join(map(str, name)), "lineup/mean")
    return bootstrap_mean(np.asarray(values, dtype=np.float64), rng=rng, clusters=clusters)

"""What a run shows, as frames with named columns: who points where, against which nulls, beside whom.

Comparisons are paired by sample, intervals are clustered by picture. `comparisons` has models beside models;
`diagnostics` and `interventions` read the details.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtr, stdtrit

from karat.kernel.identity import generator
from karat.protocols.common.controls import NOISE, UNIFORM
from karat.protocols.common.rows import frame_of
from karat.statistics import Estimate, bootstrap_mean, bootstrap_statistic

Floats = npt.NDArray[np.float64]
GROUP = ["model", "dataset", "explainer"]
KEYS = [*GROUP, "sample"]
DAE = "compass/direction_error"
CHANCE = 90.0
BOX, GEOMETRY, FLAT = "control/box_only", "control/geometry", UNIFORM
TRANSFORMER = "attention/grad_rollout"  # the paper's Transformer Attribution
EXACT = 9  # decimals of a degree: the rest is rounding


def stream(*names: object) -> np.random.Generator:
    return generator(0, "/".join(map(str, names)), "compass/findings")


@dataclass(frozen=True)
class Explained:
    """Which explainer, on which model and data: what rows of every analysis begin with."""

    model: str
    dataset: str
    explainer: str


def by_explainer(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], bool, pd.DataFrame]]:
    """(model, dataset, explainer), whether the explainer is a control, and its part of the frame."""
    for key, part in frame.groupby(GROUP, sort=True):
        model, dataset, explainer = map(str, key)
        yield (model, dataset, explainer), bool(part["is_control"].iloc[0]), part


def plain_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows of untouched questions: interventions are read apart."""
    return scores[scores["meta.kind"] == "plain"] if "meta.kind" in scores else scores


def pictures(scores: pd.DataFrame) -> pd.Series[str]:
    """What names the picture of each row: several questions may be about one."""
    names = scores["sample"].astype(object)
    for column in ("meta.origin", "meta.picture"):
        if column in scores:
            names = scores[column].astype(object).where(scores[column].notna(), names)
    return names


def wide(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per model, dataset, explainer and sample of plain questions: a column per metric, `name` and
    `is_control` of the explainer, `picture`."""
    rows = plain_rows(scores)
    table = rows.pivot_table(index=KEYS, columns="metric", values="value", aggfunc="first").reset_index()
    facts = rows[["explainer", "explainer.name", "explainer.is_control"]].drop_duplicates("explainer")
    facts = facts.set_axis(["explainer", "name", "is_control"], axis=1).astype({"name": object})
    named = rows[["sample"]].assign(picture=pictures(rows)).drop_duplicates("sample")
    return table.merge(facts, on="explainer").merge(named, on="sample").sort_values(KEYS, ignore_index=True)


def column(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(np.float64) if name in frame else np.full(len(frame), np.nan)


def mean_of(values: Floats) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def clustered_mean(values: Floats, clusters: npt.NDArray[Any] | None = None, confidence: float = 0.95) -> Estimate:
    """The mean of values (n,) with a t interval; rows of one cluster count as one. NaN rows are left out.

    >>> estimate = clustered_mean(np.array([1.0, 2.0, 3.0, np.nan]))
    >>> round(estimate.value, 2), round(estimate.low, 2), round(estimate.high, 2), estimate.n_dropped
    (2.0, -0.48, 4.48, 1)
    """
    keep = np.isfinite(values)
    kept = np.round(values[keep], EXACT)
    codes = np.arange(len(kept)) if clusters is None else pd.factorize(np.asarray(clusters)[keep])[0]
    groups = int(codes.max()) + 1 if len(codes) else 0
    value = float(kept.mean()) if len(kept) else np.nan
    if groups < 2:
        return Estimate(value, np.nan, np.nan, np.nan, groups, int((~keep).sum()), confidence)
    sums = np.bincount(codes, kept - value, minlength=groups)
    se = float(np.sqrt((sums**2).sum() * groups / (groups - 1)) / len(kept))
    half = float(stdtrit(groups - 1, (1 + confidence) / 2)) * se
    p = (1.0 if value == 0 else 0.0) if se == 0 else float(2 * stdtr(groups - 1, -abs(value) / se))
    return Estimate(value, se, value - half, value + half, groups, int((~keep).sum()), confidence, p)


# ---- the main comparison


@dataclass(frozen=True)
class Reading(Explained):
    """One explainer on one model and dataset. `advantage` is in degrees over the same maps at other pictures'
    questions, `skill` the share of that null's error that is avoided; `gap` is to control/box_only."""

    name: str
    is_control: bool
    dae: Estimate
    ea: float
    mean_dae: float
    excess_dae: Estimate
    null_dae: float
    advantage: Estimate
    skill: Estimate
    permuted_dae: float
    permuted_skill: Estimate
    accuracy: float
    gap: Estimate
    n: int
    without_direction: int


def readings(scores: pd.DataFrame) -> pd.DataFrame:
    """A row of `Reading` per model, dataset and explainer."""
    frame = wide(scores)
    boxes = frame[frame["name"] == BOX].set_index(["model", "dataset", "sample"])
    rows = []
    for names, is_control, part in by_explainer(frame):
        error, picture = column(part, DAE), part["picture"].to_numpy()
        dae = bootstrap_mean(error, rng=stream(*names), clusters=picture)
        over = bootstrap_mean(column(part, "excess_error"), rng=stream(*names, "excess"), clusters=picture)
        advantage, permuted = column(part, "null_advantage"), column(part, "permutation_advantage")
        box = boxes.reindex(part.set_index(["model", "dataset", "sample"]).index)
        rows.append(Reading(
            *names, str(part["name"].iloc[0]), is_control, dae,
            mean_of(column(part, "edge_accuracy")), mean_of(column(part, "mean_direction_error")), over,
            mean_of(error + advantage), clustered_mean(advantage, picture), skill(error, error + advantage, picture,
            stream(*names, "skill")), mean_of(error + permuted), skill(error, error + permuted, picture,
            stream(*names, "permuted")), mean_of(column(part, "accuracy")),
            clustered_mean(error - column(box, DAE), picture), dae.n, dae.n_dropped,
        ))  # fmt: skip
    return frame_of(rows, Reading)


def skill(error: Floats, null: Floats, clusters: npt.NDArray[Any], rng: np.random.Generator) -> Estimate:
    """1 - Σ error / Σ null error over samples (n,), with an interval over clusters; NaN rows are left out.

    >>> error, null = np.array([10.0, 30.0, 20.0]), np.array([40.0, 40.0, 40.0])
    >>> skill(error, null, np.arange(3), np.random.default_rng(0)).value
    0.5
    """
    rows = np.column_stack([error, null])
    keep = np.isfinite(rows).all(axis=1)
    if not keep.any():
        return Estimate(np.nan, np.nan, np.nan, np.nan, 0, len(rows))
    return bootstrap_statistic(rows[keep], _avoided, clusters=np.asarray(clusters)[keep], rng=rng, resamples=400)


def _avoided(rows: Floats) -> float:
    error, null = rows.sum(axis=0)
    return float(1 - error / null) if null > 0 else float("nan")


@dataclass(frozen=True)
class Order:
    """Two explainers on one model, paired by sample: `lead` is the error of the second minus that of the first."""

    model: str
    dataset: str
    first: str
    second: str
    lead: Estimate


def orders(scores: pd.DataFrame) -> pd.DataFrame:
    """A row of `Order` per pair of explainers that are no controls."""
    frame = wide(scores)
    frame = frame[~frame["is_control"]]
    rows = []
    for (model, dataset), part in frame.groupby(["model", "dataset"], sort=True):
        errors = part.pivot(index="sample", columns="explainer", values=DAE)
        picture = part.drop_duplicates("sample").set_index("sample")["picture"].reindex(errors.index).to_numpy()
        for first, second in combinations(errors.columns, 2):
            lead = clustered_mean((errors[second] - errors[first]).to_numpy(np.float64), picture)
            rows.append(Order(str(model), str(dataset), str(first), str(second), lead))
    return frame_of(rows, Order)


@dataclass(frozen=True)
class Estimators:
    """Peak against circular mean. # creg2026 B.2"""

    model: str
    dataset: str
    explainer: str
    is_control: bool
    peak_dae: float
    circular_dae: float
    pearson: Estimate
    same_ea: float
    n: int


def estimators(scores: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for key, part in wide(scores).groupby(GROUP, sort=True):
        model, dataset, explainer = map(str, key)
        pairs = np.column_stack([column(part, DAE), column(part, "mean_direction_error")])
        kept: Floats = pairs[np.isfinite(pairs).all(axis=1)]
        if len(kept) < 3 or str(part["name"].iloc[0]) in (NOISE, FLAT, GEOMETRY):
            continue
        r = bootstrap_statistic(kept, _pearson, rng=stream(model, dataset, explainer, "r"), resamples=400)
        same = float((kept <= 45 + 1e-9).all(axis=1).mean() + (kept > 45 + 1e-9).all(axis=1).mean())
        control = bool(part["is_control"].iloc[0])
        means = kept.mean(axis=0).tolist()
        rows.append(Estimators(model, dataset, explainer, control, means[0], means[1], r, same, len(kept)))
    return frame_of(rows, Estimators)


def _pearson(rows: Floats) -> float:
    if len(rows) < 3 or np.ptp(rows, axis=0).min() == 0:
        return float("nan")
    return float(np.asarray(np.corrcoef(rows[:, 0], rows[:, 1]))[0, 1])


# ---- aligned, diffuse, incorrect

LABELS = ("aligned", "diffuse", "incorrect")


def labels(shares: Floats, errors: Floats) -> list[str | None]:
    """creg2026 figure 3 as a rule: incorrect where the peak is more than 45 degrees off; else aligned where its sector
    holds twice an even share or more, diffuse where it holds less. None without a compass.

    >>> labels(np.array([[0.7, 0.1, 0.1, 0.1], [0.3, 0.3, 0.2, 0.2], [0.7, 0.1, 0.1, 0.1]]), np.array([3.0, 3.0, 90.0]))
    ['aligned', 'diffuse', 'incorrect']
    """
    strong = shares.max(axis=1) >= 2 / shares.shape[1]
    return [
        None if np.isnan(error) else "incorrect" if error > 45 + 1e-9 else "aligned" if clear else "diffuse"
        for error, clear in zip(errors.tolist(), strong.tolist(), strict=True)
    ]

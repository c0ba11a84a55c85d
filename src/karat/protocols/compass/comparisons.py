"""Models beside models, paired by sample: better answers against better directions, the reasoning twin against the
shortcut twin, before against after training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karat.kernel.typing import Scalar
from karat.protocols.common.controls import NOISE
from karat.protocols.common.rows import frame_of, rows_of
from karat.protocols.compass.analysis import (
    BOX,
    DAE,
    FLAT,
    GEOMETRY,
    Floats,
    Reading,
    clustered_mean,
    column,
    mean_of,
    wide,
)
from karat.results.facts import Parts
from karat.statistics import Estimate, adjust


@dataclass(frozen=True)
class Best:
    """A model with the explainer that points best for it."""

    dataset: str
    model: str
    explainer: str
    accuracy: float
    dae: Estimate
    ea: float
    n: int


@dataclass(frozen=True)
class Generation:
    """The models of a dataset with the fewest and the most right answers; `change` is in the error of their best
    explainers, paired by sample: above 0 the better model points worse."""

    dataset: str
    worse: str
    better: str
    worse_accuracy: float
    better_accuracy: float
    change: Estimate


def best_explainers(table: pd.DataFrame, parts: Parts) -> pd.DataFrame:
    """A row of `Best` per dataset and model, from `readings`; models after a training intervention are left out."""
    best: dict[tuple[str, str], Reading] = {}
    for row in rows_of(table, Reading):
        if row.is_control or _is_trained(parts, row.model) or not np.isfinite(row.dae.value):
            continue
        leader = best.get((row.dataset, row.model), row)
        best[row.dataset, row.model] = row if row.dae.value < leader.dae.value else leader
    rows = [Best(one.dataset, one.model, one.explainer, one.accuracy, one.dae, one.ea, one.n) for one in best.values()]
    return frame_of(rows, Best).sort_values(["dataset", "accuracy"], ignore_index=True)


def generations(scores: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """A row of `Generation` per dataset with two models that do not answer alike."""
    frame = wide(scores).set_index(["dataset", "model", "explainer", "sample"])
    rows = []
    for dataset, part in best.groupby("dataset"):
        first, last = part.iloc[0], part.iloc[-1]
        if not last["accuracy"] > first["accuracy"]:
            continue
        sides = [frame.xs((dataset, one["model"], one["explainer"])) for one in (last, first)]
        both = sides[0].merge(sides[1], left_index=True, right_index=True, suffixes=("", " before"))
        change = clustered_mean(column(both, DAE) - column(both, f"{DAE} before"), both["picture"].to_numpy())
        rows.append(Generation(str(dataset), str(first["model"]), str(last["model"]), float(first["accuracy"]),
                               float(last["accuracy"]), change))  # fmt: skip
    return frame_of(rows, Generation)


@dataclass(frozen=True)
class Twin:
    """The same scenes and explainer under two models that answer for different reasons, paired by sample."""

    family: str
    dataset: str
    explainer: str
    metric: str
    pure: float
    spur: float
    difference: Estimate
    p_adjusted: float
    n: int


def twins(scores: pd.DataFrame, parts: Parts) -> pd.DataFrame:
    frame = wide(scores)
    pairs: dict[str, dict[str, str]] = {}
    for label, facts in parts["model"].items():
        if facts.get("mechanism") is not None and facts.get("variant") in ("pure", "spur"):
            pairs.setdefault(str(facts["family"]), {})[str(facts["variant"])] = label
    measured: list[tuple[str, str, str, str, Floats, Floats, Estimate]] = []
    for family, labels in sorted(pairs.items()):
        if len(labels) < 2:
            continue
        sides = [frame[frame["model"] == labels[variant]] for variant in ("pure", "spur")]
        both = sides[0].merge(sides[1], on=["dataset", "explainer", "sample"], suffixes=(" pure", " spur"))
        for (dataset, explainer), part in both.groupby(["dataset", "explainer"], sort=True):
            floor = str(part["name pure"].iloc[0]) in (NOISE, FLAT, GEOMETRY, BOX)
            if len(part) < 5 or floor:
                continue
            for metric in (DAE, "excess_error"):
                one, other = column(part, f"{metric} pure"), column(part, f"{metric} spur")
                difference = clustered_mean(one - other, part["picture pure"].to_numpy())
                measured.append((family, str(dataset), str(explainer), metric, one, other, difference))
    adjusted = adjust(np.array([row[-1].p for row in measured])) if measured else np.empty(0)
    return frame_of(
        [Twin(*row[:4], mean_of(row[4]), mean_of(row[5]), row[6], float(p), row[6].n)
         for row, p in zip(measured, adjusted, strict=True)], Twin,
    )  # fmt: skip


# ---- before and after training


@dataclass(frozen=True)
class Gain:
    """An objective of `Lora` against the base it was trained from, over seeds. Changes are means of paired differences
    by sample; with two seeds or more their intervals are over seeds, with one over samples."""

    dataset: str
    base: str
    objective: str
    explainer: str
    name: str
    accuracy: float
    dae: float
    ea: float
    accuracy_change: Estimate
    dae_change: Estimate
    excess_change: Estimate
    seeds: int
    n: int


def gains(scores: pd.DataFrame, parts: Parts) -> pd.DataFrame:
    """A row of `Gain` per dataset, base, objective and explainer; the base itself has the objective "none"."""
    frame = wide(scores)
    frame = frame[~frame["is_control"]]
    models = {label: facts for label, facts in parts["model"].items() if label in set(frame["model"])}
    runs = [(label, base, facts) for label, facts in models.items() if (base := _base_of(label, models)) is not None]
    by_model = {str(label): part for label, part in frame.groupby("model")}
    families: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for label, base, facts in runs:
        name = str(facts["of"]) + (f" shaken {facts['shaken']:g}" if facts["shaken"] else "")
        families.setdefault((name, str(facts["strategy"])), []).append((label, base))
        families.setdefault((name, "none"), []).append((base, base))
    rows = []
    for (name, objective), members in sorted(families.items(), key=lambda item: (item[0][0], item[0][1] != "none")):
        sides = [
            by_model[label].merge(by_model[base], on=["dataset", "explainer", "sample"], suffixes=("", " before"))
            for label, base in dict.fromkeys(members)
        ]
        keys = sorted({(d, e) for side in sides for d, e in zip(side["dataset"], side["explainer"], strict=True)})
        for dataset, explainer in keys:
            each = [side[(side["dataset"] == dataset) & (side["explainer"] == explainer)] for side in sides]
            each = [part for part in each if len(part) > 1]
            if each:
                rows.append(_gain(dataset, name, objective, explainer, each))
    return frame_of(rows, Gain)


def _gain(dataset: str, base: str, objective: str, explainer: str, each: list[pd.DataFrame]) -> Gain:
    def change(metric: str) -> Estimate:
        differences = [column(part, metric) - column(part, f"{metric} before") for part in each]
        if len(differences) == 1:
            return clustered_mean(differences[0], each[0]["picture"].to_numpy())
        return clustered_mean(np.array([mean_of(one) for one in differences]))

    accuracy, dae, ea = (
        float(np.mean([mean_of(column(part, name)) for part in each])) for name in ("accuracy", DAE, "edge_accuracy")
    )
    changes = change("accuracy"), change(DAE), change("excess_error")
    about = (dataset, base, objective, explainer, str(each[0]["name"].iloc[0]))
    return Gain(*about, accuracy, dae, ea, *changes, len(each), sum(map(len, each)))


def _is_trained(parts: Parts, label: str) -> bool:
    return parts["model"].get(label, {}).get("strategy", "none") != "none"


def _base_of(label: str, models: Mapping[str, Mapping[str, Scalar]]) -> str | None:
    """The model that a training intervention started from: its twin that nothing trained, else the model it names."""
    facts = models[label]
    if facts.get("strategy", "none") == "none" or "of" not in facts:
        return None
    same = ("of", "shaken", "seed")
    for other, known in models.items():
        if known.get("strategy") == "none" and all(known.get(fact) == facts[fact] for fact in same):
            return str(other)
    return str(facts["of"]) if facts["of"] in models and not facts["shaken"] else None

"""What a run of `semantic` holds, as tables: SSS by prediction, image and class; models and controls compared.

`reasons` has what predictions and classes show; `findings` and `claims` render and judge both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.explainers.cam import LEAST as LEAST_ACTIVATION
from karat.explainers.cam import NEGATIVE
from karat.kernel.identity import generator
from karat.models.cam_layer import LEAST as ACTIVATION_FLOOR
from karat.models.detections import label_of
from karat.protocols.common.controls import ORACLE
from karat.statistics import Estimate, adjust, bootstrap_mean, paired_difference, proportion

if TYPE_CHECKING:
    from karat.kernel.roles import Results

KEYS = ["model", "dataset", "explainer"]
SCORES = ["sss", "gain", "size_matched", "outside", "blob", "confidence", "own_confidence", "correct"]
LEVEL = 0.05
_FACTS = {"name": "method", "is_control": "is_control"}  # facts of the explainer that rows carry, by our name


# --- the three levels of SSS


def predictions(run: Results) -> pd.DataFrame:
    """One row per explained prediction: keys, `method` (the explainer's name), `is_control`, image, rank, `label`
    (explained), `expected`, `own` (the prediction), the scores, and `reason` where there is no SSS."""
    rows = run.scores()
    keys = [*KEYS, "sample"]
    wide = rows.pivot(index=keys, columns="metric", values="value").reindex(columns=SCORES)
    about = rows[rows["metric"] == "sss"].set_index(keys)
    about = about.rename(columns={f"explainer.{fact}": name for fact, name in _FACTS.items()})
    table = wide.join(about[["answer", "expected", "reason", *_FACTS.values()]]).reset_index()
    for name in ("image", "rank"):
        column = f"meta.{name}"
        table[name] = (
            about[column].reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy() if column in about else np.nan
        )
    table["image"] = table["image"].where(table["image"].notna(), table["sample"])
    table["rank"] = pd.to_numeric(table["rank"]).fillna(1).astype(int)
    table["label"] = [label_of(answer) if isinstance(answer, str) else None for answer in table["answer"]]
    table["method"] = table["method"].astype(str)
    kept = run.details("correct")
    own = pd.Series(dtype=str)
    if len(kept.keys):
        own = pd.Series(kept.texts["own"], index=pd.MultiIndex.from_frame(kept.keys[keys]), dtype=object)
    table["own"] = [own.get(key) for key in table[keys].itertuples(index=False, name=None)]
    return table


def per_image(table: pd.DataFrame) -> pd.DataFrame:
    """Mean SSS of the predictions of every image (PIA is the mean of these)."""
    groups = table.dropna(subset=["sss"]).groupby([*KEYS, *_FACTS.values(), "image"], sort=True, observed=True)
    return groups.agg(sss=("sss", "mean"), gain=("gain", "mean"), predictions=("sss", "size")).reset_index()


def per_class(table: pd.DataFrame) -> pd.DataFrame:
    """Mean SSS of the predictions of every class, by the class that was explained."""
    groups = table.dropna(subset=["sss"]).groupby([*KEYS, "label"], sort=True)
    named = {name: (name, "mean") for name in ("sss", "gain", "outside", "confidence", "correct")}
    return groups.agg(**named, predictions=("sss", "size"), images=("image", "nunique")).reset_index()


def export(run: Results, folder: str | Path, kind: str = "parquet") -> list[Path]:
    """Write the three tables into a folder, as .parquet or .csv."""
    from karat.results.export import write_frame

    table = predictions(run)
    tables = {"predictions": table, "images": per_image(table), "classes": per_class(table)}
    paths = [Path(folder) / f"{name}.{kind}" for name in tables]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, frame in zip(paths, tables.values(), strict=True):
        write_frame(frame, path)
    return paths


def target_of(run: Results) -> str:
    """What the run explains: "truth", "predicted" or "present"."""
    return str(run.spec["protocol"].get("target", "truth"))


# --- models, methods and controls


@dataclass(frozen=True)
class Level:
    """How spurious one model is under one explainer; `answered` is the share of images with a prediction above the
    least confidence."""

    model: str
    dataset: str
    explainer: str
    sss: Estimate
    per_prediction: float
    per_class: float
    gain: float
    images: int
    predictions: int
    coverage: float
    answered: Estimate


def levels(table: pd.DataFrame, least: float) -> list[Level]:
    rows = []
    for keys, group in table.groupby(KEYS, sort=True):
        images, classes = per_image(group), per_class(group)
        sure = group.groupby("image")["own_confidence"].max().dropna()
        rows.append(
            Level(
                *place_of(keys), mean(images["sss"], *keys), float(group["sss"].mean()), float(classes["sss"].mean()),
                float(images["gain"].mean()), len(images), int(group["sss"].notna().sum()),
                len(images) / group["image"].nunique(), proportion(sure > least),
            )
        )  # fmt: skip
    return rows


def place_of(keys: Iterable[object]) -> tuple[str, str, str]:
    """Model, dataset and explainer of a group."""
    model, dataset, explainer = map(str, keys)
    return model, dataset, explainer


def mean(values: pd.Series, *names: object, clusters: pd.Series | None = None, level: float = 0.95) -> Estimate:
    """Of scores of one place of the run, which names the random stream."""
    rng = generator(0, "\0".join(map(str, names)), "semantic/interval")
    return bootstrap_mean(values, rng=rng, clusters=clusters, confidence=level)


@dataclass(frozen=True)
class Gap:
    """SSS of `first` minus that of `second`, paired by image; `sure` after Holm's correction over all gaps."""

    model: str
    dataset: str
    first: str
    second: str
    difference: Estimate
    sure: bool


def above_controls(table: pd.DataFrame) -> list[Gap]:
    """SSS of every control that never saw the model minus that of every method: SSS can be had by aiming at the
    middle."""
    images = per_image(table)
    gaps = []
    for (model, dataset), group in images.groupby(["model", "dataset"], sort=True):
        wide = group.pivot(index="image", columns="explainer", values="sss")
        blind = group[group["is_control"] & (group["method"] != ORACLE)]["explainer"].unique()
        for control, method in product(blind, methods_of(group)):
            gaps.append((model, dataset, control, method, _paired(wide, control, method, model, dataset)))
    return _corrected(gaps)


def between_models(table: pd.DataFrame) -> list[Gap]:
    """Each model minus the one just below it in SSS, method by method; `model` of the gap is the explainer."""
    gaps = []
    for (dataset, explainer), group in per_image(table).groupby(["dataset", "explainer"]):
        wide = group.pivot(index="image", columns="model", values="sss")
        models = sorted(wide.columns, key=lambda model: float(np.nanmean(wide[model])))
        for lower, higher in pairwise(models):
            gaps.append((explainer, dataset, higher, lower, _paired(wide, higher, lower, dataset, explainer)))
    return _corrected(gaps)


def methods_of(rows: pd.DataFrame) -> list[str]:
    """Labels of the explainers that are no controls."""
    return [str(name) for name in rows.loc[~rows["is_control"].astype(bool), "explainer"].unique()]


def _paired(wide: pd.DataFrame, first: object, second: object, *names: object) -> Estimate:
    rng = generator(0, "\0".join(map(str, (*names, first, second))), "semantic/difference")
    return paired_difference(wide[first], wide[second], rng=rng)


def _corrected(gaps: Sequence[tuple[object, object, object, object, Estimate]]) -> list[Gap]:
    if not gaps:
        return []
    p = adjust([gap[4].p for gap in gaps], "holm")
    return [
        Gap(str(model), str(dataset), str(first), str(second), gap, bool(q < LEVEL and gap.low > 0))
        for (model, dataset, first, second, gap), q in zip(gaps, p, strict=True)
    ]


@dataclass(frozen=True)
class SignedLayer:
    """CAMs that read a layer with values below what any usual activation lets through."""

    model: str
    explainer: str
    negative: float  # share of the activations, mean over images
    least: float


def signed_layers(run: Results) -> list[SignedLayer]:
    kept = run.details("sss")
    if LEAST_ACTIVATION not in kept.arrays:
        return []
    noted = kept.keys.assign(negative=kept.arrays[NEGATIVE], least=kept.arrays[LEAST_ACTIVATION])
    rows = noted.groupby(["model", "explainer"], sort=True).agg(negative=("negative", "mean"), least=("least", "min"))
    signed = rows[rows["least"] < ACTIVATION_FLOOR].reset_index()
    return [SignedLayer(*row) for row in signed.itertuples(index=False, name=None)]

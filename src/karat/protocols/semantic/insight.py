"""What a run of `semantic` shows: how spurious each model is, right and wrong reasons, classes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.protocols.semantic.choosing import LEAST
from karat.protocols.semantic.classes import bias, confusable, extremes
from karat.protocols.semantic.levels import KEYS, per_class, per_image, predictions
from karat.protocols.semantic.reasons import against_confidence, against_size, quadrants
from karat.statistics import Estimate, adjust, bootstrap_mean, paired_difference

if TYPE_CHECKING:
    from karat.results.run import Run


_COLUMNS = (
    "per image", "low", "high", "per prediction", "per class", "gain", "images", "predictions", "coverage", "answered",
)  # fmt: skip


def insight(run: Run) -> list[Finding]:
    """All findings of one run; those that its rows say nothing about are left out."""
    table = predictions(run)
    if table["sss"].notna().sum() == 0:
        return []
    methods = table[~table["explainer"].str.startswith("control/")]  # controls are a yardstick, not a way to explain
    parts = (quadrants, against_confidence, against_size, extremes, bias, confusable) if len(methods) else ()
    least = float(run.spec["protocol"].get("min_confidence", LEAST))
    return [_overview(table, least), *(finding for part in parts if (finding := part(methods)) is not None)]


def _estimate(values: Any, *parts: str, clusters: Any = None) -> Estimate:
    return bootstrap_mean(values, rng=generator(0, "\0".join(parts), "semantic/interval"), clusters=clusters)


def _overview(table: pd.DataFrame, least: float) -> Finding:
    rows: list[tuple[Any, ...]] = []
    for keys, group in table.groupby(KEYS, sort=True):
        images, classes = per_image(group), per_class(group)
        value = _estimate(images["sss"], *map(str, keys))
        rows.append(
            (
                *keys, value.value, value.low, value.high, float(group["sss"].mean()), float(classes["sss"].mean()),
                float(images["gain"].mean()), len(images), int(group["sss"].notna().sum()),
                len(images) / group["image"].nunique(), _answered(group, least),
            )
        )  # fmt: skip
    shown = [(f"{m} · {e}" if len(table["dataset"].unique()) == 1 else f"{m} · {e} · {d}") for m, d, e, *_ in rows]
    series = Series("SSS", tuple(shown), *(tuple(_number(row[k]) for row in rows) for k in (3, 4, 5)))
    return Finding(
        title="How much of each explanation lies outside what it is about?",
        about="SSS: 0 all inside, 1 all outside. Means over images with 95 % intervals, predictions, classes. "
        "`gain` compares with a map that is the same everywhere: 0 no better, 1 all inside. `coverage` is the share of "
        "images with at least one prediction that counts, `answered` of those where the model is surer of anything at "
        f"all than {least:g} (a detector's detection coverage).",
        sentences=(*_against_controls(table), *_order(table)),
        columns=(*KEYS, *_COLUMNS),
        rows=tuple(tuple(row) for row in rows),
        figures=(Figure("SSS per image", "intervals", "model and explainer", "SSS", (series,)),),
    )  # fmt: skip


def _answered(group: pd.DataFrame, least: float) -> float:
    """Share of the images that could be read on which the model's own answer is above the least confidence."""
    sure = group.groupby("image")["own_confidence"].max().dropna()
    return float((sure > least).mean()) if len(sure) else np.nan


def _against_controls(table: pd.DataFrame) -> list[str]:
    """Which methods a map that never saw the model does as well as: SSS can be had by aiming at the middle."""
    images = per_image(table)
    sentences = []
    for (model, dataset), group in images.groupby(["model", "dataset"], sort=True):
        wide = group.pivot(index="image", columns="explainer", values="sss")
        blind = [name for name in wide if str(name).startswith("control/") and "oracle" not in str(name)]
        methods = [name for name in wide if not str(name).startswith("control/")]
        tests = [
            (
                m,
                c,
                paired_difference(
                    wide[c], wide[m], rng=generator(0, f"{model}\0{dataset}\0{m}\0{c}", "semantic/blind")
                ),
            )
            for c in blind
            for m in methods
        ]
        if not tests:
            continue
        corrected = adjust([gap.p for *_, gap in tests], "holm")
        for control in blind:
            beaten = [p < 0.05 and gap.low > 0 for (_, c, gap), p in zip(tests, corrected, strict=True) if c == control]
            not_shown = [str(m) for m, ok in zip(methods, beaten, strict=True) if not ok]
            told = f"is not beaten by {', '.join(not_shown)}" if not_shown else "is beaten by every method"
            sentences.append(f"{model} on {dataset}: {control}, which never saw the model, {told}.")
    return sentences


def _order(table: pd.DataFrame) -> list[str]:
    """Which models differ, method by method: paired by image, corrected over all pairs."""
    images = per_image(table)
    pairs: list[tuple[str, str, str, str, Estimate]] = []
    for (dataset, explainer), group in images.groupby(["dataset", "explainer"]):
        wide = group.pivot(index="image", columns="model", values="sss")
        models = sorted(wide.columns, key=lambda model: float(np.nanmean(wide[model])))
        for a, b in pairwise(models):
            rng = generator(0, f"{dataset}\0{explainer}\0{a}\0{b}", "semantic/difference")
            pairs.append((str(dataset), str(explainer), a, b, paired_difference(wide[b], wide[a], rng=rng)))
    if not pairs:
        return []
    corrected = adjust([pair[4].p for pair in pairs], "holm")
    sentences = []
    for (dataset, explainer, a, b, gap), p in zip(pairs, corrected, strict=True):
        where = f"{explainer} on {dataset}"
        told = f"{gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}]"
        clear = p < 0.05 and gap.low > 0
        shown = f"{b} is more spurious than {a} by {told}" if clear else f"{a} and {b} cannot be told apart ({told})"
        sentences.append(f"{where}: {shown}.")
    return sentences


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)

"""Choosing a configuration: SSS over thresholds, how far it keeps from chance, and how many predictions it covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pandas as pd

from karat.kernel.identity import generator
from karat.protocols.common.rows import frame_of
from karat.statistics import bootstrap_mean

if TYPE_CHECKING:
    from karat.kernel.roles import Results

Mode = Literal["soft", "hard"]
_KEYS = ["model", "dataset", "explainer", "sample"]


@dataclass(frozen=True)
class Configuration:
    explainer: str
    mode: Mode
    threshold: float


@dataclass(frozen=True)
class Point:
    """Mean SSS at one threshold with its interval, `margin` (SSS of chance minus SSS), `separation` (mean margin over
    its standard deviation) and `coverage`."""

    model: str
    dataset: str
    explainer: str
    is_control: bool
    mode: Mode
    threshold: float
    SSS: float
    low: float
    high: float
    margin: float
    separation: float
    coverage: float
    predictions: int


def curves(run: Results, thresholds: Sequence[float]) -> pd.DataFrame:
    """One row (`Point`) per model, dataset, explainer, mode and threshold."""
    kept = run.details("sss")
    scores = run.scores(metrics=["outside"], columns=[*_KEYS, "value", "explainer.is_control"])
    outside = scores.set_index(_KEYS)
    places = pd.MultiIndex.from_frame(kept.keys[_KEYS])
    keys = kept.keys.assign(outside=outside["value"].reindex(places).to_numpy())
    control = dict(zip(scores["explainer"], scores["explainer.is_control"], strict=True))
    rows: list[Point] = []
    for (model, dataset, explainer), part in keys.groupby(["model", "dataset", "explainer"], sort=True):
        counted = part["outside"].notna().to_numpy()  # predictions that count; a map may still fall below a threshold
        if not counted.any():
            continue
        chance = part["outside"].to_numpy()[counted]
        modes: tuple[Mode, ...] = ("soft", "hard")
        for mode in modes:
            for t, threshold in enumerate(thresholds):
                sss = kept.arrays[mode][part.index.to_numpy()[counted], t].astype(np.float64)
                margin = chance - sss
                some = int(np.isfinite(margin).sum())
                spread = float(np.nanstd(margin, ddof=1)) if some > 1 else np.nan
                centre = float(np.nanmean(margin)) if some else np.nan
                name = "\0".join(map(str, (model, dataset, explainer, mode, threshold)))
                mean = bootstrap_mean(sss, rng=generator(0, name, "semantic/sweep"), resamples=500)
                rows.append(Point(
                    str(model), str(dataset), str(explainer), bool(control[explainer]), mode, float(threshold),
                    mean.value, mean.low, mean.high, centre, centre / spread if spread > 0 else np.nan,
                    float(np.isfinite(sss).mean()), int(counted.sum()),
                ))  # fmt: skip
    return frame_of(rows, Point)


def choose_configuration(table: pd.DataFrame, coverage: float) -> Configuration | None:
    """The method, mode and threshold with the largest separation, averaged over models and datasets, among those that
    cover enough predictions of every one; the lower threshold where two are equal. None where nothing does."""
    competing = table[~table["is_control"].astype(bool)]
    if competing.empty:
        return None
    grouped = competing.groupby(["explainer", "mode", "threshold"]).agg(
        separation=("separation", "mean"), least=("coverage", "min"), known=("separation", "count")
    )
    whole = grouped["known"] == len(table[["model", "dataset"]].drop_duplicates())
    able = grouped[whole & (grouped["least"] >= coverage)].reset_index()
    if able.empty:
        return None
    best = able.sort_values(["separation", "threshold", "explainer"], ascending=[False, True, True]).iloc[0]
    return Configuration(str(best["explainer"]), cast(Mode, str(best["mode"])), float(best["threshold"]))

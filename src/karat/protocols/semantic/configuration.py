"""Choosing a configuration: SSS over thresholds, how far it keeps from chance, and how many predictions it covers.

CAMs that read a signed layer are not chosen while there are others: they are made for maps after an activation, and on
others their distance from chance is one of the layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pandas as pd

from karat.kernel.identity import generator
from karat.protocols.common.rows import frame_of
from karat.protocols.semantic.analysis import signed_layers
from karat.statistics import bootstrap_mean

if TYPE_CHECKING:
    from karat.kernel.roles import Results

Mode = Literal["soft", "hard"]
_KEYS = ["model", "dataset", "explainer", "sample"]


@dataclass(frozen=True)
class Configuration:
    """`separation` is that of the chosen explainer, with its standard `error`; `as_good` are the explainers that come
    within it, `barred` those that could not be chosen because they read a signed layer."""

    explainer: str
    mode: Mode
    threshold: float
    separation: float
    error: float
    as_good: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()


@dataclass(frozen=True)
class Point:
    """Mean SSS at one threshold with its interval, `margin` (SSS of chance minus SSS), `separation` (mean margin over
    its standard deviation) and `coverage`."""

    model: str
    dataset: str
    explainer: str
    is_control: bool
    signed: bool
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
    signed = {(row.model, row.explainer) for row in signed_layers(run)}
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
                    str(model), str(dataset), str(explainer), bool(control[explainer]),
                    (str(model), str(explainer)) in signed, mode, float(threshold), mean.value, mean.low, mean.high,
                    centre, centre / spread if spread > 0 else np.nan, float(np.isfinite(sss).mean()),
                    int(counted.sum()),
                ))  # fmt: skip
    return frame_of(rows, Point)


def choose_configuration(table: pd.DataFrame, coverage: float) -> Configuration | None:
    """The method, mode and threshold with the largest separation, averaged over models and datasets, among those that
    cover enough predictions of every one; the lower threshold where two are equal. None where nothing does."""
    competing = table[~table["is_control"].astype(bool)]
    if competing.empty:
        return None
    parts = competing["predictions"].astype(float)
    competing = competing.assign(variance=(1 + competing["separation"] ** 2 / 2) / parts)  # of a standardised mean
    grouped = competing.groupby(["explainer", "mode", "threshold"]).agg(
        separation=("separation", "mean"), error=("variance", lambda one: float(np.sqrt(one.sum())) / len(one)),
        least=("coverage", "min"), known=("separation", "count"), signed=("signed", "any"),
    )  # fmt: skip
    whole = grouped["known"] == len(table[["model", "dataset"]].drop_duplicates())
    able = grouped[whole & (grouped["least"] >= coverage)].reset_index()
    if able.empty:
        return None
    able = able.sort_values(["separation", "threshold", "explainer"], ascending=[False, True, True])
    usual = able[~able["signed"].astype(bool)] if not able["signed"].all() else able
    best = usual.iloc[0]
    near = usual[usual["separation"] > best["separation"] - best["error"]]
    as_good = tuple(str(name) for name in near["explainer"].unique() if name != best["explainer"])
    barred = tuple(str(name) for name in able["explainer"].unique() if name not in set(usual["explainer"]))
    mode, threshold = cast(Mode, str(best["mode"])), float(best["threshold"])
    return Configuration(
        str(best["explainer"]), mode, threshold, float(best["separation"]), float(best["error"]), as_good, barred
    )

"""Choosing a configuration: SSS over thresholds, how far it keeps from chance, and how many predictions it covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.statistics import bootstrap_mean

if TYPE_CHECKING:
    from karat.results.run import Run

Mode = Literal["soft", "hard"]
_KEYS = ["model", "dataset", "explainer", "sample"]


@dataclass(frozen=True)
class Configuration:
    explainer: str
    mode: Mode
    threshold: float


def curves(run: Run, thresholds: Sequence[float]) -> pd.DataFrame:
    """One row per model, dataset, explainer, mode and threshold: mean SSS with its interval, `margin` (SSS of chance
    minus SSS), `separation` (mean margin over its standard deviation) and `coverage`."""
    kept = run.details("sss")
    keys = kept.keys
    scores = run.scores()
    outside = scores[scores["metric"] == "outside"].set_index(_KEYS)["value"]
    keys = keys.assign(outside=outside.reindex(pd.MultiIndex.from_frame(keys[_KEYS])).to_numpy())
    rows: list[dict[str, Any]] = []
    for place, part in keys.groupby(["model", "dataset", "explainer"], sort=True):
        wanted = part["outside"].notna().to_numpy()  # predictions that count; a map may still fall below a threshold
        if not wanted.any():
            continue
        chance = part["outside"].to_numpy()[wanted]
        for mode in ("soft", "hard"):
            for t, threshold in enumerate(thresholds):
                sss = kept.arrays[mode][part.index.to_numpy()[wanted], t].astype(np.float64)
                margin = chance - sss
                spread = float(np.nanstd(margin, ddof=1)) if np.isfinite(margin).sum() > 1 else np.nan
                rng = generator(0, "\0".join(map(str, (*place, mode, threshold))), "semantic/sweep")
                mean = bootstrap_mean(sss, rng=rng, resamples=500)
                rows.append({
                    "model": place[0], "dataset": place[1], "explainer": place[2], "mode": mode,
                    "threshold": float(threshold), "SSS": mean.value, "low": mean.low, "high": mean.high,
                    "margin": float(np.nanmean(margin)) if np.isfinite(margin).any() else np.nan,
                    "separation": float(np.nanmean(margin)) / spread if spread and np.isfinite(spread) else np.nan,
                    "coverage": float(np.isfinite(sss).mean()), "predictions": int(wanted.sum()),
                })  # fmt: skip
    return pd.DataFrame(rows)


def choose_configuration(table: pd.DataFrame, coverage: float) -> Configuration | None:
    """The method, mode and threshold with the largest separation, averaged over models and datasets, among those that
    cover enough predictions of every one; the lower threshold where two are equal. None where nothing does."""
    if table.empty:
        return None
    grouped = table.groupby(["explainer", "mode", "threshold"]).agg(
        separation=("separation", "mean"), least=("coverage", "min"), known=("separation", "count")
    )
    whole = grouped["known"] == len(table[["model", "dataset"]].drop_duplicates())
    able = grouped[whole & (grouped["least"] >= coverage)].reset_index()
    able = able[~able["explainer"].str.startswith("control/")]
    if able.empty:
        return None
    best = able.sort_values(["separation", "threshold", "explainer"], ascending=[False, True, True]).iloc[0]
    return Configuration(str(best["explainer"]), cast(Mode, str(best["mode"])), float(best["threshold"]))


def sweep_finding(table: pd.DataFrame, coverage: float) -> Finding:
    """The curves, and what was chosen from them."""
    chosen = choose_configuration(table, coverage)
    if chosen is None:
        sentences: tuple[str, ...] = (f"No configuration scores {coverage:.0%} of the predictions of every model.",)
    else:
        sentences = (
            f"Chosen: {chosen.explainer} with a {chosen.mode} threshold of {chosen.threshold:g}; `karat run "
            "RUN/chosen.yaml` holds it fixed.",
            "Scores under other configurations must not be compared with it.",
        )
    figures = tuple(
        Figure(f"{what} over thresholds, {mode}", "lines", "threshold", what, tuple(_lines(table, mode, column)))
        for column, what in (("SSS", "SSS"), ("separation", "separation from chance"))
        for mode in ("soft", "hard")
        if len(table)
    )
    return Finding(
        title="Which configuration to fix",
        about="SSS over thresholds for every method and layer of the spec. `separation` is the mean distance of SSS "
        "from that of chance in standard deviations over predictions; `coverage` the share of predictions where any "
        "saliency reaches the threshold.",
        sentences=sentences,
        columns=tuple(table.columns),
        rows=tuple(table.itertuples(index=False, name=None)),
        figures=figures,
    )


def _lines(table: pd.DataFrame, mode: str, column: str) -> list[Series]:
    found = []
    for (model, dataset, explainer), part in table[table["mode"] == mode].groupby(["model", "dataset", "explainer"]):
        part = part.sort_values("threshold")
        bounds = [tuple(_plain(part[side])) for side in ("low", "high")] if column == "SSS" else [None, None]
        alone = table["model"].nunique() * table["dataset"].nunique() == 1
        name = f"{explainer}" if alone else f"{model} · {dataset} · {explainer}"
        found.append(Series(name, tuple(part["threshold"]), tuple(_plain(part[column])), *bounds))
    return found


def _plain(values: pd.Series) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]

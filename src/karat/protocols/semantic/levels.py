"""The three levels of SSS: per prediction, per image, per class; as tables, and written out as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.models.detections import label_of

if TYPE_CHECKING:
    from karat.results.run import Run

KEYS = ["model", "dataset", "explainer"]
SCORES = ["sss", "gain", "outside", "confidence", "own_confidence", "correct"]


def predictions(run: Run) -> pd.DataFrame:
    """One row per explained prediction: keys, image, rank, `label` (explained), `expected`, `own` (what the model says
    by itself), the scores, and `reason` where there is no SSS."""
    rows = run.scores()
    keys = [*KEYS, "sample"]
    wide = rows.pivot(index=keys, columns="metric", values="value").reindex(columns=SCORES)
    about = rows[rows["metric"] == "sss"].set_index(keys)
    table = wide.join(about[["answer", "expected", "reason"]]).reset_index()
    for name in ("image", "rank"):
        column = f"meta.{name}"
        table[name] = (
            about[column].reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy() if column in about else np.nan
        )
    table["image"] = table["image"].where(table["image"].notna(), table["sample"])
    table["rank"] = pd.to_numeric(table["rank"]).fillna(1).astype(int)
    table["label"] = [label_of(answer) if isinstance(answer, str) else None for answer in table["answer"]]
    kept = run.details("correct")
    own = pd.Series(dtype=str)
    if len(kept):
        own = pd.Series(kept.texts["own"], index=pd.MultiIndex.from_frame(kept.keys[keys]), dtype=object)
    table["own"] = [own.get(key) for key in table[keys].itertuples(index=False, name=None)]
    return table


def per_image(table: pd.DataFrame) -> pd.DataFrame:
    """Mean SSS of the predictions of every image (PIA is the mean of these)."""
    groups = table.dropna(subset=["sss"]).groupby([*KEYS, "image"], sort=True)
    return groups.agg(sss=("sss", "mean"), gain=("gain", "mean"), predictions=("sss", "size")).reset_index()


def per_class(table: pd.DataFrame) -> pd.DataFrame:
    """Mean SSS of the predictions of every class, by the class that was explained."""
    groups = table.dropna(subset=["sss"]).groupby([*KEYS, "label"], sort=True)
    named = {name: (name, "mean") for name in ("sss", "gain", "outside", "confidence", "correct")}
    return groups.agg(**named, predictions=("sss", "size"), images=("image", "nunique")).reset_index()


def export(run: Run, folder: str | Path, kind: str = "parquet") -> list[Path]:
    """Write the three tables into a folder, as .parquet or .csv."""
    from karat.results.export import write_frame

    table = predictions(run)
    tables = {"predictions": table, "images": per_image(table), "classes": per_class(table)}
    paths = [Path(folder) / f"{name}.{kind}" for name in tables]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, frame in zip(paths, tables.values(), strict=True):
        write_frame(frame, path)
    return paths

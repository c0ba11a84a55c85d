"""After training: how much did the answers gain, and how much the direction of the evidence? (creg2026 table 9)"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.compass.tables import column, is_control, plain, plain_rows, stream, wide
from karat.statistics import paired_difference

#: What stands between the name of a model and the objective that `Lora` trained it with.
JOINT = " + "
COLUMNS = (
    "dataset", "base", "objective", "explainer", "accuracy", "dae", "ea", "accuracy change", "accuracy low",
    "accuracy high", "dae change", "dae low", "dae high", "excess change", "excess low", "excess high", "n",
)  # fmt: skip


def gains_table(scores: pd.DataFrame) -> pd.DataFrame:
    """A row per dataset, base, objective and explainer; changes are paired by sample, with 95 % intervals.

    The base itself stands in the rows whose objective is "none". A positive change of the DAE is a loss of direction.
    """
    frame = wide(plain_rows(scores))
    frame = frame[~frame["explainer"].map(is_control)]
    models = set(frame["model"])
    trained = sorted(name for name in models if name.rpartition(JOINT)[0] in models)
    rows: list[tuple[Any, ...]] = []
    for base in sorted({name.rpartition(JOINT)[0] for name in trained}):
        for (dataset, explainer), before in frame[frame["model"] == base].groupby(["dataset", "explainer"]):
            rows.append((dataset, base, "none", explainer, *_means(before), *[None] * 9, len(before)))
            for name in (name for name in trained if name.rpartition(JOINT)[0] == base):
                after = frame[
                    (frame["model"] == name) & (frame["dataset"] == dataset) & (frame["explainer"] == explainer)
                ]
                both = after.merge(before, on="sample", suffixes=("", " before"))
                if len(both) < 2:
                    continue
                changes: list[float] = []
                for metric in ("accuracy", "compass/direction_error", "excess_error"):
                    rng = stream(name, dataset, explainer, metric)
                    found = paired_difference(column(both, metric), column(both, f"{metric} before"), rng=rng)
                    changes += [found.value, found.low, found.high]
                objective = name.rpartition(JOINT)[2]
                rows.append((dataset, base, objective, explainer, *_means(after), *changes, len(both)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _means(part: pd.DataFrame) -> tuple[float, ...]:
    named = ("accuracy", "compass/direction_error", "edge_accuracy")
    values = [column(part, name) for name in named]
    return tuple(float(np.nanmean(one)) if np.isfinite(one).any() else float("nan") for one in values)


def verdict(low: float, high: float) -> str:
    """What an interval of a change says.

    >>> verdict(-3.0, -1.0), verdict(-3.0, 1.0), verdict(1.0, 3.0)
    ('falls', 'does not change clearly', 'rises')
    """
    return "falls" if high < 0 else "rises" if low > 0 else "does not change clearly"


def gains_finding(scores: pd.DataFrame) -> Finding | None:
    table = gains_table(scores)
    after = table[table["objective"] != "none"]
    if after.empty:
        return None
    sentences = []
    for (dataset, base, objective), part in after.groupby(["dataset", "base", "objective"], sort=False):
        row = part.iloc[0]
        said = [f"{one.explainer} {verdict(one.low, one.high)}" for one in _renamed(part)]
        sentences.append(
            f"{base} trained with `{objective}` on {dataset}: accuracy {row['accuracy'] - row['accuracy change']:.2f} "
            f"to {row['accuracy']:.2f} ({row['accuracy low']:+.2f} to {row['accuracy high']:+.2f}); the DAE of "
            + "; of ".join(said) + "."
        )  # fmt: skip
    figures = []
    for (dataset, base), part in table.groupby(["dataset", "base"], sort=False):
        points = tuple(
            Series(str(name), tuple(round(float(x), 3) for x in one["accuracy"]), tuple(map(float, one["dae"])))
            for name, one in part.groupby("objective", sort=False)
        )
        figures.append(Figure(f"Accuracy and DAE of {base} on {dataset}, a point per explainer", "points", "accuracy",
                              "DAE in degrees", points, lines=(("chance", 90.0),)))  # fmt: skip
        moved = part[part["objective"] != "none"]
        changes = tuple(
            Series(str(name), tuple(one["explainer"]), *(tuple(map(float, one[k])) for k in
                   ("dae change", "dae low", "dae high")))
            for name, one in moved.groupby("objective", sort=False)
        )  # fmt: skip
        figures.append(Figure(f"Change of the DAE of {base} on {dataset}", "intervals", "", "degrees", changes,
                              lines=(("no change", 0.0),)))  # fmt: skip
    return Finding(
        "Accuracy against direction after training",
        "LoRA on the answers alone (`answers`) or with one objective on the evidence beside them; `none` is the model "
        "before. Changes are per sample, with 95 % intervals: a rise of the DAE is a loss of direction.",
        tuple(sentences), COLUMNS, plain(table), section="Accuracy and direction", figures=tuple(figures),
    )  # fmt: skip


def _renamed(part: pd.DataFrame) -> Any:
    return part[["explainer", "dae low", "dae high"]].set_axis(["explainer", "low", "high"], axis=1).itertuples()

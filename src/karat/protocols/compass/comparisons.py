"""Between models: each one's best explainer beside its accuracy, and the reasoning twin against the shortcut twin."""

from __future__ import annotations

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.compass.tables import column, is_control, main_table, plain, plain_rows, stream, wide
from karat.statistics import adjust, paired_difference


def best_finding(scores: pd.DataFrame) -> Finding | None:
    """creg2026 table 9: accuracy beside the DAE of each model's best explainer. Does one come with the other?"""
    table = main_table(scores)
    real = table[~table["explainer"].map(is_control)].dropna(subset=["dae"])
    if real.empty or real["model"].nunique() < 2:
        return None
    best = real.loc[real.groupby(["dataset", "model"])["dae"].idxmin()]
    names = ("dataset", "model", "explainer", "accuracy", "dae", "dae low", "dae high", "ea", "n")
    best = best[list(names)].sort_values(["dataset", "accuracy"], ignore_index=True)
    sentences, figures = [], []
    for dataset, part in best.groupby("dataset"):
        figures.append(Figure(f"Accuracy and direction on {dataset}", "points", "accuracy", "DAE", tuple(
            Series(str(row["model"]), (round(float(row["accuracy"]), 3),), (float(row["dae"]),),
                   (float(row["dae low"]),), (float(row["dae high"]),)) for _, row in part.iterrows()
        )))  # fmt: skip
        first, last = part.iloc[0], part.iloc[-1]
        if last["accuracy"] > first["accuracy"]:
            better = "lower" if last["dae high"] < first["dae low"] else (
                "higher" if last["dae low"] > first["dae high"] else "not clearly different")  # fmt: skip
            sentences.append(
                f"On {dataset}, {last['model']} answers better than {first['model']} ({last['accuracy']:.2f} against "
                f"{first['accuracy']:.2f}); the error of its best explainer is {better} ({last['dae']:.1f} against "
                f"{first['dae']:.1f} degrees)."
            )
    return Finding(
        "Do better answers come with better directions?",
        "Every model with the explainer that points best for it, and the accuracy of its answers.",
        tuple(sentences), names, plain(best), section="Accuracy and direction", figures=tuple(figures),
    )  # fmt: skip


def twins_finding(scores: pd.DataFrame) -> Finding | None:
    """Does any explainer point better for the twin that reasons than for the one that takes a shortcut?"""
    frame = wide(plain_rows(scores))
    families = sorted({m.removesuffix(".pure") for m in frame["model"] if m.endswith(".pure")})
    rows = []
    for family in families:
        twins = frame[frame["model"].isin([f"{family}.pure", f"{family}.spur"])]
        for (dataset, explainer), part in twins.groupby(["dataset", "explainer"]):
            if is_control(str(explainer)) and explainer != "control/oracle":
                continue
            sides = [part[part["model"] == f"{family}.{variant}"] for variant in ("pure", "spur")]
            both = sides[0].merge(sides[1], on="sample", suffixes=(" pure", " spur"))
            if len(both) < 5:
                continue
            for metric in ("compass/direction_error", "excess_error"):
                values = column(both, f"{metric} pure"), column(both, f"{metric} spur")
                found = paired_difference(*values, rng=stream(family, dataset, explainer, metric))
                rows.append((family, dataset, explainer, metric, *map(np.nanmean, values), found.value, found.low,
                             found.high, found.p, found.n))  # fmt: skip
    if not rows:
        return None
    names = ("family", "dataset", "explainer", "metric", "pure", "spur", "pure - spur", "low", "high", "p", "n")
    table = pd.DataFrame(rows, columns=list(names))
    table["p"] = adjust(table["p"].to_numpy())
    seen = table[(table["high"] < 0) & (table["p"] < 0.05)]
    said = [f"{row.explainer} ({row.family}, {row.metric})" for row in seen.itertuples()]
    sentence = (
        f"Points better for the twin that reasons: {', '.join(said)}." if said
        else "No explainer points better for the twin that reasons than for the twin that takes a shortcut."
    )  # fmt: skip
    series = tuple(
        Series(f"{family}, {metric}", tuple(part["explainer"]), *(tuple(map(float, part[k])) for k in
               ("pure - spur", "low", "high")))
        for (family, metric), part in table.groupby(["family", "metric"])
    )  # fmt: skip
    return Finding(
        "The reasoning twin against the shortcut twin",
        "The same scenes and explainers, two models that answer for different reasons; differences per sample with 95 "
        "% intervals, p adjusted for their number. Below 0, the evidence of the twin that reasons points better.",
        (sentence,), names, plain(table), section="Known truth",
        figures=(Figure("Reasoning twin minus shortcut twin", "intervals", "", "degrees", series,
                        lines=(("no difference", 0.0),)),),
    )  # fmt: skip

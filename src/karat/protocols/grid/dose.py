"""How strong must a shortcut be before explanations show it? Twins that mix it with reasoning at a known dose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.protocols.grid.frames import is_control, number, twin_of
from karat.protocols.grid.verdict import FEATURES, relational, told

_DOSE = re.compile(r"^(?P<family>.+)\.dose\((?P<dose>[^)]*)\)(?P<world> \(.*\))?$")
COLUMNS = ["explainer", "dose", "auc", "low", "high", "null", "samples", "of", "features", "detected"]
DRAWS = 19  # the largest of 19 is exceeded by chance once in 20


def dosed(models: list[str]) -> dict[str, dict[str, float]]:
    """Families with doses: family → model → dose; the reasoning twin is not among them, the spur twin is dose 1.

    >>> dosed(["t.pure", "t.dose(0.5)", "u.pure (6×6 of 16 px)", "u.dose(0.1) (6×6 of 16 px)", "v.dose(0.5)"])
    {'t': {'t.dose(0.5)': 0.5}, 'u (6×6 of 16 px)': {'u.dose(0.1) (6×6 of 16 px)': 0.1}}
    """
    twins = {twin_of(name): name for name in models}
    found: dict[str, dict[str, float]] = {}
    for name in models:
        if match := _DOSE.match(name):
            found.setdefault(f"{match['family']}{match['world'] or ''}", {})[name] = float(match["dose"])
    for family, doses in found.items():
        if (family, "spur") in twins:
            doses[twins[family, "spur"]] = 1.0
    return {family: doses for family, doses in found.items() if (family, "pure") in twins}


def dose_curve(scores: pd.DataFrame, family: str = "gridprog", *, folds: int = 5, seed: int = 0) -> pd.DataFrame:
    """One row per explainer and dose: how well the dosed twin is told from the reasoning one; NaN where a dose has too
    few scores of an explainer (the oracle has none where the mechanism is mixed: nobody knows the truth there).

    `null` is the same-mechanism null: the largest AUC of 19 tries in which the two explanations of every sample are
    exchanged at random, so that there is nothing to find. `detected`: the interval lies above 0.5 and the AUC above the
    null. A model of dose 0, where the run has one, is the null in the flesh.
    """
    rows = relational(scores)
    models = rows["model"].unique().tolist()
    doses = dosed(models).get(family, {})
    honest = {twin_of(name): name for name in models}.get((family, "pure"), "")
    found: list[dict[str, Any]] = []
    everyone = sorted(rows.loc[rows["metric"].isin(FEATURES) & rows["value"].notna(), "explainer"].unique())
    for name, dose in sorted(doses.items(), key=lambda item: item[1]):
        pairs = told(rows, honest, name, folds=folds)
        for explainer in everyone:
            if explainer not in pairs:
                found.append({"explainer": explainer, "dose": dose, "samples": 0, "features": "", "detected": False})
                continue
            pair = pairs[explainer]
            rng = generator(seed, explainer, "grid/verdict")
            estimate = pair.auc(rng, folds)
            swaps = generator(seed, explainer, "grid/null").random((DRAWS, len(pair.samples))) < 0.5
            null = max(pair.auc(rng, folds, swap).value for swap in swaps)
            found.append(
                {
                    "explainer": explainer, "dose": dose, "auc": estimate.value, "low": estimate.low,
                    "high": estimate.high, "null": null, "samples": len(pair.samples), "of": pair.of,
                    "features": ", ".join(pair.used),
                    "detected": estimate.low > 0.5 and estimate.value > null,
                }
            )  # fmt: skip
    return pd.DataFrame(found, columns=COLUMNS).sort_values(["explainer", "dose"], ignore_index=True)


def detection_threshold(curve: pd.DataFrame) -> pd.Series[float]:
    """Per explainer the smallest dose from which on every dose is detected; NaN where none is, or one has no scores."""

    def smallest(group: pd.DataFrame) -> float:
        seen = group.sort_values("dose", ascending=False)
        if seen["auc"].isna().any():
            return float("nan")
        lasting = seen[seen["detected"].cummin()]
        return float(lasting["dose"].min()) if len(lasting) else float("nan")

    return pd.Series({name: smallest(group) for name, group in curve.groupby("explainer")}, dtype=float)


def dose_findings(scores: pd.DataFrame, section: str) -> Iterator[Finding]:
    for family in dosed(scores["model"].unique().tolist()):
        curve = dose_curve(scores, family)
        if curve.empty:
            continue
        threshold = detection_threshold(curve)
        ranked = sorted(threshold.index, key=lambda name: (is_control(name), np.nan_to_num(threshold[name], nan=2.0)))
        sentences = [_sentence(name, family, curve[curve["explainer"] == name], threshold[name]) for name in ranked]
        # a line across doses without scores would show what nobody has seen
        scored = curve[curve.groupby("explainer")["auc"].transform("count") == curve["dose"].nunique()]
        series = [
            Series(str(name), *(tuple(group[c].tolist()) for c in ("dose", "auc", "low", "high")))
            for name, group in scored.groupby("explainer")
        ]
        nulls = scored.groupby("dose")["null"].max()
        series.append(Series("null: the largest of any explainer", tuple(nulls.index), tuple(nulls)))
        yield Finding(
            title=f"How strong must the shortcut be? {family}",
            about="The twin of dose p mixes (1 - p) reasoning and p shortcut at its logits. AUC of telling it from the "
            "reasoning twin, with a 95 % interval; `null` is the largest of 19 tries without any difference. A dose is "
            "detected where the interval lies above 0.5 and the AUC above the null; the threshold is the smallest dose "
            "from which on all are.",
            sentences=tuple(sentences),
            columns=(*curve.columns, "threshold"),
            rows=tuple(
                (row["explainer"], row["dose"], *(number(row[c]) for c in ("auc", "low", "high", "null")),
                 row["samples"], number(row["of"]), row["features"],
                 "no scores" if np.isnan(row["auc"]) else "yes" if row["detected"] else "no",
                 number(threshold[row["explainer"]]))
                for row in curve.to_dict("records")
            ),
            section=section,
            figures=(
                Figure(f"Dose and detection: {family}", "lines", "dose of the shortcut", "AUC", tuple(series),
                       lines=(("blind", 0.5),)),
            ),
        )  # fmt: skip


def _sentence(name: str, family: str, curve: pd.DataFrame, threshold: float) -> str:
    silent = curve.loc[curve["auc"].isna(), "dose"]
    if len(silent):
        return f"{name} has no scores at dose {', '.join(f'{dose:g}' for dose in silent)}: no threshold of {family}."
    if not np.isfinite(threshold) and curve["detected"].any():
        seen = ", ".join(f"{dose:g}" for dose in curve.loc[curve["detected"], "dose"])
        return f"{name} shows the shortcut of {family} at dose {seen}, but not from any dose on."
    if not np.isfinite(threshold):
        return f"{name} does not show the shortcut of {family} at any dose of this run."
    at = curve[curve["dose"] == threshold].iloc[0]
    faint = ", if faintly" if at["auc"] < 0.6 else ""
    return f"{name} shows the shortcut of {family} from dose {threshold:g} on{faint} (AUC {at['auc']:.2f} there)."

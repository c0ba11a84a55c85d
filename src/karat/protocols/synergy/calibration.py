"""How well does F_syn stand in for the exact interaction index, and what does it save? (section 4.3, Fig. 3-4)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.synergy.frames import Scored, number
from karat.statistics import kendall, spearman

if TYPE_CHECKING:
    from karat.results.run import Run

COLUMNS = (
    "model", "explainer", "n", "rho", "rho low", "rho high", "tau", "tau low", "tau high",
    "passes F_syn", "passes exact", "fewer passes",
)  # fmt: skip
_DRAWN = 400  # points a figure can show


def pairs(scored: Scored) -> pd.DataFrame:
    """F_syn and the exact index of the same explanations: columns f_syn, sii."""
    keys = ["model", "dataset", "explainer", "instance"]
    both = [scored.all_rows(m).set_index(keys)["value"].rename(m) for m in ("f_syn", "sii")]
    return pd.concat(both, axis=1).dropna().reset_index()


def calibration(scored: Scored, run: Run) -> Finding | None:
    """Spearman and Kendall between F_syn and the exact index: overall, per model, and per explainer of each model."""
    table = pairs(scored)
    if len(table) < 3:
        return None
    counts = _passes(run)
    rows: list[tuple[Scalar, ...]] = []
    groups: list[tuple[str, str, pd.DataFrame]] = [("all", "all", table)]
    for model, own in table.groupby("model", observed=True):
        groups.append((str(model), "all", own))
        groups += [(str(model), str(name), part) for name, part in own.groupby("explainer", observed=True)]
    if table["model"].nunique() == 1:
        groups.pop(1)  # the same rows as "all"
    for model, explainer, part in groups:
        rows.append((model, explainer, *_row(scored, part, counts, model, explainer)))
    seconds = calibration_seconds(run)
    timed = (
        f"In this run F_syn took {seconds[0]:.3g} s per explanation, the exact index {seconds[1]:.3g} s: "
        f"{seconds[1] / seconds[0]:.1f} times as long."
        if seconds
        else "The time is in the events of the run, which are not here."
    )
    first = dict(zip(COLUMNS, rows[0], strict=True))
    fewer = first["fewer passes"]  # None in a record that left the details out
    said = (
        f"Over {len(table)} explanations, Spearman's rho between F_syn and the exact index is {_spread(first, 'rho')}, "
        f"Kendall's tau {_spread(first, 'tau')}.",
        (f"F_syn asks for {fewer:.1f} times fewer coalitions. " if fewer else "") + timed,
    )
    points = []
    for name, part in table.groupby("explainer", observed=True):
        few = part.iloc[: max(1, _DRAWN // table["explainer"].nunique())]
        points.append(Series(str(name), tuple(map(float, few["sii"])), tuple(map(float, few["f_syn"]))))
    figures = [Figure("F_syn and the exact index (Fig. 3)", "points", "exact index", "F_syn", tuple(points))]
    if seconds:
        bars = Series("seconds per explanation", ("F_syn", "exact index"), seconds)
        figures.append(Figure("Time (Fig. 4)", "bars", "", "seconds per explanation", (bars,)))
    return Finding(
        title="Does F_syn stand in for the exact interaction index?",
        about="The exact index is the Shapley interaction of the first features of image and text in a game with six "
        "players more, who share the rest at random (appendix D), averaged over the same steps. Passes are distinct "
        "coalitions per explanation. Intervals are by a bootstrap over instances.",
        sentences=said,
        columns=COLUMNS,
        rows=tuple(rows),
        section="Calibration (section 4.3, appendix D)",
        figures=tuple(figures),
    )


def calibration_seconds(run: Run) -> tuple[float, float] | None:
    """Seconds per explanation of F_syn and of the exact index, from the events of the run."""
    spent = {"f_syn": 0.0, "sii": 0.0}
    for event in run.events():
        if event.get("event") == "job_done":
            for what, seconds in event.get("spent", {}).items():
                if what in spent:
                    spent[what] += seconds
    values = run.scores().groupby("metric", observed=True)["value"].count()
    if not spent["f_syn"] or not spent["sii"] or not values.get("sii", 0):
        return None
    return spent["f_syn"] / int(values["f_syn"]), spent["sii"] / int(values["sii"])


def _passes(run: Run) -> pd.DataFrame:
    """Distinct coalitions that each explanation asked for."""
    kept = run.details("sii")
    if not len(kept):
        return pd.DataFrame()
    return kept.keys.assign(f_syn=kept.arrays["f_syn_passes"], sii=kept.arrays["sii_passes"]).dropna()


def _row(scored: Scored, part: pd.DataFrame, counts: pd.DataFrame, model: str, explainer: str) -> tuple[Scalar, ...]:
    rng = scored.rng(f"{model}/{explainer}")
    clusters = part["instance"].to_numpy()
    found: list[Scalar] = [len(part)]
    level = part["f_syn"].nunique() < 2 or part["sii"].nunique() < 2  # nothing to rank: no correlation
    for measure in (spearman, kendall):
        if level:
            found += [None] * 3
            continue
        estimate = measure(part["f_syn"], part["sii"], rng=rng, clusters=clusters, resamples=500)
        found += [number(estimate.value), number(estimate.low), number(estimate.high)]
    own = counts
    for column, name in (("model", model), ("explainer", explainer)):
        own = own[own[column] == name] if name != "all" and len(own) else own
    if not len(own):
        return (*found, None, None, None)
    cheap, dear = float(own["f_syn"].mean()), float(own["sii"].mean())
    return (*found, cheap, dear, dear / cheap)


def _spread(row: dict[str, Scalar], name: str) -> str:
    return f"{row[name]:.3f} ({row[f'{name} low']:.3f} to {row[f'{name} high']:.3f})"


def rho_interval(finding: Finding) -> tuple[float, float, float]:
    """rho, low, high over all explanations of a calibration finding."""
    row = dict(zip(finding.columns, finding.rows[0], strict=True))
    rho, low, high = (float(row[name] or np.nan) for name in ("rho", "rho low", "rho high"))
    return rho, low, high

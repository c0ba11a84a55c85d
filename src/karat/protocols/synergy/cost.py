"""F_syn beside the exact index (section 4.3, Fig. 3-4), and what explanations cost (Fig. 13): the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.protocols.synergy.analysis import Scored
from karat.statistics import Estimate, kendall, pareto, spearman

if TYPE_CHECKING:
    from karat.results.run import Run

_NOTHING = Estimate(np.nan, np.nan, np.nan, np.nan, 0, 0)


@dataclass(frozen=True)
class Calibration:
    """F_syn beside the exact index, over all explanations or those of one model and explainer ("all": every one)."""

    model: str
    explainer: str
    n: int
    rho: Estimate
    tau: Estimate
    f_syn_passes: float  # distinct coalitions an explanation; NaN in a record that left the details out
    exact_passes: float


def pairs(scored: Scored) -> pd.DataFrame:
    """F_syn and the exact index of the same explanations: columns f_syn, sii."""
    keys = ["model", "dataset", "explainer", "instance", "cluster"]
    both = [scored.all_rows(m).set_index(keys)["value"].rename(m) for m in ("f_syn", "sii")]
    return pd.concat(both, axis=1).dropna().reset_index()


def calibrations(scored: Scored, run: Run, parts: bool = True) -> list[Calibration]:
    """Overall and, with `parts`, per model and per explainer of each; nothing where there is no exact index."""
    table = pairs(scored)
    if len(table) < 3:
        return []
    passes = _passes(run)
    groups: list[tuple[str, str, pd.DataFrame]] = [("all", "all", table)]
    for model, own in table.groupby("model", observed=True) if parts else ():
        if table["model"].nunique() > 1:
            groups.append((str(model), "all", own))
        groups += [(str(model), str(name), part) for name, part in own.groupby("explainer", observed=True)]
    rows = []
    for model, explainer, part in groups:
        rng = scored.rng(f"{model}/{explainer}")
        level = part["f_syn"].nunique() < 2 or part["sii"].nunique() < 2  # nothing to rank: no correlation
        rho, tau = (
            _NOTHING if level else measure(part["f_syn"], part["sii"], rng=rng, clusters=part["cluster"], resamples=500)
            for measure in (spearman, kendall)
        )
        own = passes[passes["model"].isin([model]) | (model == "all")]
        own = own[own["explainer"].isin([explainer]) | (explainer == "all")]
        means = own[["f_syn", "sii"]].mean()
        rows.append(Calibration(model, explainer, len(part), rho, tau, float(means["f_syn"]), float(means["sii"])))
    return rows


def calibration_seconds(run: Run) -> tuple[float, float] | None:
    """Seconds per explanation of F_syn and of the exact index, from the events of the run."""
    spent = _spent(run)
    values = run.scores(columns=["metric", "value"]).groupby("metric", observed=True)["value"].count()
    if not spent.get("f_syn") or not spent.get("sii") or not values.get("sii", 0):
        return None
    return spent["f_syn"] / int(values["f_syn"]), spent["sii"] / int(values["sii"])


def explain_seconds(run: Run) -> dict[str, float]:
    """Seconds per explanation of each explainer, from the events of the run; empty where they are gone."""
    spent = _spent(run)
    counts = run.scores(metrics=["f_syn"], columns=["explainer"])["explainer"].value_counts()
    return {str(name): spent[f"explain {name}"] / int(n) for name, n in counts.items() if f"explain {name}" in spent}


def frontier(scored: Scored, run: Run, dataset: str | None) -> pd.DataFrame:
    """Explainers by cost: passes, seconds, f_syn, cost (the one of both that they are ordered by), frontier,
    dominated_by."""
    seconds = explain_seconds(run)
    rows = scored.rows("f_syn", dataset)
    table = rows.groupby("explainer", observed=True).agg(passes=("passes", "mean"), f_syn=("value", "mean"))
    table["seconds"] = [seconds.get(str(name), np.nan) for name in table.index]
    timed = bool(table["seconds"].notna().all())
    return pareto(table.assign(cost=table["seconds" if timed else "passes"]), "cost", "f_syn").assign(timed=timed)


def _spent(run: Run) -> dict[str, float]:
    """Seconds by what they were spent on."""
    spent: dict[str, float] = {}
    for event in run.events():
        if event.get("event") == "job_done":
            for what, seconds in event.get("spent", {}).items():
                spent[what] = spent.get(what, 0.0) + seconds
    return spent


def _passes(run: Run) -> pd.DataFrame:
    """Distinct coalitions that each explanation asked for: model, explainer, f_syn, sii."""
    kept = run.details("sii")
    counts = {
        what: kept.arrays.get(name, np.full(len(kept), np.nan)).astype(np.float64)
        for what, name in (("f_syn", "f_syn_passes"), ("sii", "sii_passes"))
    }
    return kept.keys.assign(**counts).dropna(subset=["f_syn", "sii"])

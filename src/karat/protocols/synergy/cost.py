"""What an explanation costs against what it finds (Fig. 13), and an oracle under deletion (Fig. 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.synergy.frames import REFERENCE, Scored, number
from karat.statistics import pareto

if TYPE_CHECKING:
    from karat.results.run import Run

ORACLES = ("control/oracle", "control/box_only")


def explain_seconds(run: Run) -> dict[str, float]:
    """Seconds per explanation of each explainer, from the events of the run; empty where they are gone."""
    spent: dict[str, float] = {}
    for event in run.events():
        if event.get("event") == "job_done":
            for what, seconds in event.get("spent", {}).items():
                if what.startswith("explain "):
                    spent[what[8:]] = spent.get(what[8:], 0.0) + seconds
    counts = run.scores().query("metric == 'f_syn'")["explainer"].value_counts()
    return {name: seconds / int(counts[name]) for name, seconds in spent.items() if name in counts}


def frontier(scored: Scored, run: Run) -> Finding:
    rows: list[tuple[Scalar, ...]] = []
    figures = []
    seconds = explain_seconds(run)
    said = []
    for dataset in (None, *scored.datasets) if len(scored.datasets) > 1 else (None,):
        part = scored.rows("f_syn", dataset)
        table = part.groupby("explainer", observed=True).agg(passes=("passes", "mean"), f_syn=("value", "mean"))
        table["seconds"] = [seconds.get(str(name), np.nan) for name in table.index]
        cost = "seconds" if table["seconds"].notna().all() else "passes"
        marked = pareto(table, cost, "f_syn")
        for name, row in marked.iterrows():
            better = None if pd.isna(row["dominated_by"]) else str(row["dominated_by"])
            numbers = (number(row["passes"]), number(row["seconds"]), number(row["f_syn"]))
            rows.append((dataset or "all", str(name), *numbers, bool(row["frontier"]), better))
        series = tuple(
            Series(str(name), (number(row[cost]),), (number(row["f_syn"]),)) for name, row in marked.iterrows()
        )
        figures.append(Figure(f"{dataset or 'All datasets'} (Fig. 13)", "points", cost, "F_syn", series))
        if dataset is None:
            said.append(f"No explainer is both cheaper and better than {', '.join(marked[marked['frontier']].index)}.")
    return Finding(
        title="What does an explanation cost, and what does it find?",
        about="Forward passes are those that the method itself makes. Seconds are wall time per explanation on this "
        "machine; explainers of one run share traces, so the first to need one pays for it.",
        sentences=tuple(said),
        columns=("dataset", "explainer", "passes", "seconds", "F_syn", "on the frontier", "beaten by"),
        rows=tuple(rows),
        section="Cost (appendix C.4)",
        figures=tuple(figures),
    )


def oracle_under_deletion(run: Run) -> Finding | None:
    """Fig. 1: what happens to the answer as the truth itself is deleted, from the image alone and from both."""
    kept = run.details("f_syn").complete()
    keys = kept.keys
    shown = next((name for name in ORACLES if name in set(keys["explainer"])), None)
    if shown is None:
        return None
    steps = kept.arrays["del_img"].shape[1]
    shares: tuple[Scalar, ...] = tuple(float(share) for share in np.linspace(0, 1, steps))
    rows: list[tuple[Scalar, ...]] = []
    figures = []
    flat = []
    parts = {"del_img": "image deleted", "del_txt": "text deleted", "del_joint": "both deleted"}
    for model in sorted(set(keys["model"])):
        series: list[Series] = []
        for explainer in (shown, REFERENCE):
            own = kept.take(((keys["model"] == model) & (keys["explainer"] == explainer)).to_numpy())
            if not len(own):
                continue
            for name, words in parts.items():
                mean = own.arrays[name].mean(axis=0).astype(float).tolist()
                rows.append((model, explainer, words, len(own), *mean))
                if explainer == shown or name == "del_img":
                    series.append(Series(f"{explainer}, {words}", shares, tuple(mean)))
                if explainer == shown and name == "del_img" and mean[0] - min(mean) < 0.1:
                    flat.append(model)
        title = f"Deletion of an oracle: {model} (Fig. 1)"
        figures.append(Figure(title, "lines", "share deleted", "probability", tuple(series)))
    said = tuple(
        f"{model} hardly reacts to the deletion of the very pixels it must use: image deletion cannot judge it."
        for model in flat
    )
    return Finding(
        title="An oracle under deletion",
        about=f"The mean probability of the answer as the first features of {shown} are taken away, from the image, "
        "from the text, and from both. A flat image curve says that the text alone carries the answer, not that the "
        "explanation is wrong (Fig. 1 of the paper).",
        sentences=said,
        columns=(
            "model",
            "explainer",
            "what goes",
            "n",
            *(f"{float(share):.0%}" for share in np.linspace(0, 1, steps)),
        ),
        rows=tuple(rows),
        section="Limits of deletion (section 3.2)",
        figures=tuple(figures),
    )

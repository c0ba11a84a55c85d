"""Draws grid.png from the recorded runs: how well explainers tell the twins apart, and how strong a shortcut must be
before they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import karat
from karat.kernel.finding import Finding

HERE = Path(__file__).parent
INK = "#20242c"
FAMILIES = {"gridprog": ("compiled", "#5b7c99"), "gridnet": ("learnt network", "#2f7d4f"),
            "gridvlm": ("learnt VLM", "#d08a1d")}  # fmt: skip
DOSED = {
    "attention/rollout": "#8a6fae", "relevance/attnlrp": "#2f7d4f", "perturbation/leave_one_out": "#d08a1d",
    "attention/generic": "#5b7c99", "gradient/gradient": "#7a8a3a", "cam/gradcam": "#b5483b",
}  # fmt: skip
CONTROLS = ("control/oracle", "control/random")


def finding(record: str, title: str) -> Finding:
    found = karat.load_run(Path(karat.__file__).parent / "recorded" / record).findings()
    return next(each for each in found if each.title.startswith(title))


def short(label: str) -> str:
    unimodal = ", unimodal" if "part=uc" in label else ""
    return label.split("(")[0].split("/")[1].replace("_", " ") + unimodal


def verdicts(axes: Any) -> None:
    told = finding("grid", "Which twin")
    rows = [dict(zip(told.columns, row, strict=True)) for row in told.rows]
    methods: dict[str, list[float]] = {}
    for row in rows:
        if not str(row["explainer"]).startswith("control/") or row["explainer"] in CONTROLS:
            methods.setdefault(str(row["explainer"]), []).append(float(row["directed"]))
    ranked = sorted(methods, key=lambda name: sum(methods[name]) / len(methods[name]))
    for family, (label, colour) in FAMILIES.items():
        own = {row["explainer"]: row for row in rows if row["family"] == family}
        there = [(at, own[name]) for at, name in enumerate(ranked) if name in own]
        x, y = [row["directed"] for _, row in there], [at for at, _ in there]
        axes.plot(x, y, "o", ms=4.5, color=colour, label=label)
    axes.axvline(0.5, color=INK, lw=0.8)
    axes.set_yticks(range(len(ranked)), [short(name) for name in ranked], fontsize=7.5)
    axes.set(xlabel="directed verdict", xlim=(-0.02, 1.02))
    axes.set_title("0.5 is blind, 1 shows the shortcut, below 0.5 points the wrong way", loc="left", fontsize=10.5)
    axes.grid(axis="y", color="#e7e7ea", lw=0.6)
    axes.legend(frameon=False, fontsize=8.5, loc="lower right")


def doses(axes: Any) -> None:
    [figure] = finding("dose", "How strong").figures
    for series in figure.series:
        if series.name in DOSED:
            colour = DOSED[series.name]
            axes.plot(series.x, series.y, color=colour, lw=2, marker="o", ms=3.5, label=short(series.name))
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, lw=0)
        elif series.name.startswith("null"):
            axes.plot(series.x, series.y, color=INK, lw=1, ls=":", label="null")
    axes.axhline(0.5, color=INK, lw=0.8)
    axes.set(xlabel="dose of the shortcut", ylabel="directed verdict", ylim=(0.45, 1.02))
    axes.set_title("How strong must a shortcut be\nbefore explanations show it?", loc="left", fontsize=10.5)
    axes.legend(frameon=False, fontsize=8.5, loc="center right", bbox_to_anchor=(1.0, 0.45))


def main() -> None:
    fig, (left, right) = plt.subplots(1, 2, figsize=(11.5, 7.6), layout="constrained")
    verdicts(left)
    doses(right)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    fig.savefig(HERE / "grid.png", dpi=120)


if __name__ == "__main__":
    main()

"""Draws audit.png from the recorded audit: four metrics on the ladder of one twin, and who is blind on which model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import karat

HERE = Path(__file__).parent
INK = "#20242c"
SHOWN = {"own_mass": "#2f7d4f", "insertion_visual": "#d08a1d", "f_syn": "#5b7c99", "deletion_text": "#b5483b"}
TWIN = "gridvlm.pure"


def recorded() -> dict[str, Any]:
    """Figures of the recorded run by title."""
    findings = karat.load_run(Path(karat.__file__).parent / "recorded/audit").findings()
    return {figure["title"]: figure for finding in findings for figure in finding.plain()["figures"]}


def main() -> None:
    figures = recorded()
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(11.5, 4.4), layout="constrained", gridspec_kw={"width_ratios": [1, 1.35]}
    )
    for series in figures[f"The ladder of swaps on {TWIN}"]["series"]:
        if series["name"] in SHOWN:
            name = series["name"]
            left.plot(series["x"], series["y"], color=SHOWN[name], lw=2.2, marker="o", ms=3.5, label=name)
    left.legend(frameon=False, loc="lower left", fontsize=9)
    left.axhline(0, color=INK, lw=0.8)
    left.set(xlabel="share of cells and words that changed places", ylabel="from noise (0) to the oracle (1)")
    left.set_title(f"A metric that works falls from 1 to 0\n({TWIN})", loc="left", fontsize=10.5)
    left.spines[["top", "right"]].set_visible(False)

    grid = figures["The oracle above noise, in standard deviations"]["series"]
    values = np.array([[np.nan if v is None else v for v in series["y"]] for series in grid], dtype=float)
    there = ~np.isnan(values).all(axis=0)  # a dose between two mechanisms has no one truth
    models = [name.replace("gridnet.pure randomised", "shuffled") for name in np.array(grid[0]["x"])[there]]
    values = values[:, there]
    right.imshow(np.clip(values, -2, 2), cmap="RdYlGn", vmin=-2, vmax=2, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{value:.1f}"
        right.text(column, row, text, ha="center", va="center", fontsize=7.5, color=INK)
    right.set_xticks(range(len(models)), models, rotation=40, ha="right", fontsize=8)
    right.set_yticks(range(len(grid)), [series["name"] for series in grid], fontsize=8)
    title = "How far the oracle stands above noise,\nin standard deviations: near 0 is blind"
    right.set_title(title, loc="left", fontsize=10.5)
    right.tick_params(length=0)
    fig.savefig(HERE / "audit.png", dpi=130)


if __name__ == "__main__":
    main()

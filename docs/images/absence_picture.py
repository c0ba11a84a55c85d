"""Draws absence.png: what absent states do to the trained twins, from the record beside their weights."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from karat.kernel.empty import EMPTY
from karat.models import recipe
from karat.models.weights.absence import kept_answers

TWINS = {"gridnet.pure": "#d08a1d", "gridnet.spur": "#e8c384", "gridvlm.pure": "#3f5f7d", "gridvlm.spur": "#9db4c8"}
WIDTH = 0.19


def main() -> None:
    figure, axes = plt.subplots(figsize=(8.4, 3.2), layout="constrained")
    for k, (name, colour) in enumerate(TWINS.items()):
        shares = kept_answers(name, recipe(name).revision)
        places = [x + (k - 1.5) * WIDTH for x in range(len(EMPTY))]
        values = [shares[state].value for state in EMPTY]
        below = [shares[state].value - shares[state].low for state in EMPTY]
        above = [shares[state].high - shares[state].value for state in EMPTY]
        axes.bar(places, values, WIDTH * 0.92, color=colour, label=name)
        axes.errorbar(places, values, (below, above), fmt="none", ecolor="#20242c", elinewidth=0.9)
    axes.axhline(0.95, color="#20242c", lw=0.8, ls=(0, (4, 3)))
    axes.text(len(EMPTY) - 0.52, 0.955, "bar", fontsize=8, va="bottom", ha="right")
    axes.set_xticks(range(len(EMPTY)), EMPTY)
    axes.set_ylim(0, 1.04)
    axes.set_ylabel("answers kept")
    axes.set_title(
        "Nothing that matters is hidden: how many answers stay, by what hidden cells look like", loc="left", fontsize=10
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, -0.3))
    figure.savefig(Path(__file__).with_name("absence.png"), dpi=150)


if __name__ == "__main__":
    main()

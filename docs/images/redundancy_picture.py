"""Draws redundancy.png: a redundant game under deletion and under F_syn, and a synergistic one beside it."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from karat.metrics import deletion, synergy
from karat.probe import Game

PATCHES, WORDS, DECISIVE = 20, 10, 2  # the first two of each modality carry the answer
INK, WARM, COLD = "#20242c", "#d08a1d", "#5b7c99"


def either() -> Game:
    """The answer is there as long as one decisive patch or one decisive word is."""
    return Game(lambda image, text: (image[:, :DECISIVE].any(1) | text[:, :DECISIVE].any(1)) * 1.0, PATCHES, WORDS)


def together() -> Game:
    """The answer needs a decisive patch and a decisive word."""
    return Game(lambda image, text: (image[:, :DECISIVE].any(1) & text[:, :DECISIVE].any(1)) * 1.0, PATCHES, WORDS)


def main() -> None:
    perfect = np.arange(PATCHES), np.arange(WORDS)
    rng = np.random.default_rng(0)
    noise = [(rng.permutation(PATCHES), rng.permutation(WORDS)) for _ in range(200)]
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.1), layout="constrained")
    steps = np.linspace(0, 1, 11)
    random_image = np.mean([deletion(either(), order).values for order, _ in noise], axis=0)
    left.plot(steps, deletion(either(), perfect[0]).values, color=WARM, lw=2.4, label="perfect explainer")
    left.plot(steps, random_image, color=COLD, lw=2.4, ls=(0, (3, 3)), label="random explainer")
    left.set_title("Image deleted, text there:\nboth look equally wrong", loc="left")
    joint = synergy(either(), *perfect).curves["del_joint"]
    random_joint = np.mean([synergy(either(), *orders).curves["del_joint"] for orders in noise], axis=0)
    middle.plot(steps, joint, color=WARM, lw=2.4)
    middle.plot(steps, random_joint, color=COLD, lw=2.4, ls=(0, (3, 3)))
    middle.set_title("Both deleted:\nnow the perfect one shows", loc="left")
    for ax in (left, middle):
        ax.set(ylim=(-0.05, 1.1), xlabel="share deleted", ylabel="probability of the answer")
    left.legend(frameon=False, loc="lower left")
    places = np.arange(2)
    for shift, colour, orders in ((-0.2, WARM, [perfect]), (0.2, COLD, noise)):
        values = [np.mean([synergy(game, *order).value for order in orders]) for game in (either(), together())]
        bars = right.bar(places + shift, values, 0.38, color=colour)
        right.bar_label(bars, [f"{value:+.2f}" for value in values], padding=2, fontsize=8.5)
    right.axhline(0, color=INK, lw=0.8)
    right.set(
        xticks=places, xticklabels=["redundant\n(either suffices)", "synergistic\n(both needed)"], ylim=(-1.1, 1.1)
    )
    right.set_title("F_syn: far from noise in both,\nand below it in the first", loc="left")
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontsize(10.5)
        ax.tick_params(labelsize=8.5)
    fig.savefig(Path(__file__).with_name("redundancy.png"), dpi=110)


if __name__ == "__main__":
    main()

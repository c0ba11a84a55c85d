"""Draws semantic.png, examples of right and wrong reasons, and semantic_sweep.png, what a sweep chooses from.

    python docs/images/semantic_picture.py RUNS PETS

RUNS holds semantic-pets (docs/recorded/semantic/pets.yaml, run with keep_maps: true), PETS is the folder it reads; the
sweep is the recorded one. Without arguments only the sweep is drawn.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

from karat.datasets.segmentation import Folder
from karat.protocols.paper import RECORDED
from karat.protocols.semantic import gallery
from karat.protocols.semantic.configuration import choose_configuration, curves
from karat.protocols.semantic.sweep import SemanticSweep
from karat.results.run import Run, load_run

HERE = Path(__file__).parent
COLOURS = {"cam/gradcam": "#d08a1d", "cam/layercam": "#5b7c99", "cam/eigencam": "#3f8f5f", "control/center": "#9aa0a8"}
DASHES = {"blocks.4": (0, (1, 2)), "blocks.5": (0, (4, 2)), "blocks.6": (0, (6, 1)), "bn2": "-", "": "-"}


def sweep(run: Run) -> None:
    protocol = SemanticSweep()
    table = curves(run, protocol.thresholds)
    chosen = choose_configuration(table, protocol.coverage)
    assert chosen is not None
    fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for explainer, part in table[table["mode"] == chosen.mode].groupby("explainer"):
        name, _, inside = str(explainer).partition("(")
        if name not in COLOURS:
            continue
        layer = inside.rstrip(")").partition("=")[2] or ("" if name.startswith("control/") else "bn2")
        part = part.sort_values("threshold")
        for ax, column in zip(axes, ("SSS", "separation"), strict=True):
            ax.plot(part["threshold"], part[column], color=COLOURS[name], ls=DASHES[layer], lw=2,
                    label=f"{name} {layer}".strip())  # fmt: skip
    at = table[(table["explainer"] == chosen.explainer) & (table["mode"] == chosen.mode)].set_index("threshold")
    for ax, column in zip(axes, ("SSS", "separation"), strict=True):
        ax.plot(chosen.threshold, at.loc[chosen.threshold, column], "o", ms=11, mfc="none", mec="#20242c", mew=1.8)
        ax.set_xlabel(f"threshold, share of the maximum ({chosen.mode})")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_title("SSS falls with the threshold...", loc="left")
    axes[1].set_title("...distance from chance, in SDs, has a best place", loc="left")
    fig.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside right center", fontsize=8)
    fig.savefig(HERE / "semantic_sweep.png", dpi=110)


def shorten(path: Path) -> None:
    """The first and the last two of the eight kinds, in few colours: enough for a page."""
    whole = Image.open(path).convert("RGB")
    high = whole.height // 8
    short = Image.new("RGB", (whole.width, 4 * high))
    for row, kind in enumerate((0, 1, 6, 7)):
        short.paste(whole.crop((0, kind * high, whole.width, (kind + 1) * high)), (0, row * high))
    short.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(path, optimize=True)


def main() -> None:
    sweep(load_run(RECORDED / "semantic_sweep"))
    if len(sys.argv) == 1:
        return
    runs, pets = (Path(argument) for argument in sys.argv[1:3])
    path = gallery(
        load_run(runs / "semantic-pets"), Folder(str(pets), images="original"), HERE / "semantic.png",
        model="efficientnet-lite0", explainer="cam/gradcam", columns=4,
    )  # fmt: skip
    shorten(path)


if __name__ == "__main__":
    main()

"""Draws localization.svg and prints the table of localization.md: what each score says of six maps and one mask."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from karat import metrics

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "karat"
import matplotlib.pyplot as plt  # noqa: E402 - after the backend is chosen

SIZE = 48


def main() -> None:
    rng = np.random.default_rng(0)
    y, x = np.indices((SIZE, SIZE))
    mask = np.zeros((SIZE, SIZE), dtype=bool)
    mask[12:28, 18:34] = True

    def bump(cy: float, cx: float, spread: float) -> np.ndarray:
        return np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * spread**2))

    noise = rng.random((SIZE, SIZE))
    lucky = noise.copy()
    lucky[20, 26] = 1.2
    cases = {
        "on the object": bump(19.5, 25.5, 5),
        "blurred": bump(19.5, 25.5, 14),
        "uniform": np.ones((SIZE, SIZE)),
        "noise, lucky peak": lucky,
        "one corner of it": bump(13, 19, 1.5),
        "next to it": bump(38, 12, 5),
    }
    maps = np.stack(list(cases.values()))
    masks = np.broadcast_to(mask, maps.shape)
    columns = {
        "relevance_mass": metrics.relevance_mass(maps, masks),
        "corrected_mass": metrics.corrected_mass(maps, masks),
        "spuriousity": metrics.spuriousity(maps, masks),
        "spuriousity, threshold 0.6": metrics.spuriousity(maps, masks, 0.6),
        "otsu_iou": metrics.otsu_iou(maps, masks),
        "hit": metrics.hit(maps, masks),
        "relevance_rank": metrics.relevance_rank(maps, masks),
    }
    print("| map | " + " | ".join(f"`{name}`" for name in columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for i, name in enumerate(cases):
        print(f"| {name} | " + " | ".join(f"{column[i]:.2f}" for column in columns.values()) + " |")

    figure, axes = plt.subplots(1, len(cases), figsize=(12, 2.2), layout="constrained")
    for axis, (name, a) in zip(axes, cases.items(), strict=True):
        axis.imshow(a, cmap="viridis", vmin=0, vmax=1)
        axis.contour(mask, levels=[0.5], colors="white", linewidths=1.2)
        axis.set_title(name, fontsize=10)
        axis.set_axis_off()
    figure.savefig(Path(__file__).with_name("localization.svg"), metadata={"Date": None}, transparent=True)


if __name__ == "__main__":
    main()

"""Localisation metrics side by side with Quantus: processor time per map, on one core, in one run.

Assay scores all maps; Quantus scores the first few of the same maps (it takes milliseconds each) and its time is
divided by their number. Values are compared on those few before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from side_by_side import compared

from assay import metrics

Ours = Callable[[Any, Any], Any]
FIVE: dict[str, Ours] = {
    "relevance_mass": metrics.relevance_mass,
    "otsu_iou": metrics.otsu_iou,
    "spuriousity": metrics.spuriousity,
    "hit": metrics.hit,
    "weighted_iou": metrics.weighted_iou,
}
OTHERS: dict[str, Ours] = {
    "corrected_mass": metrics.corrected_mass,
    "relevance_rank": metrics.relevance_rank,
    "pointing_game": metrics.pointing_game,
}
# Ours, the metric of Quantus that answers the same question, and how ours follows from its value (None: it does not).
PEERS: list[tuple[str, str, Callable[[Any], Any] | None]] = [
    ("relevance_mass", "RelevanceMassAccuracy", lambda value: value),
    ("spuriousity", "AttributionLocalisation", lambda value: 1 - value),
    ("hit", "PointingGame", lambda value: value),
    ("weighted_iou", "TopKIntersection", None),
    ("relevance_rank", "RelevanceRankAccuracy", lambda value: value),
]


def scenes(n: int, size: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Saliency-like maps (a bump over noise), box masks, and scores for truth; float32, as models give them."""
    rng = np.random.default_rng(seed)
    grid = np.arange(size, dtype=np.float32)
    maps = np.empty((n, size, size), dtype=np.float32)
    masks = np.zeros((n, size, size), dtype=bool)
    for i in range(n):
        (cy, cx), spread = rng.uniform(0.2, 0.8, 2) * size, rng.uniform(0.08, 0.25) * size
        bump = np.exp(-((grid[:, None] - cy) ** 2 + (grid - cx) ** 2) / (2 * spread**2))
        maps[i] = bump + 0.2 * rng.random((size, size), dtype=np.float32)
        y, x = (int(v) for v in rng.uniform(0.1, 0.6, 2) * size)
        masks[i, y : y + size // 3, x : x + size // 4] = True
    return maps, masks, maps + 0.2 * rng.random(maps.shape, dtype=np.float32)


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Processor time of the fastest of several runs: the others were disturbed."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def quantus_runs(maps: Any, masks: Any) -> dict[str, Callable[[], Any]]:
    import quantus
    import torch

    torch.set_num_threads(1)
    n, height, width = maps.shape
    given = {
        "model": torch.nn.Identity(),  # asked for, never called: the attributions are given
        "x_batch": np.zeros((n, 1, height, width), dtype=np.float32) + np.arange(n)[:, None, None, None],
        "y_batch": np.zeros(n, dtype=int),
        "a_batch": maps[:, None],
        "s_batch": masks[:, None],
    }

    def run(name: str) -> Any:
        return np.array(getattr(quantus, name)(disable_warnings=True)(**given), dtype=float).reshape(n)

    return {name: partial(run, name) for _, name, _ in PEERS}


def loop_otsu(maps: Any, masks: Any) -> Any:
    """The usual way: scikit-image, map by map."""
    from skimage.filters import threshold_otsu

    values = []
    for a, mask in zip(np.abs(maps.astype(np.float64)), masks, strict=True):
        chosen = a >= threshold_otsu(a[a > 0])
        values.append((chosen & mask).sum() / (chosen | mask).sum())
    return np.array(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", type=int, default=1000)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--few", type=int, default=20, help="maps that Quantus and the scikit-image loop score")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")

    maps, masks, scores = scenes(options.maps, options.size)
    few = slice(0, min(options.few, options.maps))
    truth = {name: scores if name == "weighted_iou" else masks for name in FIVE | OTHERS}
    print(f"{options.maps} maps of {options.size}×{options.size}, float32, one core; peers on the first {few.stop}\n")

    ours: dict[str, float] = {}
    for name, metric in (FIVE | OTHERS).items():
        ours[name] = seconds(partial(metric, maps, truth[name]), options.repeats) / options.maps
    together = sum(ours[name] for name in FIVE)
    for name, taken in ours.items():
        print(f"{name:16s} {taken * 1e3:8.3f} ms a map{'' if name in FIVE else '   (beyond the five)'}")
    print(f"{'the five':16s} {together * 1e3:8.3f} ms a map\n")

    if importlib.util.find_spec("skimage"):
        gap = np.abs(loop_otsu(maps[few], masks[few]) - metrics.otsu_iou(maps[few], masks[few])).max()
        taken = seconds(partial(loop_otsu, maps[few], masks[few]), options.repeats) / few.stop
        ratio = taken / ours["otsu_iou"]
        compared("otsu_iou", "scikit-image in a loop", ours["otsu_iou"], taken, f"gap {gap:.0e}")
        print(f"scikit-image Otsu in a loop: {taken * 1e3:.3f} ms a map, ×{ratio:.1f} of otsu_iou, gap {gap:.0e}\n")
        if gap > 1e-12:
            raise SystemExit("otsu_iou departs from scikit-image")

    if not (importlib.util.find_spec("quantus") and importlib.util.find_spec("torch")):
        print("skipped the comparison with Quantus: install it (pip install quantus==0.6.0) next to torch")
        return
    runs = quantus_runs(maps[few], masks[few])
    total = 0.0
    print(f"{'assay':16s} {'Quantus':24s} {'ms a map':>9s} {'ratio':>7s}   values")
    for name, peer, follows in PEERS:
        said = "differ by definition"
        if follows is not None:
            mine = (FIVE | OTHERS)[name](maps[few], truth[name][few])
            gap = float(np.abs(mine - follows(runs[peer]())).max())
            said = f"equal, gap {gap:.0e}"
            if gap > 1e-6:  # Quantus normalises and sums in float32
                raise SystemExit(f"{name} departs from {peer} by {gap}")
        taken = seconds(runs[peer], options.repeats) / few.stop
        total += taken
        compared(name, f"Quantus {peer}", ours[name], taken, said)
        print(f"{name:16s} {peer:24s} {taken * 1e3:9.2f} {taken / ours[name]:6.0f}×   {said}")
    print(f"{'our five':16s} {'its five':24s} {total * 1e3:9.2f} {total / together:6.0f}×")


if __name__ == "__main__":
    main()

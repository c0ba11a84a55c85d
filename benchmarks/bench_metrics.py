"""Localisation metrics side by side with Quantus: processor time per map, on one core, in one run.

Karat scores all maps; Quantus scores the first few of the same maps (it takes milliseconds each) and its time is
divided by their number. Values are compared on those few before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from side_by_side import compared, in_turns, median, size, skipped

from karat import metrics

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
LOOP = "scikit-image in a loop"
# Ours, the peer that answers the same question, how ours follows from its value (None: it does not), and how far apart
# the two may be: Quantus normalises and sums in float32.
PEERS: list[tuple[str, str, Callable[[Any], Any] | None, float]] = [
    ("otsu_iou", LOOP, lambda value: value, 1e-12),
    ("relevance_mass", "Quantus RelevanceMassAccuracy", lambda value: value, 1e-6),
    ("spuriousity", "Quantus AttributionLocalisation", lambda value: 1 - value, 1e-6),
    ("hit", "Quantus PointingGame", lambda value: value, 1e-6),
    ("weighted_iou", "Quantus TopKIntersection", None, 0.0),
    ("relevance_rank", "Quantus RelevanceRankAccuracy", lambda value: value, 1e-6),
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

    return {peer: partial(run, peer.removeprefix("Quantus ")) for _, peer, *_ in PEERS if peer != LOOP}


def loop_otsu(maps: Any, masks: Any) -> Any:
    """The usual way: scikit-image, map by map."""
    from skimage.filters import threshold_otsu

    values = []
    for a, mask in zip(np.abs(maps.astype(np.float64)), masks, strict=True):
        chosen = a >= threshold_otsu(a[a > 0])
        values.append((chosen & mask).sum() / (chosen | mask).sum())
    return np.array(values)


DIFFER = "differ by definition"


def checked(maps: Any, masks: Any, truth: dict[str, Any], runs: dict[str, Callable[[], Any]]) -> dict[str, str]:
    """How the values of each peer agree with ours; what departs ends the comparison."""
    agreement = {}
    for name, peer, follows, allowed in PEERS:
        if peer not in runs:
            continue
        if follows is None:
            agreement[peer] = DIFFER
            continue
        gap = float(np.abs((FIVE | OTHERS)[name](maps, truth[name]) - follows(runs[peer]())).max())
        if gap > allowed:
            raise SystemExit(f"{name} departs from {peer} by {gap}")
        agreement[peer] = f"equal, gap {gap:.0e}"
    return agreement


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", type=int, default=size(1000, 40))
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument(
        "--few", type=int, default=size(20, 4), help="maps that Quantus and the scikit-image loop score"
    )
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")

    maps, masks, scores = scenes(options.maps, options.size)
    few = slice(0, min(options.few, options.maps))
    truth = {name: scores if name == "weighted_iou" else masks for name in FIVE | OTHERS}
    print(f"{options.maps} maps of {options.size}×{options.size}, float32, one core, in turns on {few.stop}\n")

    theirs: dict[str, Callable[[], Any]] = {}
    if importlib.util.find_spec("skimage"):
        theirs[LOOP] = partial(loop_otsu, maps[few], masks[few])
    if importlib.util.find_spec("quantus") and importlib.util.find_spec("torch"):
        theirs |= quantus_runs(maps[few], masks[few])
    else:
        skipped("the five metrics", "Quantus", "not installed (pip install quantus==0.6.0), or torch is not")
    agreement = checked(maps[few], masks[few], {name: given[few] for name, given in truth.items()}, theirs)

    ours = {name: partial(metric, maps[few], truth[name][few]) for name, metric in (FIVE | OTHERS).items()}
    taken = in_turns(*ours.values(), *theirs.values(), rounds=options.repeats)
    each = {name: [seconds / few.stop for seconds in turns]
            for name, turns in zip([*ours, *theirs], taken, strict=True)}  # fmt: skip
    whole = in_turns(*(partial(metric, maps, truth[name]) for name, metric in (FIVE | OTHERS).items()), rounds=1)
    for name, [seconds] in zip(ours, whole, strict=True):
        more = "" if name in FIVE else "   (beyond the five)"
        print(f"{name:16s} {median(each[name]) * 1e3:8.3f} ms a map, {seconds / len(maps) * 1e3:8.3f} of many{more}")
    together = sum(median(each[name]) for name in FIVE)
    print(f"{'the five':16s} {together * 1e3:8.3f} ms a map\n")
    print(f"{'karat':16s} {'peer':32s} {'ms a map':>9s} {'ratio':>7s}   values")
    for name, peer, *_ in PEERS:
        if peer in each:
            cost = median(each[peer])
            if agreement[peer] != DIFFER:
                compared(name, peer, each[name], each[peer], agreement[peer])
            print(f"{name:16s} {peer:32s} {cost * 1e3:9.2f} {cost / median(each[name]):6.0f}×   {agreement[peer]}")
    if len(theirs) == len(PEERS):
        total = sum(median(each[peer]) for _, peer, *_ in PEERS if peer != LOOP)
        print(f"{'our five':16s} {'the five of Quantus':32s} {total * 1e3:9.2f} {total / together:6.0f}×")


if __name__ == "__main__":
    main()

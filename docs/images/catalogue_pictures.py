"""Draw the pictures of the catalogue: every explainer on one grid sample, and the maps of known worth.

python docs/images/catalogue_pictures.py [NAME ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from karat.datasets import grid
from karat.kernel.attribution import resize_maps
from karat.kernel.errors import KaratError
from karat.kernel.registry import build, registered
from karat.models import load_model
from karat.probe.session import Session

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from catalogue import known_maps, slug  # noqa: E402  a script beside the docs, no package

SIDE = 144
QUICK: dict[str, dict[str, Any]] = {
    "perturbation/rise": {"masks": 300, "cells": 6, "word_masks": 0},
    "perturbation/lime": {"budget": 300},
    "perturbation/extremal": {"areas": (0.05,), "cells": 12, "steps": 150},
    "shapley/kernel_shap": {"budget": 600},
    "shapley/permutation": {"budget": 600},
    "shapley/pixelshap_tokenshap": {"budget": 600, "compare": "probability"},
    "interaction/multishap": {"budget": 2400},
    "interaction/faith_shap": {"visual": (6, 6), "budget": 4000},
    "interaction/weighted_banzhaf": {"budget": 1200},
    "interaction/dime": {"visual": (6, 6), "alterations": 60, "batch": 2},
    "gradient/smoothgrad": {"samples": 8},
    "gradient/gradient_shap": {"samples": 8},
    "gradient/integrated_gradients": {"steps": 12},
}
COLOURS = np.array([[30, 40, 60], [40, 100, 150], [240, 190, 60], [255, 245, 200]], dtype=float)


def heat(shown: np.ndarray[Any, Any], side: int) -> np.ndarray[Any, Any]:
    """|map| as colours (side, side, 3) uint8, cells kept as squares."""
    size = np.abs(np.asarray(shown, dtype=float))
    size = size / size.max() if size.max() > 0 else size
    at = np.linspace(0, 1, len(COLOURS))
    colours = np.stack([np.interp(size, at, COLOURS[:, c]) for c in range(3)], axis=-1).astype(np.uint8)
    return np.asarray(Image.fromarray(colours).resize((side, side), Image.Resampling.NEAREST))


def main(names: list[str]) -> None:
    folder = HERE / "explainers"
    folder.mkdir(exist_ok=True)
    record = folder / "drawn.json"  # what the pages say below a picture
    drawn_with = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    drawn = grid.generate("D2_M_F0_d0.3", 8, seed=4)
    samples = [sample for sample in drawn if any(region.role == "target" for region in sample.regions)][:2]
    sessions = [Session(load_model(name), samples) for name in ("gridprog.pure", "gridnet.pure", "gridvlm.pure")]
    for name in names or registered("explainer"):
        for session in sessions:
            if registered("explainer")[name].card.needs - session.model.capabilities:
                continue
            try:
                attribution = build("explainer", name, QUICK.get(name, {}))(session)[0]
            except KaratError as error:
                print(f"{name} on {session.model.name}: {error}")
                continue
            shown = attribution.visual
            if shown is None or not np.any(shown):
                print(f"{name} on {session.model.name}: no map")
                continue
            if shown.shape[0] > SIDE:
                shown = resize_maps(np.abs(shown)[None], 48, 48)[0] if shown.shape[0] % 48 else blocks(shown, 48)
            image = Image.fromarray(samples[0].image).resize((SIDE, SIDE), Image.Resampling.BOX)
            both = np.hstack([np.asarray(image), np.full((SIDE, 4, 3), 255, np.uint8), heat(shown, SIDE)])
            Image.fromarray(both).quantize(64).save(
                folder / f"{slug(registered('explainer')[name].card)}.png", optimize=True
            )
            drawn_with[name] = {"model": session.model.name, "parameters": QUICK.get(name, {})}
            record.write_text(json.dumps(dict(sorted(drawn_with.items())), indent=1) + "\n", encoding="utf-8")
            print(f"{name} on {session.model.name}", flush=True)
            break
    if not names:
        draw_known_maps()


def blocks(shown: np.ndarray[Any, Any], side: int) -> np.ndarray[Any, Any]:
    """Sums of |map| over blocks, (side, side): a thin line must not vanish when a map is made small."""
    tall, wide = shown.shape[0] // side, shown.shape[1] // side
    return np.abs(shown).reshape(side, tall, side, wide).sum(axis=(1, 3))


def draw_known_maps() -> None:
    tiles = []
    for _, shown, mask in known_maps():
        tile = heat(shown, 96).copy()
        big = np.asarray(Image.fromarray(mask).resize((96, 96), Image.Resampling.NEAREST))
        inner = big & np.roll(big, 1, 0) & np.roll(big, -1, 0) & np.roll(big, 1, 1) & np.roll(big, -1, 1)
        tile[big & ~inner] = (230, 60, 60)
        tiles += [tile, np.full((96, 6, 3), 255, np.uint8)]
    Image.fromarray(np.hstack(tiles[:-1])).quantize(64).save(HERE / "known_maps.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])

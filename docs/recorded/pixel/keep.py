"""Keeps trained classifiers in half precision, if they are as right as before: what `seeds.yaml` runs.

    python docs/recorded/pixel/keep.py checkpoints/pixelnet.cnn_s1/pixelnet.cnn_s1.safetensors ...

Rates are measured anew on the test images of the recipe, with the rounded weights, and written into the file.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from karat.models.pixelnet.dominance import rates
from karat.models.pixelnet.files import load_classifier, read_facts, save_network
from karat.models.pixelnet.training_recipe import parse_pixel_recipe

WEIGHTS = Path(__file__).parent / "weights"
MOVED = 0.01  # by which no rate may change

for path in map(Path, sys.argv[1:]):
    facts, recipe = read_facts(path), parse_pixel_recipe(read_facts(path).recipe)
    kept = save_network(
        load_classifier(path, path.stem).module, facts, WEIGHTS / f"{recipe.name}.safetensors", half=True
    )
    measured = rates(rounded := load_classifier(kept, recipe.name), recipe.test).plain()
    moved = max(abs(measured[name] - facts.accuracy[name]) for name in ("clean", "perturbed", "dominant"))
    if moved > MOVED:
        kept.unlink()
        raise SystemExit(f"{path}: rounding to 16 bits moves a rate by {moved:.3f}; not kept.")
    save_network(rounded.module, replace(facts, accuracy={**facts.accuracy, **measured}), kept, half=True)
    print(f"{kept.name}: clean {measured['clean']:.1%}, perturbed {measured['perturbed']:.1%}, dominant "
          f"{measured['dominant']:.1%}, no rate moved by more than {moved:.4f}")  # fmt: skip

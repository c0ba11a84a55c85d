"""Draws grad_x_act_signal.svg: how much of gradient times activation is left after adding up channels, by layer.

    python docs/images/grad_x_act_signal.py

The twins have trained weights; the other families are small models of their architecture with random ones.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

from karat import load_model
from karat.datasets.spatial import GridRelations
from karat.explainers.gradient.activation import SIGNAL, signal_by_layer
from karat.models import recipe
from karat.probe import Session

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "support"))
SIDE, LEFT = 16, 110  # pixels: a third of a cell, and what the names take


def measured() -> dict[str, dict[str, float]]:
    """The ratio by layer, for every family."""
    import tiny_vlms

    samples = GridRelations(4).load(0, 4)
    answers = [str(sample.answer) for sample in samples]
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        models = {name: load_model(name) for name in ("gridvlm.pure", "gridnet.pure")}
        for kind in tiny_vlms.KINDS:
            models[kind] = recipe("vlm", path=str(tiny_vlms.saved(kind, Path(folder) / kind))).load()
        for name, model in models.items():
            ratios[name] = signal_by_layer(Session(model, samples, answers))
    return ratios


def drawn(ratios: dict[str, dict[str, float]]) -> str:
    """A row per family, a cell per layer: green where it is a signal, red where it is rounding, with its exponent."""
    layers = sorted({name for row in ratios.values() for name in row}, key=lambda name: (name[0] != "v", name))
    parts = []
    for column, name in enumerate(layers):
        x = LEFT + column * 3 * SIDE + 1.5 * SIDE
        parts.append(f'<text x="{x}" y="14" text-anchor="middle">{name}</text>')
    for row, (family, values) in enumerate(ratios.items()):
        y = 24 + row * 1.5 * SIDE
        parts.append(f'<text x="{LEFT - 8}" y="{y + SIDE}" text-anchor="end">{family}</text>')
        for column, name in enumerate(layers):
            ratio = values.get(name, math.nan)
            if not math.isfinite(ratio):
                continue
            x, colour = LEFT + column * 3 * SIDE, "#9ccf9c" if ratio >= SIGNAL else "#e29a9a"
            parts.append(f'<rect x="{x}" y="{y}" width="{3 * SIDE - 2}" height="{1.5 * SIDE - 2}" fill="{colour}"/>')
            parts.append(f'<text x="{x + 1.5 * SIDE}" y="{y + SIDE}" text-anchor="middle">{ratio:.0e}</text>')
    width, height = LEFT + 3 * SIDE * len(layers), 30 + 1.5 * SIDE * len(ratios)
    style = 'font-family="sans-serif" font-size="10"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    ratios = measured()
    (HERE / "grad_x_act_signal.svg").write_text(drawn(ratios), encoding="utf-8")
    for family, values in ratios.items():
        print(family, {name: f"{ratio:.1e}" for name, ratio in values.items()})

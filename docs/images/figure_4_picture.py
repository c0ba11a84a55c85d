"""Draws figure-4.png: one question, two twins, two methods; truth green, what the map picks out red, both yellow."""

from __future__ import annotations

from pathlib import Path

import karat
from karat.protocols.grid.picture import overlap_picture

METHODS = {"MultiViz": ("interaction/multiviz", {}), "MultiSHAP": ("interaction/multishap", {"budget": 4096})}


def main() -> None:
    [sample] = karat.datasets.grid.generate("D1_M_F0_d0.7", 1, seed=3, cell=32)
    shown = {
        f"{title}, {twin} twin": karat.explain(karat.load_model(f"gridnet.{twin}"), sample, explainer=name, **parameters)
        for title, (name, parameters) in METHODS.items()
        for twin in ("pure", "spur")
    }
    overlap_picture(Path(__file__).parent / "figure-4.png", sample, shown)


if __name__ == "__main__":
    main()

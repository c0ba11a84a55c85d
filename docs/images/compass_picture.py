"""Draws docs/images/compass.png: an aligned, a diffuse and an incorrect explanation, each as a row of four panels.

python docs/images/compass_picture.py
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from karat.datasets.spatial import GridRelations
from karat.kernel.registry import build
from karat.models import load_model
from karat.probe.session import Session
from karat.protocols.compass.analysis import LABELS, labels
from karat.protocols.compass.overlay import Overlay, Sheet, panels
from karat.protocols.compass.protocol import Compass

EXPLAINERS = ("cam/gradcam", "attention/grad_rollout", "gradient/gradient_norm")
WIDE = 1180


def main() -> None:
    samples = GridRelations(24).load(0, 24)
    model = load_model("gridprog.pure")
    session = Session(model, samples, Compass().targets)
    rows: dict[str, tuple[Overlay, ...]] = {}
    for name in EXPLAINERS:
        made = build("explainer", name, {})(session)
        error = Compass().score(session, made)["compass/direction_error"]
        for i, label in enumerate(labels(error.details["shares"], error.values)):
            if label is not None and label not in rows:
                print(label, name, samples[i].id, samples[i].text, f"{error.values[i]:.1f} degrees")
                rows[label] = panels(samples[i], made[i])
    drawn = Image.open(io.BytesIO(Sheet(tuple(rows[label] for label in LABELS), gap=20).png(1)))
    small = drawn.resize((WIDE, drawn.height * WIDE // drawn.width), Image.Resampling.LANCZOS)
    small.quantize(128).save(Path(__file__).with_name("compass.png"), optimize=True)


if __name__ == "__main__":
    main()

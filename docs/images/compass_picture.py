"""Draws docs/images/compass.png: three explanations of a spatial answer, read as compasses."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from assay.datasets.spatial import GridRelations
from assay.kernel.registry import build
from assay.models import load_model
from assay.probe.session import Session
from assay.protocols.compass.overlay import overlay
from assay.protocols.compass.protocol import Compass
from assay.protocols.compass.tables import LABELS, labels

EXPLAINERS = ("attention/grad_rollout", "control/random", "cam/gradcam")
GAP = 12


def main() -> None:
    samples = GridRelations(24).load(0, 24)
    model = load_model("gridprog.pure")
    session = Session(model, samples, Compass().targets(model, samples))
    chosen = {}
    for name in EXPLAINERS:
        made = build("explainer", name, {})(session)
        error = Compass().score(session, made)["compass/direction_error"]
        assert error.detail is not None
        for i, label in enumerate(labels(error.detail, error.values)):
            if label is not None and (label not in chosen or name == "cam/gradcam" and label == "incorrect"):
                chosen.setdefault(label, (samples[i], made[i]))
    panels = [Image.open(io.BytesIO(overlay(*chosen[label]).png(1))) for label in LABELS]
    width, height = panels[0].size
    sheet = Image.new("RGB", (len(panels) * (width + GAP) - GAP, height), "white")
    for k, panel in enumerate(panels):
        sheet.paste(panel, (k * (width + GAP), 0))
    sheet.quantize(128).save(Path(__file__).with_suffix("").with_name("compass.png"), optimize=True)


if __name__ == "__main__":
    main()

"""Draws lineup.png: one photograph, five models that answer by five rules, and what four explainers say of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from karat.datasets.cues import generate
from karat.kernel.attribution import resize_maps
from karat.kernel.registry import build
from karat.models import load_model
from karat.probe import Session
from karat.protocols.lineup.pointing import POINTED, permuted

SIDE, GAP, LINE, FOOT, LEFT = 160, 14, 24, 24, 150
INK, PALE, PAPER = (32, 36, 44), (110, 116, 126), (255, 255, 255)
RULES = ("content", "tag", "frame", "word", "tag_and_word")
EXPLAINERS = {
    "cam/gradcam": {},
    "attention/rollout": {},
    "perturbation/leave_one_out": {"visual": (6, 6)},
    "gradient/input_x_gradient": {},
}


def heated(image: np.ndarray, values: np.ndarray) -> Image.Image:
    """The picture in grey under the map in red, up to its 99th percentile."""
    strong = resize_maps(np.abs(values)[None], *image.shape[:2])[0]
    strong = np.clip(strong / max(float(np.quantile(strong, 0.99)), 1e-12), 0, 1)[..., None]
    grey = np.repeat(image.mean(axis=2, keepdims=True), 3, axis=2) * 0.6 + 90
    return Image.fromarray((grey * (1 - strong) + np.array([214, 39, 40]) * strong).astype(np.uint8)).resize(
        (SIDE, SIDE)
    )


def main() -> None:
    [sample] = generate(1, seed=0, start=39)
    sheet = Image.new(
        "RGB", (LEFT + (1 + len(EXPLAINERS)) * (SIDE + GAP), LINE + len(RULES) * (SIDE + FOOT + GAP)), PAPER
    )
    draw = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(15), ImageFont.load_default(13)
    for j, name in enumerate(("the photograph", *EXPLAINERS)):
        draw.text((LEFT + j * (SIDE + GAP), 2), name.rpartition("/")[2], fill=INK, font=large)
    for k, rule in enumerate(RULES):
        y = LINE + k * (SIDE + FOOT + GAP)
        session = Session(load_model(f"photovlm.{rule}"), [sample])
        draw.text((8, y + 8), f"rule: {rule}", fill=INK, font=large)
        draw.text((8, y + 32), f"says {session.answers[0]}", fill=PALE, font=small)
        sheet.paste(Image.fromarray(sample.image).resize((SIDE, SIDE)), (LEFT, y))
        for j, (name, parameters) in enumerate(EXPLAINERS.items(), start=1):
            [attribution] = build("explainer", name, parameters)(session)
            percentiles = permuted(sample, attribution, session.rng(0, "lineup/permuted"))
            x = LEFT + j * (SIDE + GAP)
            sheet.paste(heated(sample.image, attribution.visual), (x, y))
            accused = POINTED[int(np.nanargmax(percentiles))] if np.isfinite(percentiles).any() else "nobody"
            draw.text((x, y + SIDE + 3), f"accuses {accused}", fill=PALE, font=small)
    sheet.save(Path(__file__).parent / "lineup.png", optimize=True)


if __name__ == "__main__":
    main()

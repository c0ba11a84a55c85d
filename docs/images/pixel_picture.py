"""Draws pixel.png: pictures with a planted shortcut, and close-ups of the truth beside what explainers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from karat.datasets.shortcut import ShortcutDataset, difference
from karat.kernel.attribution import resize_maps
from karat.kernel.registry import build
from karat.models import load_model
from karat.models.pixelnet.dominance import answers
from karat.probe import Session
from karat.probe.trials import Effort
from karat.protocols.pixel.protocol import ZOOM, close_up

INK, PALE, PAPER, RED = (32, 36, 44), (110, 116, 126), (255, 255, 255), (214, 62, 40)
SHOWN, SCALE, GAP, CELL = 9, 4, 10, 14
EXPLAINERS = {
    "truth": ("control/planted_shapley", {"effort": Effort()}),
    "Gradient": ("gradient/gradient", {"channels": "max"}),
    "IxG": ("gradient/input_x_gradient", {}),
    "IG": ("gradient/integrated_gradients", {}),
    "GradientSHAP": ("gradient/gradient_shap", {}),
    "Grad-CAM": ("cam/gradcam", {}),
    "Occlusion": ("perturbation/occlusion", {"cells": 32, "window": 4}),
    "RISE": ("perturbation/rise", {"masks": 1000}),
}


def coloured(values: np.ndarray) -> Image.Image:
    """Red for, blue against, white for nothing."""
    strength = np.clip(np.abs(values), 0, 1)[..., None]
    colour = np.where((values >= 0)[..., None], np.array(RED), np.array((40, 98, 214)))
    pixels = (255 * (1 - strength) + colour * strength).astype(np.uint8)
    return Image.fromarray(pixels).resize((values.shape[1] * CELL, values.shape[0] * CELL), Image.Resampling.NEAREST)


def main() -> None:
    model = load_model("pixelnet.cnn")
    samples = ShortcutDataset(n=40).load(0, 40)
    session = Session(model, samples)
    decided = np.flatnonzero(answers(model, samples).dominant())
    chosen = session.only(int(decided[3]))
    side = 32 * SCALE
    zoomed = (5 + 2 * ZOOM) * CELL
    width = max(90 + SHOWN * (side + GAP), 90 + len(EXPLAINERS) * (zoomed + GAP))
    sheet = Image.new("RGB", (width, 3 * (side + GAP) + zoomed + 110), PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(16)
    for row, (title, picture) in enumerate(
        (
            ("clean", lambda s: s.twin),
            ("shortcut", lambda s: s.image),
            ("change x 4", lambda s: difference(s.twin, s.image)),
        )
    ):
        y = GAP + row * (side + GAP)
        draw.text((6, y + side // 2 - 8), title, fill=INK, font=font)
        for k in range(SHOWN):
            x = 90 + k * (side + GAP)
            sheet.paste(Image.fromarray(picture(samples[k])).resize((side, side), Image.Resampling.NEAREST), (x, y))
            left, top, w, h = samples[k].regions[0].boxes[0]
            if row:
                box = (x + left * SCALE - 2, y + top * SCALE - 2, x + (left + w) * SCALE + 1, y + (top + h) * SCALE + 1)
                draw.rectangle(box, outline=RED, width=2)
    y = 3 * (side + GAP) + 50
    draw.text((6, y - 26), "close-ups of one image, each square a pixel; the frame is the patch", fill=PALE, font=font)
    mask = chosen.samples[0].mask("shortcut")
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    for k, (title, (name, parameters)) in enumerate(EXPLAINERS.items()):
        [found] = build("explainer", name, parameters)(chosen)
        whole = resize_maps(np.asarray(found.visual, dtype=float)[None], 32, 32)[0]
        x = 90 + k * (zoomed + GAP)
        sheet.paste(coloured(close_up(whole, mask)), (x, y))
        top = int(np.clip(rows[0] - ZOOM, 0, 32 - 11))
        left = int(np.clip(columns[0] - ZOOM, 0, 32 - 11))
        corner = (x + (columns[0] - left) * CELL, y + (rows[0] - top) * CELL)
        draw.rectangle((*corner, corner[0] + 5 * CELL, corner[1] + 5 * CELL), outline=INK, width=2)
        draw.rectangle((x, y, x + zoomed - 1, y + zoomed - 1), outline=PALE)
        draw.text((x, y + zoomed + 8), title, fill=INK, font=font)
    sheet.quantize(128).save(Path(__file__).with_name("pixel.png"), optimize=True)


if __name__ == "__main__":
    main()

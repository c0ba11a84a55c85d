"""Draws cues.png: one photograph with its twins, and what a model of each rule must use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from karat.datasets.cues import generate

SIDE, GAP, LINE, FOOT = 192, 18, 24, 50
INK, PALE, PAPER = (32, 36, 44), (110, 116, 126), (255, 255, 255)
SEED, POSITION = 0, 39
CHANGES = ("content", "tag", "frame", "sticker", "side")
RULES = ("content", "tag", "frame", "sticker", "word", "either")


def used(image: np.ndarray, truth: np.ndarray) -> Image.Image:
    """The picture with everything faded but what the rule uses."""
    faded = (255 - (255 - image.astype(float)) * 0.22).astype(np.uint8)
    return Image.fromarray(np.where(truth[..., None], image, faded))


def main() -> None:
    [sample] = generate(1, seed=SEED, start=POSITION)
    top = [("as it is", Image.fromarray(sample.image), f"“{sample.text}”")]
    top += [(f"other {cue}", Image.fromarray(sample.turned(cue).image), "") for cue in CHANGES]
    below = []
    for name in RULES:
        truth = sample.truth(name)
        words = [sample.text[a:b] for (a, b), mine in zip(sample.words, truth.words, strict=True) if mine]
        note = f"says {sample.expected(name)}" + (f", by “{words[0]}”" if words else "")
        below.append((f"rule {name}", used(sample.image, truth.visual), note))
    width, row = GAP + 6 * (SIDE + GAP), LINE + SIDE + FOOT
    sheet = Image.new("RGB", (width, GAP + 2 * row), PAPER)
    draw = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(16), ImageFont.load_default(14)
    for k, panels in enumerate((top, below)):
        for j, (title, picture, note) in enumerate(panels):
            x, y = GAP + j * (SIDE + GAP), GAP + k * row
            draw.text((x, y - 2), title, fill=INK, font=large)
            sheet.paste(picture, (x, y + LINE))
            draw.text((x, y + LINE + SIDE + 6), note, fill=PALE, font=small)
    sheet.save(Path(__file__).parent / "cues.png", optimize=True)


if __name__ == "__main__":
    main()

"""Draws twins.png: one question, two models, and what each of them really looks at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import karat

BUCKET, SEED, SIDE, GAP, TOP, FOOT = "D2_M_F0_d0.7", 5, 384, 36, 74, 92
INK, PALE, PAPER = (32, 36, 44), (110, 116, 126), (255, 255, 255)


def looked_at(image: np.ndarray, truth: np.ndarray) -> Image.Image:
    """The image with everything faded but the truth, which gets a warm ground."""
    faded = (255 - (255 - image.astype(float)) * 0.16).astype(np.uint8)
    warm = image.copy()
    warm[(image == 255).all(axis=2)] = (255, 236, 190)
    return Image.fromarray(np.where(truth[..., None], warm, faded))


def main() -> None:
    [sample] = karat.datasets.grid.generate(BUCKET, 1, seed=SEED)
    panels = [("The question", f"{sample.text}", Image.fromarray(sample.image), f"truth: {sample.answer}")]
    for name, title in (("gridprog.pure", "A model that reasons"), ("gridprog.spur", "Its twin takes a shortcut")):
        model = karat.load_model(name)
        truth = sample.truth(model.mechanism).visual
        said = model.answer([sample])[0]
        note = "looks at targets and anchors" if "pure" in name else "looks at everything that matches the words"
        panels.append((title, note, looked_at(sample.image, truth), f"answers {said}"))
    width = GAP + 3 * (SIDE + GAP)
    sheet = Image.new("RGB", (width, TOP + SIDE + FOOT), PAPER)
    draw = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(24), ImageFont.load_default(16)
    for k, (title, note, picture, answer) in enumerate(panels):
        x = GAP + k * (SIDE + GAP)
        draw.text((x, 24), title, fill=INK, font=large)
        sheet.paste(picture, (x, TOP))
        draw.rectangle((x - 1, TOP - 1, x + SIDE, TOP + SIDE), outline=(214, 218, 224))
        words, line, y = note.split(), "", TOP + SIDE + 12
        for word in words:
            longer = f"{line} {word}".strip()
            if draw.textlength(longer, font=small) > SIDE:
                draw.text((x, y), line, fill=PALE, font=small)
                line, y = word, y + 20
            else:
                line = longer
        draw.text((x, y), line, fill=PALE, font=small)
        draw.text((x, y + 22), answer, fill=INK, font=small)
    sheet.save(Path(__file__).parent / "twins.png", optimize=True)


if __name__ == "__main__":
    main()

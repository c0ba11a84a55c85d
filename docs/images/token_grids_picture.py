"""Draws docs/images/token_grids.png: one photograph-like scene as three ways of seeing cut it into visual tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from karat.engine.check import Checked, grid_picture

HEIGHT, WIDTH = 300, 480


def scene() -> np.ndarray:
    """A cup to the left of a bottle, in plain shapes."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), (206, 222, 232))
    draw = ImageDraw.Draw(picture)
    draw.rectangle([0, 210, WIDTH, HEIGHT], fill=(168, 132, 96))
    draw.rectangle([90, 130, 180, 230], fill=(196, 62, 54))
    draw.arc([165, 145, 215, 205], -90, 90, fill=(196, 62, 54), width=10)
    draw.rectangle([320, 110, 380, 240], fill=(52, 118, 78))
    draw.rectangle([338, 50, 362, 112], fill=(52, 118, 78))
    return np.array(picture)


def seen(grid: tuple[int, int], frame: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)) -> Image.Image:
    checked = Checked("", 0.0, grid, None, frame, (), (), (), None, None)
    return Image.fromarray(grid_picture(scene(), checked))


def main() -> None:
    side = HEIGHT / WIDTH
    views = {
        "LLaVA 1.5: centre crop, 24 by 24": seen((24, 24), (0.0, (1 - side) / 2, 1.0, (1 + side) / 2)),
        "Qwen2.5-VL: own proportions, 11 by 17": seen((11, 17)),
        "InternVL: two tiles of 16 by 16, and a thumbnail": seen((16, 32)),
    }
    board = Image.new("RGB", (3 * (WIDTH + 16) - 16, HEIGHT + 26), "white")
    draw = ImageDraw.Draw(board)
    for k, (title, view) in enumerate(views.items()):
        board.paste(view, (k * (WIDTH + 16), 26))
        draw.text((k * (WIDTH + 16), 6), title, fill=(40, 40, 40))
    board.save(Path(__file__).with_name("token_grids.png"), optimize=True)


if __name__ == "__main__":
    main()

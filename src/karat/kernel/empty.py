"""What a picture looks like where nothing is there: the absent states that mean "empty"."""

from __future__ import annotations

import numpy as np

from karat.kernel.errors import UnknownName
from karat.kernel.typing import Image

EMPTY = ("white", "blur", "grey", "black", "mean")
BLUR_RADIUS = 30.0  # pixels, fsyn2026 A.3
LEVEL = {"white": 255, "grey": 128, "black": 0}


def empty_image(image: Image, state: str, radius: float = BLUR_RADIUS) -> Image:
    """The whole picture (H, W, 3) in an empty state: one colour, its own mean colour, or blurred beyond recognition.

    >>> empty_image(np.zeros((1, 1, 3), np.uint8), "grey").tolist()
    [[[128, 128, 128]]]
    """
    if state not in EMPTY:
        raise UnknownName("absence state", state, EMPTY)
    if state == "blur":
        from PIL import Image as Pillow
        from PIL import ImageFilter

        return np.array(Pillow.fromarray(image).filter(ImageFilter.GaussianBlur(radius)))
    level = np.rint(image.mean(axis=(0, 1))) if state == "mean" else np.full(3, LEVEL[state])
    return np.broadcast_to(level.astype(np.uint8), image.shape).copy()

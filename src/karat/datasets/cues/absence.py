"""What a hidden part of a picture looks like: the states that mean "nothing is there"."""

from __future__ import annotations

import numpy as np

from karat.kernel.errors import UnknownName
from karat.kernel.typing import Image, Mask

EMPTY = ("white", "blur", "grey", "black", "mean")
BLUR_RADIUS = 30.0  # pixels, fsyn2026 A.3
_LEVEL = {"white": 255, "grey": 128, "black": 0}


def empty(image: Image, state: str) -> Image:
    """The whole picture in an absence state: one colour, its own mean colour, or blurred beyond recognition."""
    if state not in EMPTY:
        raise UnknownName("absence state", state, EMPTY)
    if state == "blur":
        from PIL import Image as Pillow
        from PIL import ImageFilter

        return np.array(Pillow.fromarray(image).filter(ImageFilter.GaussianBlur(BLUR_RADIUS)))
    level = np.rint(image.mean(axis=(0, 1))) if state == "mean" else np.full(3, _LEVEL[state])
    return np.broadcast_to(level.astype(np.uint8), image.shape).copy()


def hide(image: Image, hidden: Mask, state: str) -> Image:
    """The picture with its `hidden` pixels (H, W) in an absence state; all others stay as they are.

    >>> hide(np.zeros((2, 2, 3), np.uint8), np.eye(2, dtype=bool), "white")[..., 0]
    array([[255,   0],
           [  0, 255]], dtype=uint8)
    """
    return np.where(hidden[..., None], empty(image, state), image)

"""Hidden parts of a picture, in the states that mean "nothing is there"."""

from __future__ import annotations

import numpy as np

from karat.kernel.empty import EMPTY, empty_image
from karat.kernel.typing import Image, Mask

__all__ = ["EMPTY", "LEAKY", "hide"]

#: States in which a hidden cue can still be told: a blurred border keeps its colour, and a border is nearly a third of
#: what the picture's mean colour is made of.
LEAKY: dict[str, frozenset[str]] = {"frame": frozenset({"blur", "mean"})}


def hide(image: Image, hidden: Mask, state: str) -> Image:
    """The picture with its `hidden` pixels (H, W) in an absence state; all others stay as they are.

    >>> hide(np.zeros((2, 2, 3), np.uint8), np.eye(2, dtype=bool), "white")[..., 0]
    array([[255,   0],
           [  0, 255]], dtype=uint8)
    """
    return np.where(hidden[..., None], empty_image(image, state), image)

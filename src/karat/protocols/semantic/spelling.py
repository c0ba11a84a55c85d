"""Words as numbers and back: what the model said by itself, kept as the detail that `correct` was computed from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LETTERS = 48


def spelled(words: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(n, 48) code points, 0 after the end; longer words are cut.

    >>> said(spelled(["tabby", "Angora"]))
    ['tabby', 'Angora']
    """
    letters = np.zeros((len(words), LETTERS))
    for i, word in enumerate(words):
        points = [ord(letter) for letter in word[:LETTERS]]
        letters[i, : len(points)] = points
    return letters


def said(letters: np.ndarray[Any, Any]) -> list[str]:
    """The words that `spelled` was given. Code points up to 2048 survive half precision exactly."""
    return ["".join(chr(int(point)) for point in row if point > 0) if np.isfinite(row).all() else "" for row in letters]

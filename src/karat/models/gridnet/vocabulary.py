"""The words of the grid world's questions, as both trained twins count them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.world import World
from karat.kernel.sample import split_words

PAD, UNKNOWN = 0, 1
_SPECIAL = ("<pad>", "<unk>")
_FIXED = (
    "How", "many", "Is", "there", "any", "Are", "more", "than", "Where", "is", "relative", "to", "that", "are",
    "and", ",", "?", "left", "right", "of", "above", "below", "object", "objects",
)  # fmt: skip


def words(world: World | None = None) -> tuple[str, ...]:
    """Every word in the order of its number: padding is 0, a word from elsewhere is 1."""
    world = World() if world is None else world
    return (*_SPECIAL, *_FIXED, *world.colours, *world.shapes, *(f"{shape}s" for shape in world.shapes))


_NUMBER = {word: number for number, word in enumerate(words())}


def number_words(texts: Sequence[str], at_least: int = 0) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Word numbers (n, T), padded with 0, and which places hold a word.

    >>> number_words(["Is there any circle ?"])[0].tolist()
    [[4, 5, 6, 30, 18]]
    """
    rows = [[_NUMBER.get(text[a:b], UNKNOWN) for a, b in split_words(text)] for text in texts]
    width = max([at_least, *map(len, rows)])
    tokens = np.full((len(rows), width), PAD, dtype=np.int64)
    keep = np.zeros((len(rows), width), dtype=np.bool_)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = row
        keep[i, : len(row)] = True
    return tokens, keep

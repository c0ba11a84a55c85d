"""Plain functions over images of 4 × 4 cells and a few words whose every contribution and interaction is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from karat.kernel.sample import Sample
from karat.models.blackbox import BlackBox, blackbox
from karat.probe.exact import coalitions

SIDE, CELL = 4, 4
WORDS = ("is", "it", "red")
PATCH_WEIGHTS = np.linspace(-0.01, 0.03, SIDE * SIDE)
WORD_WEIGHTS = {"is": 0.02, "it": -0.03, "red": 0.1}
Value = Callable[[np.ndarray, list[set[str]]], np.ndarray]  # cells (n, 16) in [0, 1], words -> (n,)


def cells(images: np.ndarray) -> np.ndarray:
    """(n, 16) brightness of the cells."""
    return images.reshape(-1, SIDE, CELL, SIDE, CELL, 3).mean(axis=(2, 4, 5)).reshape(len(images), -1) / 255


class Counting:
    """A function that remembers every input it was called with."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.inputs: list[tuple[bytes, str | None]] = []

    def __call__(self, images: np.ndarray, texts: list[str | None]) -> np.ndarray:
        self.inputs += [(image.tobytes(), text) for image, text in zip(images, texts, strict=True)]
        yes = self.value(cells(images), [set((text or "").split()) for text in texts])
        return np.stack([yes, 1 - yes], axis=1)


def world(value: Value, name: str = "world") -> tuple[BlackBox, Counting]:
    fn = Counting(value)
    return blackbox(fn, answers=["yes", "no"], name=name), fn


def additive(bright: np.ndarray, words: list[set[str]]) -> np.ndarray:
    of_words = np.array([sum(WORD_WEIGHTS.get(word, 0.0) for word in text) for text in words])
    return 0.3 + bright @ PATCH_WEIGHTS + of_words


def planted(bright: np.ndarray, words: list[set[str]]) -> np.ndarray:
    """Additive, and 0.4 more when cell 5 is bright and the word "red" is there."""
    return additive(bright, words) + 0.4 * bright[:, 5] * np.array(["red" in text for text in words])


def entangled(bright: np.ndarray, words: list[set[str]]) -> np.ndarray:
    """A squashed sum with a few strong players: interactions of every order."""
    of_words = np.array([2.0 * ("red" in text) - 1.0 * ("it" in text) for text in words])
    score = bright @ np.linspace(-1, 2, 16) + 3 * bright[:, 5] * bright[:, 6] + of_words * (0.5 + bright[:, 2]) - 3
    return 1 / (1 + np.exp(-score))


def xor(bright: np.ndarray, words: list[set[str]]) -> np.ndarray:
    lit = bright.mean(axis=1) > 0.5
    return np.where(lit ^ np.array(["red" in text for text in words]), 1.0, 0.0)


def white(text: str = "is it red", i: int = 0) -> Sample:
    return Sample(f"white-{i}", np.full((SIDE * CELL, SIDE * CELL, 3), 255, dtype=np.uint8), text)


def shades(count: int, seed: int = 0, texts: Sequence[str] = ("is it red", "red", "it is", "is red")) -> list[Sample]:
    """Images of random grey cells with texts in turn."""
    rng = np.random.default_rng(seed)
    samples = []
    for i in range(count):
        level = rng.integers(0, 256, (SIDE, 1, SIDE, 1, 1))
        image = np.broadcast_to(level, (SIDE, CELL, SIDE, CELL, 3)).reshape(SIDE * CELL, SIDE * CELL, 3)
        samples.append(Sample(f"shade-{i}", image.astype(np.uint8), texts[i % len(texts)]))
    return samples


def truth_table() -> list[Sample]:
    """All four combinations of a bright or dark image and a text with or without "red"."""
    return [
        Sample(f"{lit}-{text}", np.full((SIDE * CELL, SIDE * CELL, 3), lit, dtype=np.uint8), text)
        for lit in (0, 255)
        for text in ("is it red", "is it blue")
    ]


def image_values(sample: Sample, words: Sequence[str] = WORDS) -> np.ndarray:
    """(2^16,) what `entangled` says to every coalition of the cells of an image, the others black, on these words."""
    bright = cells(sample.image[None])[0]
    keep = coalitions(16)
    return entangled(keep * bright, [set(words)] * len(keep))

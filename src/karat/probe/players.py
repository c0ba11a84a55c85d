"""Players: the features of a sample that can be present or absent; visual ones a label map, text ones groups of words.

No torch here. Special tokens and instruction templates are no words of a sample, so they are never players.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput, ExtraMissing
from karat.kernel.sample import Sample
from karat.kernel.typing import Image

Labels = npt.NDArray[np.int64]  # (H, W): the player of each pixel, -1 = belongs to none and is always kept
VisualSpec = str | tuple[int, int] | Labels | None
VISUAL = ("patches", "cells", "pixels", "superpixels", "objects", "objects_and_background")
TEXT = ("words", "phrases", "tokens")


@dataclass(frozen=True, eq=False)
class VisualPlayers:
    """`count` players over an image: a regular grid (rows, columns), or any label map (H, W) of the image's pixels."""

    count: int
    grid: tuple[int, int] | None = None
    labels: Labels | None = None

    def labels_at(self, height: int, width: int, frame: tuple[float, float, float, float]) -> Labels:
        """(height, width) labels of what a model sees: a grid divides the model's own view, so that its cells are the
        model's patches; a label map is sampled at the place of the image that each of the model's pixels shows."""
        if self.grid is not None:
            return grid_labels(height, width, *self.grid)
        assert self.labels is not None
        top, left, bottom, right = frame
        rows = _places(height, top, bottom, self.labels.shape[0])
        columns = _places(width, left, right, self.labels.shape[1])
        return self.labels[np.ix_(rows, columns)]

    def labels_of(self, height: int, width: int) -> Labels:
        """(H, W) labels of the image's own pixels."""
        return self.labels_at(height, width, (0.0, 0.0, 1.0, 1.0))

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for equal players: what shared answers are found by."""
        return (self.count, self.grid, None if self.labels is None else (self.labels.shape, self.labels.tobytes()))


@dataclass(frozen=True)
class TextPlayers:
    """`groups[p]` holds the words (or, if `unit` is "tokens", the token positions) of player p."""

    groups: tuple[tuple[int, ...], ...]
    unit: str = "words"

    @property
    def count(self) -> int:
        return len(self.groups)


NO_TEXT = TextPlayers(())
TextSpec = str | Sequence[Sequence[int]] | TextPlayers | None


def visual_players(spec: VisualSpec, sample: Sample, patches: tuple[int, int] | None = None) -> VisualPlayers:
    """Players from a name, a grid (rows, columns), or a label map; `patches` is the model's own grid, where it has one.

    - "patches": the model's patches. "cells": the cells of a grid-world scene (boxes of its regions set the size).
    - "pixels": every pixel. "superpixels": SLIC, about 50. "objects": one player per region, the later on top; the
      rest of the image is always kept. "objects_and_background": the rest is the last player.
    """
    height, width = sample.size
    if spec is None:
        return VisualPlayers(0, labels=np.full((height, width), -1))
    if isinstance(spec, np.ndarray):
        return _of_labels(spec, sample)
    if isinstance(spec, tuple):
        return VisualPlayers(spec[0] * spec[1], grid=spec)
    if spec == "patches":
        if patches is None:
            raise BadInput("this model says nothing about patches; give the grid as visual=(rows, columns).")
        return VisualPlayers(patches[0] * patches[1], grid=patches)
    if spec == "pixels":
        return VisualPlayers(height * width, labels=np.arange(height * width).reshape(height, width))
    if spec == "cells":
        side = _cell_side(sample)
        return VisualPlayers((height // side) * (width // side), grid=(height // side, width // side))
    if spec == "superpixels":
        return _of_labels(superpixels(sample.image), sample)
    if spec in ("objects", "objects_and_background"):
        if not sample.regions:
            raise BadInput(f"sample {sample.id} has no regions, so it has no objects to play with.")
        background = spec == "objects_and_background"
        labels = np.full((height, width), len(sample.regions) if background else -1)
        for number, region in enumerate(sample.regions):
            labels[region.mask(height, width)] = number
        return VisualPlayers(len(sample.regions) + background, labels=labels)
    raise BadInput(f"visual players are {', '.join(VISUAL)}, (rows, columns), a label map or None; got {spec!r}.")


def text_players(spec: TextSpec, sample: Sample, tokens: Sequence[tuple[int, int]] | None = None) -> TextPlayers:
    """Players from a name or from groups of word positions; `tokens[j]` is the token span of word j, where known.

    "phrases" makes one player of each phrase, and of each word that is in none, in the order of the text. Players that
    were made before are taken as they are.
    """
    words = sample.words
    if spec is None or not words:
        return NO_TEXT
    if isinstance(spec, TextPlayers):
        return spec
    if spec == "words":
        return TextPlayers(tuple((j,) for j in range(len(words))))
    if spec == "phrases":
        groups: list[tuple[int, ...]] = []
        taken: set[int] = set()
        for phrase in sample.phrases:
            start, stop = phrase.span
            inside = tuple(j for j, (a, b) in enumerate(words) if start <= a and b <= stop and j not in taken)
            taken.update(inside)
            groups += [inside] if inside else []
        groups += [(j,) for j in range(len(words)) if j not in taken]
        return TextPlayers(tuple(sorted(groups)))
    if spec == "tokens":
        if tokens is None:
            raise BadInput("this model says nothing about tokens; use text='words'.")
        return TextPlayers(tuple((t,) for start, stop in tokens for t in range(start, stop)), unit="tokens")
    if isinstance(spec, str):
        raise BadInput(f"text players are {', '.join(TEXT)}, groups of word positions or None; got {spec!r}.")
    chosen = tuple(tuple(group) for group in spec)
    if any(not 0 <= j < len(words) for group in chosen for j in group):
        raise BadInput(f"the text has words 0 to {len(words) - 1}; got groups {chosen}.")
    return TextPlayers(chosen)


def grid_labels(height: int, width: int, rows: int, columns: int) -> Labels:
    """(height, width) labels of a regular grid, row-major.

    >>> grid_labels(2, 4, 1, 2).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """
    if not 1 <= rows <= height or not 1 <= columns <= width:
        raise BadInput(f"a grid of {rows}×{columns} does not fit {height}×{width} pixels.")
    row, column = np.arange(height) * rows // height, np.arange(width) * columns // width
    return np.asarray(row[:, None] * columns + column[None, :])


def superpixels(image: Image, count: int = 50, compactness: float = 10.0) -> Labels:
    """SLIC segments as labels 0, 1, ...; about `count` of them."""
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise ExtraMissing("superpixels", "scikit-image", "vision") from None
    return np.asarray(slic(image, n_segments=count, compactness=compactness, start_label=0), dtype=np.int64)


def _of_labels(labels: npt.NDArray[np.integer], sample: Sample) -> VisualPlayers:
    if labels.shape != sample.size or not np.issubdtype(labels.dtype, np.integer):
        raise BadInput(f"a label map must hold integers of shape {sample.size}; got {labels.dtype} {labels.shape}.")
    if labels.min() < -1:
        raise BadInput(f"labels are players 0, 1, ... or -1 for none; got {labels.min()}.")
    return VisualPlayers(int(labels.max()) + 1, labels=labels.astype(np.int64))


def _cell_side(sample: Sample) -> int:
    sides = {w for region in sample.regions for _, _, w, h in region.boxes if w == h}
    if len(sides) != 1:
        raise BadInput(f"sample {sample.id} shows no single cell size in its regions; give visual=(rows, columns).")
    return sides.pop()


def _places(size: int, start: float, stop: float, pixels: int) -> npt.NDArray[np.intp]:
    centres = start + (np.arange(size) + 0.5) / size * (stop - start)
    # A centre on the edge of two pixels belongs to the second, whatever rounding makes of it.
    return np.clip(np.floor(centres * pixels + 1e-9), 0, pixels - 1).astype(np.intp)

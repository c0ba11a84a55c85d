"""Where things stand in a composed picture: which part of the photograph is shown, and where tag and sticker lie.

A layout depends on the seed, the sample and its photographs, never on what the cues say, so that any cue can change
and all else stays. Of some places drawn at random, those are taken that hide least of the object.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.datasets.cues.photographs import Photograph
from karat.datasets.cues.world import COLOURS, World
from karat.kernel.typing import Mask

MARGIN = 0.08  # how far from the middle the object's centre lies at least
_KEPT = 0.9  # share of the object that a window should keep
_TRIES = 32
_COARSE = 48  # cells a side, on which cover is counted
_GAP = 0.02


@dataclass(frozen=True)
class Window:
    """A square part of a photograph, in its pixels, with the object's centre in the left half; `flipped` says that the
    photograph was mirrored for that."""

    left: float
    top: float
    size: float
    flipped: bool


@dataclass(frozen=True)
class Layout:
    """Lengths are shares of the picture's side. `yes` and `no` are the windows of either photograph."""

    yes: Window
    no: Window
    tag: tuple[float, float]  # left and top of its box
    sticker: tuple[float, float]  # centre
    angle: float  # of the sticker, radians
    colour: str  # of the sticker
    template: int  # of the question


def make_layout(yes: Photograph, no: Photograph, world: World, templates: int, rng: np.random.Generator) -> Layout:
    windows = [_window(photograph.mask, world, rng) for photograph in (yes, no)]
    covers = [_coarse(photograph.mask, window) for photograph, window in zip((yes, no), windows, strict=True)]
    covers += [cover[:, ::-1] for cover in covers]
    tag, sticker = _places(covers, world, rng)
    return Layout(
        windows[0],
        windows[1],
        tag,
        sticker,
        float(rng.uniform(-0.6, 0.6)),
        str(rng.choice([name for name in COLOURS if name not in world.frames])),
        int(rng.integers(templates)),
    )


def _window(mask: Mask, world: World, rng: np.random.Generator) -> Window:
    """A square window that keeps most of the object inside the frame, its centre well inside the left half.

    The frame may lie beyond the edge of the photograph; what is inside it may not.
    """
    height, width = mask.shape
    column = (np.flatnonzero(mask) % width).mean() + 0.5
    flipped = bool(column > width / 2)
    column = width - column if flipped else column
    frame, side, total = world.frame_width, min(height, width), int(mask.sum())
    # A window with its inside in the photograph and the object's centre MARGIN left of the middle is at most this wide.
    largest = min(side / (1 - 2 * frame), (width - column) / (0.5 - frame + MARGIN))
    best: tuple[float, Window] | None = None
    for _ in range(_TRIES):
        size = rng.uniform(min(0.85 * side, largest), largest)
        low, high = (column - width) / size + 1 - frame, min(column / size + frame, 0.5 - MARGIN)
        left = column - size * rng.uniform(max(low, min(0.25, high)), high)
        top = rng.uniform(-frame * size, height - (1 - frame) * size)
        window = Window(float(left), float(top), float(size), flipped)
        cover = _coarse(mask, window)
        edge = round(frame * _COARSE)
        kept = float(cover[edge:-edge, edge:-edge].sum()) * (size / _COARSE) ** 2 / total
        if best is None or kept > best[0]:
            best = kept, window
        if kept >= _KEPT:
            break
    assert best is not None
    return best[1]


def _coarse(mask: Mask, window: Window) -> npt.NDArray[np.float64]:
    """(cells, cells) where the object is in the window, at the centre of each cell."""
    at = (np.arange(_COARSE) + 0.5) / _COARSE * window.size
    rows, columns = np.floor(window.top + at).astype(int), np.floor(window.left + at).astype(int)
    height, width = mask.shape
    inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
    rows, columns = rows.clip(0, height - 1), columns.clip(0, width - 1)
    columns = width - 1 - columns if window.flipped else columns
    return np.asarray(mask[rows][:, columns] & inside, dtype=np.float64)


def _places(
    covers: list[npt.NDArray[np.float64]], world: World, rng: np.random.Generator
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Tag and sticker apart from each other and from the frame, where they hide least of any of the objects."""
    edge = world.frame_width + _GAP
    wide, tall, size = world.tag_width, world.tag_height, world.sticker_size
    best: tuple[float, tuple[float, float], tuple[float, float]] | None = None
    for _ in range(_TRIES):
        left, top = rng.uniform(edge, 1 - edge - wide), rng.uniform(edge, 1 - edge - tall)
        x, y = rng.uniform(edge, 1 - edge - size, 2)
        if x < left + wide + _GAP and left < x + size + _GAP and y < top + tall + _GAP and top < y + size + _GAP:
            continue
        hidden = max(
            (_covered(cover, left, top, wide, tall) + _covered(cover, x, y, size, size)) / max(cover.sum(), 1)
            for cover in covers
        )
        if best is None or hidden < best[0]:
            best = hidden, (float(left), float(top)), (float(x + size / 2), float(y + size / 2))
    if best is None:  # all draws collided: corners never do
        corner = 1 - edge - size / 2
        return (edge, edge), (corner, corner)
    return best[1], best[2]


def _covered(cover: npt.NDArray[np.float64], left: float, top: float, wide: float, tall: float) -> float:
    first, last = (int(top * _COARSE), int(left * _COARSE)), (int((top + tall) * _COARSE), int((left + wide) * _COARSE))
    return float(cover[first[0] : last[0] + 1, first[1] : last[1] + 1].sum())

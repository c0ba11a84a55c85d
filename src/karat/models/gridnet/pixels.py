"""How `gridnet` sees an image: 16 pixels a cell by area averaging, values from -1 (black) to 1 (white)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from karat.datasets.grid.render import glyphs
from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput
from karat.kernel.typing import Image

SIDE = 96  # pixels after averaging: 6 cells of 16


def shrink(image: Image) -> Tensor:
    """(3, 96, 96) from an image whose sides are equal multiples of 96: every pixel the mean of its block."""
    height, width = image.shape[:2]
    if height != width or height % SIDE:
        raise BadInput(
            f"gridnet reads square images whose side is a multiple of {SIDE} pixels (6 cells, 384 by default); "
            f"got {height}x{width}."
        )
    block = height // SIDE
    rows = image.reshape(SIDE, block, width * 3).sum(axis=1, dtype=np.uint32)  # whole rows first: ten times as fast
    total = rows.reshape(SIDE, SIDE, block, 3).sum(axis=2)
    return normalise(total / block**2).permute(2, 0, 1).contiguous()


def normalise(values: np.ndarray) -> Tensor:
    return torch.from_numpy((values / 127.5 - 1).astype(np.float32))


@lru_cache(maxsize=1)
def glyph_tiles() -> Tensor:
    """(17, 3, 16, 16) every object code as the network sees it: 64-pixel tiles, averaged like any image."""
    tiles = glyphs(World())
    n, cell = tiles.shape[:2]
    mean = tiles.reshape(n, 16, cell // 16, 16, cell // 16, 3).mean(axis=(2, 4), dtype=np.float64)
    return normalise(mean).permute(0, 3, 1, 2).contiguous()

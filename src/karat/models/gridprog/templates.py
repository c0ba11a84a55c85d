"""The glyph detector: one template per glyph, blind to everything smooth.

Templates are dual to the glyphs: template i answers 1 to glyph i, 0 to every other glyph, and 0 to any colour surface
of degree two or less. White, grey, black, a gradient and a strong blur are such surfaces (nearly, for the blur), so an
empty or a masked-out cell gives no evidence for anything. Among all such templates these have the least norm.
"""

from __future__ import annotations

import numpy as np
import torch

from karat.datasets.grid import World
from karat.datasets.grid.render import glyphs
from karat.models.gridprog.heads import DOUBT, SEE
from karat.models.gridprog.network import Vision
from karat.models.gridprog.wiring import Floats

RESOLUTION = 16  # pixels a cell after pooling: enough to tell a pentagon from a circle
SMOOTH = 2  # degree of the surfaces that templates do not see


def make_vision(world: World) -> Vision:
    """Pooling to about 16 pixels a cell, then one convolution whose stride is the cell."""
    pool = world.cell // RESOLUTION if world.cell % RESOLUTION == 0 else 1
    vision = Vision(world.n_classes, pool, world.cell // pool, SEE, DOUBT)
    with torch.no_grad():
        vision.templates.weight.copy_(torch.as_tensor(templates(world, pool).transpose(0, 3, 1, 2).copy()))
    return vision


def templates(world: World, pool: int) -> Floats:
    """(classes, window, window, 3) filters for pixels in [-1, 0], white being 0."""
    window = world.cell // pool
    tiles = glyphs(world)[1:].astype(np.float64) / 255 - 1
    tiles = tiles.reshape(-1, window, pool, window, pool, 3).mean(axis=(2, 4))
    along = np.linspace(-1, 1, window)
    surfaces = [
        np.einsum("r,c,k->rck", along**i, along**j, np.eye(3)[channel])
        for i in range(SMOOTH + 1)
        for j in range(SMOOTH + 1 - i)
        for channel in range(3)
    ]
    patterns = np.concatenate([tiles.reshape(len(tiles), -1), np.stack(surfaces).reshape(len(surfaces), -1)])
    responses = np.eye(len(patterns), len(tiles))
    filters: Floats = np.linalg.pinv(patterns) @ responses
    return filters.T.reshape(len(tiles), window, window, 3)

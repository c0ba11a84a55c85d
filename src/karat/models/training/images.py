"""Images for training, straight at the model's own resolution: tiles that passed through its preprocessing once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from karat.kernel.empty import LEVEL
from karat.models.training.batches import EMPTY_STATES, Batch

BLUR_RADIUS = 30 / 384  # of the image's width: that of fsyn2026


def draw(cells: npt.NDArray[np.uint8], tiles: Tensor, grid: int) -> Tensor:
    """(n, 3, grid*c, grid*c) images of object codes (n, grid*grid), from normalised tiles (codes, 3, c, c)."""
    size = tiles.shape[-1]
    picked = tiles[torch.from_numpy(cells.astype(np.int64))].view(-1, grid, grid, 3, size, size)
    return picked.permute(0, 3, 1, 4, 2, 5).reshape(-1, 3, grid * size, grid * size)


def hide_cells(images: Tensor, batch: Batch, spreads: Tensor) -> Tensor:
    """Cells that the batch hides, replaced by their absent state; images lie in [-1, 1].

    `spreads` (k, side, grid), taken in turns, say how much of each pixel comes from each cell of its line: a model
    whose processor scales with a filter sees the edge of a hidden cell mixed with its neighbour. In grey, where a patch
    is next to nothing, that edge is most of what it sees, so training has to show it, and grey as what it is: 128 of
    255, not 0.
    """
    rows = np.flatnonzero(~batch.cell_keep.all(axis=1))
    if not len(rows):
        return images
    index = torch.from_numpy(rows)
    some = images[index]
    absent = torch.empty_like(some)
    state = batch.state[rows]
    for number, name in enumerate(EMPTY_STATES):
        mine = torch.from_numpy(np.flatnonzero(state == number))
        if name == "blur":
            kernel = blur_matrix(some.shape[-1])
            absent[mine] = kernel @ some[mine] @ kernel.T
        elif name == "mean":
            absent[mine] = some[mine].mean(dim=(2, 3), keepdim=True).expand_as(some[mine])
        else:
            absent[mine] = LEVEL[name] / 127.5 - 1
    grid, spread = spreads.shape[2], spreads[index % len(spreads)]
    keep = torch.from_numpy(batch.cell_keep[rows]).view(-1, grid, grid).to(spread.dtype)
    return images.index_copy(0, index, torch.lerp(absent, some, (spread @ keep @ spread.mT)[:, None]))


@lru_cache(maxsize=4)
def cell_spread(side: int, grid: int, source: int | None = None) -> Tensor:
    """(side, grid) share of each cell in each pixel of a line of `side` pixels: whole cells, or, for a model whose
    processor scales lines of `source` pixels by an antialiased triangle filter, with what runs over their edges.

    >>> cell_spread(4, 2).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    >>> cell_spread(4, 2, source=8).tolist()
    [[1.0, 0.0], [0.875, 0.125], [0.125, 0.875], [0.0, 1.0]]
    """
    cells = torch.eye(grid)
    if source is None:
        return cells.repeat_interleave(side // grid, dim=0)
    lines = cells.repeat_interleave(source // grid, dim=0).T[None, None]
    return nn.functional.interpolate(lines, size=(grid, side), mode="bilinear", antialias=True)[0, 0].T.contiguous()


@lru_cache(maxsize=4)
def blur_matrix(size: int) -> Tensor:
    """(size, size) Gaussian blur of a line, edges repeated; an image is blurred as K @ image @ K.T."""
    radius = BLUR_RADIUS * size
    reach = int(np.ceil(4 * radius))
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets / radius) ** 2)
    kernel = np.zeros((size, size))
    places = np.clip(np.arange(size)[:, None] + offsets[None, :], 0, size - 1)
    np.add.at(kernel, (np.arange(size)[:, None], places), weights / weights.sum())
    return torch.from_numpy(kernel.astype(np.float32))

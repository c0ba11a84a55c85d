"""Images for training, straight at the model's own resolution: tiles that passed through its preprocessing once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from karat.kernel.empty import LEVEL
from karat.models.training.batches import EMPTY_STATES, Batch

BLUR_RADIUS = 30 / 384  # of the image's width: that of fsyn2026


def draw(cells: npt.NDArray[np.uint8], tiles: Tensor, grid: int) -> Tensor:
    """(n, 3, grid*c, grid*c) images of object codes (n, grid*grid), from normalised tiles (codes, 3, c, c)."""
    size = tiles.shape[-1]
    picked = tiles[torch.from_numpy(cells.astype(np.int64))].view(-1, grid, grid, 3, size, size)
    return picked.permute(0, 3, 1, 4, 2, 5).reshape(-1, 3, grid * size, grid * size)


def hide_cells(images: Tensor, batch: Batch, grid: int) -> Tensor:
    """Cells that the batch hides, replaced by their absent state; images lie in [-1, 1].

    Grey is 128 of 255, which is not quite 0: where a patch has no bias, exactly 0 leaves a cell nothing but its place.
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
    size = images.shape[-1] // grid
    keep = torch.from_numpy(batch.cell_keep[rows]).view(-1, 1, grid, 1, grid, 1)
    keep = keep.expand(-1, 1, grid, size, grid, size).reshape(-1, 1, grid * size, grid * size)
    return images.index_copy(0, index, torch.where(keep, some, absent))


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

"""Drawn scenes, whole and with cells hidden."""

from __future__ import annotations

import numpy as np
import torch

from karat.datasets.grid import generate_batch
from karat.kernel.empty import empty_image
from karat.models.training import batches as data
from karat.models.training.images import blur_matrix, draw, hide_cells


def test_hidden_cells_show_their_absent_state() -> None:
    cells = np.full((5, 36), 3, dtype=np.uint8)
    tiles = torch.full((17, 3, 16, 16), 0.25)
    tiles[0] = 1.0
    cells[:, 0] = 0
    batch = data.describe(generate_batch("D1_A_F0_d0.3", range(5)), 32)
    batch.state[:] = np.arange(5)
    batch.cell_keep[:, 7] = False
    images = draw(cells, tiles, 6)
    hidden = hide_cells(images, batch, 6)
    place = (slice(None), slice(16, 32), slice(16, 32))  # cell 7 is row 1, column 1
    for i, state in enumerate(("white", "grey", "black")):  # what a model is asked with later, to the last digit
        level = empty_image(np.zeros((1, 1, 3), np.uint8), state)[0, 0, 0] / 127.5 - 1
        torch.testing.assert_close(hidden[i][place], torch.full((3, 16, 16), level, dtype=torch.float32))
    blurred = hidden[3][place]
    assert ((blurred > 0.25) & (blurred < 1.0)).all()  # between the white cell and its grey neighbours
    assert hidden[3][0, 16, 16] > hidden[3][0, 31, 31]  # nearer the white one, whiter
    torch.testing.assert_close(hidden[4][place], torch.full((3, 16, 16), (1.0 + 35 * 0.25) / 36))
    rest = torch.ones(96, 96, dtype=torch.bool)
    rest[16:32, 16:32] = False
    assert torch.equal(hidden[:, :, rest], images[:, :, rest])


def test_blur_keeps_a_flat_image_flat() -> None:
    kernel = blur_matrix(96)
    torch.testing.assert_close(kernel.sum(dim=1), torch.ones(96))
    assert kernel[48, 48] < 0.06  # a radius of 7.5 pixels spreads a point over dozens

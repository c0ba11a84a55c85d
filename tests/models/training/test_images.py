"""Drawn scenes, whole and with cells hidden."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from karat.datasets.grid import generate_batch
from karat.kernel.empty import empty_image
from karat.models.gridvlm import build
from karat.models.partial import Partial, hidden_samples
from karat.models.training import batches as data
from karat.models.training.images import blur_matrix, cell_spread, draw, hide_cells


def test_hidden_cells_show_their_absent_state() -> None:
    cells = np.full((5, 36), 3, dtype=np.uint8)
    tiles = torch.full((17, 3, 16, 16), 0.25)
    tiles[0] = 1.0
    cells[:, 0] = 0
    batch = data.describe(generate_batch("D1_A_F0_d0.3", range(5)), 32)
    batch.state[:] = np.arange(5)
    batch.cell_keep[:, 7] = False
    images = draw(cells, tiles, 6)
    hidden = hide_cells(images, batch, cell_spread(96, 6)[None])
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


@pytest.mark.parametrize("state", ["white", "grey", "black", "mean"])
def test_training_shows_hidden_cells_as_the_processor_of_gridvlm_does(state: str) -> None:
    """The edges of hidden cells included: a scaling filter mixes them with their neighbours."""
    scenes = generate_batch("D2_M_F0_d0.7", range(6))
    batch = data.describe(scenes, 32)
    batch.cell_keep[:] = np.random.default_rng(0).random((6, 36)) < 0.5
    batch.state[:] = data.EMPTY_STATES.index(state)
    processor = build.make_processor()
    drawn = draw(batch.cells, build.glyph_tiles(processor), 6)
    trained = hide_cells(drawn, batch, cell_spread(96, 6, source=384)[None])
    hidden = Partial("", np.arange(6), ~batch.cell_keep, np.array([]), np.array([]))
    asked = [sample.image for sample in hidden_samples(scenes, hidden, state)]
    shown = processor.image_processor(images=asked, return_tensors="pt")["pixel_values"]
    apart = (trained - shown).abs()
    assert apart.quantile(0.99) < 0.03  # two 8-bit roundings; objects that reach an edge are mixed after scaling
    whole = hide_cells(drawn, batch, cell_spread(96, 6)[None])
    if state in ("grey", "black"):  # what training showed before: the same but for the edges
        assert (whole - shown).abs().quantile(0.99) > 4 * apart.quantile(0.99)

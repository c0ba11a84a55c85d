"""Pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from karat.datasets.grid import World, answer_histograms, contact_sheet, generate, generate_batch, render
from karat.datasets.grid.render import draw_object
from karat.datasets.grid.world import MORE_SHAPES, PALETTE, SHAPES
from karat.kernel.errors import BadInput


@pytest.mark.parametrize("world", [World(), World(5, 71), World(4, 80, PALETTE[:2], SHAPES + MORE_SHAPES)])
def test_gathered_tiles_equal_objects_drawn_one_by_one(world: World):
    rng = np.random.default_rng(1)
    cells = rng.integers(0, world.n_classes + 1, (3, world.size, world.size))
    images = render(cells, world)
    assert images.shape == (3, world.pixels, world.pixels, 3)
    for scene, image in zip(cells, images, strict=True):
        slow = Image.new("RGB", (world.pixels, world.pixels), "white")
        draw = ImageDraw.Draw(slow)
        for (row, column), code in np.ndenumerate(scene):
            if code:
                colour, shape = divmod(int(code) - 1, world.n_shapes)
                draw_object(
                    draw,
                    column * world.cell,
                    row * world.cell,
                    world.cell,
                    world.palette[colour][1],
                    world.shapes[shape],
                )
        np.testing.assert_array_equal(image, np.asarray(slow))


@pytest.mark.parametrize("cell", [8, 16, 32])
def test_small_cells_are_averages_of_the_published_ones(cell: int):
    cells = np.arange(36).reshape(1, 6, 6) % 17
    block = 64 // cell
    large = render(cells, World())[0].reshape(6 * cell, block, 6 * cell, block, 3).mean(axis=(1, 3))
    np.testing.assert_array_equal(render(cells, World(cell=cell))[0], np.rint(large))


def test_published_look():
    image = render(np.array([[[1, 0], [0, 6]]]), World(size=2))[0]
    assert tuple(image[32, 32]) == (255, 0, 0)
    assert tuple(image[96, 96]) == (0, 128, 0)
    assert (image[:64, 64:] == 255).all()
    assert (image[:6] == 255).all(), "ten per cent of the cell is padding"
    assert tuple(image[6, 32]) == tuple(image[7, 32]) == (0, 0, 0), "the outline is black and two pixels wide"


def test_all_classes_look_different():
    world = World(cell=24)
    tiles = render(np.arange(36).reshape(1, 6, 6) % 17, world)[0]
    seen = {tiles[r * 24 : r * 24 + 24, c * 24 : c * 24 + 24].tobytes() for r in range(6) for c in range(6)}
    assert len(seen) == 17


def test_one_sampling_many_cell_sizes():
    batch = generate_batch("D2_M_F0_d0.7", range(3))
    assert render(batch.cells, World(cell=8)).shape == (3, 48, 48, 3)


def test_contact_sheet_shows_the_roles(tmp_path: Path):
    samples = generate("D2_M_F0_d0.7", 3) + generate("D1_REL_F0_d0.3", 1) + generate("D3_CMP_F0_d0.7", 3, mode="spur")
    path = contact_sheet(samples, tmp_path / "sheet.png", columns=4)
    with Image.open(path) as sheet:
        pixels = {tuple(p) for p in np.asarray(sheet.convert("RGB")).reshape(-1, 3)}
        assert sheet.width == 22 + 4 * (252 + 22)
    for frame in ((0, 150, 90), (60, 80, 220), (225, 110, 0)):
        assert frame in pixels
    assert [p.name for p in tmp_path.iterdir()] == ["sheet.png"]


def test_histograms_have_a_row_per_mode(tmp_path: Path):
    pure = generate("D1_A_F0_d0.3", 30) + generate("D1_A_F1_d0.3", 8) + generate("D1_REL_F0_d0.3", 8)
    one = answer_histograms(pure, tmp_path / "one.png")
    two = answer_histograms(pure + generate("D1_A_F0_d0.3", 30, mode="spur"), tmp_path / "two.png")
    with Image.open(one) as a, Image.open(two) as b:
        assert a.width == b.width
        assert b.height - 20 == 2 * (a.height - 20)


def test_nothing_to_show_is_said(tmp_path: Path):
    with pytest.raises(BadInput):
        contact_sheet([], tmp_path / "a.png")
    with pytest.raises(BadInput):
        answer_histograms([], tmp_path / "b.png")

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from karat.datasets.grid import generate
from karat.drawing import BOTH, OTHER, TRUTH
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.metrics import otsu_iou
from karat.protocols.grid.picture import overlap_picture, paint, panels, picked


def test_colours_say_what_is_where() -> None:
    image = np.full((2, 2, 3), 255, np.uint8)
    truth, shown = np.array([[True, True], [False, False]]), np.array([[True, False], [True, False]])
    painted = paint(image, truth, shown)
    for place, colour in (((0, 0), BOTH), ((0, 1), TRUTH), ((1, 0), OTHER), ((1, 1), (255, 255, 255))):
        expected = np.round(0.45 * 255 + 0.55 * np.array(colour)) if place != (1, 1) else np.array(colour)
        assert painted[place].tolist() == pytest.approx(expected.tolist(), abs=1)


def test_what_is_picked_is_what_iou_reads() -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((12, 12)) < 0.3
    shown = rng.normal(size=(6, 6)) ** 3
    kept = picked(shown, (12, 12))
    full = np.abs(shown).repeat(2, 0).repeat(2, 1)
    iou = (kept & mask).sum() / (kept | mask).sum()
    assert iou == pytest.approx(float(otsu_iou(full[None], mask[None])[0]))


def test_a_png_with_a_row_per_explanation(tmp_path: Path) -> None:
    [sample] = generate("D1_M_F0_d0.3", 1, cell=16)
    truth = Attribution(sample.mask("target", "anchor").astype(float))
    one = overlap_picture(tmp_path / "one.png", sample, {"oracle": truth})
    two = overlap_picture(tmp_path / "two.png", sample, {"oracle": truth, "again": truth})
    assert Image.open(two).height > 1.7 * Image.open(one).height
    [_, green, red, both] = panels(sample, truth)
    assert not np.array_equal(green, red)
    assert (both != green).any()
    with pytest.raises(BadInput, match="needs a map"):
        overlap_picture(tmp_path / "none.png", sample, {"words": Attribution(words=np.ones(3))})
    with pytest.raises(BadInput, match="at least one"):
        overlap_picture(tmp_path / "none.png", sample, {})

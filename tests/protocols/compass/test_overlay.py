from __future__ import annotations

import io
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from karat.drawing import OTHER
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample
from karat.protocols.compass.overlay import Sheet, overlay, panels

NS = "{http://www.w3.org/2000/svg}"


def sample() -> Sample:
    boxes = {"anchor": (20, 40, 8, 8), "target": (80, 40, 8, 8)}
    return Sample(
        "s", np.full((96, 128, 3), 255, np.uint8), regions=tuple(Region(r, r, (b,)) for r, b in boxes.items())
    )


def test_wedges_are_as_long_as_their_shares_and_the_arrows_say_where() -> None:
    heat = np.zeros((12, 16))
    heat[5, 10] = 1.0  # to the right, on the target
    drawn = overlay(sample(), Attribution(heat))
    lengths = [max(np.hypot(x - 24, y - 44) for x, y in shape) for shape, _ in drawn.wedges]
    assert len(lengths) == 8
    assert lengths[0] == pytest.approx(0.32 * 96)
    assert max(lengths[1:]) < 1e-6
    (here, there, *_), (_, tip, *_) = drawn.arrows
    assert (here, there) == ((24.0, 44.0), (84.0, 44.0))
    assert tip == pytest.approx(there)


def test_both_formats_open_and_show_the_same_shapes() -> None:
    drawn = overlay(sample(), Attribution(np.random.default_rng(0).random((12, 16))))
    picture = Image.open(io.BytesIO(drawn.png(scale=2)))
    assert picture.size == (256, 192)
    assert (np.asarray(picture) == OTHER).all(-1).any()  # the arrow of the peak
    tree = ET.fromstring(drawn.svg())
    assert (tree.get("viewBox"), len(tree.findall(f"{NS}image"))) == ("0 0 128 96", 1)
    assert len(tree.findall(f"{NS}polygon")) == 8 + 2 + 2  # wedges, boxes, heads of arrows
    assert len(tree.findall(f"{NS}line")) == 2


def test_a_row_of_figure_2_and_a_sheet_of_rows() -> None:
    row = panels(sample(), Attribution(np.random.default_rng(1).random((12, 16))))
    boxed, heated, over, alone = row
    assert np.array_equal(np.asarray(boxed.picture), sample().image)
    assert (len(boxed.boxes), len(heated.boxes), len(over.wedges), len(alone.wedges)) == (2, 0, 8, 8)
    assert not np.array_equal(np.asarray(heated.picture), sample().image)
    turns = [[math.atan2(a[1] - b[1], b[0] - a[0]) for a, b, *_ in drawn.arrows] for drawn in (over, alone)]
    assert turns[0] == pytest.approx(turns[1])  # the compass by itself points as it does over the picture
    sheet = Sheet((row, row))
    assert sheet.size == (3 * (128 + 12) + 96, 2 * 96 + 12)
    assert Image.open(io.BytesIO(sheet.png(2))).size == (2 * sheet.size[0], 2 * sheet.size[1])
    inner = ET.fromstring(sheet.svg()).findall(f"{NS}svg")
    assert [(part.get("x"), part.get("y")) for part in inner][3:5] == [("420", "0"), ("0", "108")]


def test_what_has_no_compass_says_why() -> None:
    with pytest.raises(BadInput, match="all zero"):
        overlay(sample(), Attribution(np.zeros((4, 4))))
    with pytest.raises(BadInput, match="defines no map"):
        overlay(sample(), Attribution(words=np.ones(2)))

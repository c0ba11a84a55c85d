from __future__ import annotations

import io
import xml.etree.ElementTree as ET

import numpy as np
from PIL import Image

from karat.drawing.canvas import Canvas, cut_to, text_width

NS = "{http://www.w3.org/2000/svg}"


def drawn() -> Canvas:
    canvas = Canvas(40, 20, title="a <b>")
    canvas.picture((0, 0), (20, 20), np.full((2, 2, 3), (10, 200, 30), np.uint8))
    canvas.box((22, 2), (6, 6), fill=(255, 0, 0), opacity=0.5)
    canvas.line((30, 0), (30, 20), (0, 0, 255), 2)
    canvas.text((32, 15), "<&>", size=6)
    return canvas


def test_png_has_everything_in_its_place() -> None:
    picture = np.asarray(Image.open(io.BytesIO(drawn().png(scale=2))))
    assert picture.shape == (40, 80, 3)
    assert picture[20, 20].tolist() == [10, 200, 30]
    assert np.abs(picture[10, 50].astype(int) - (255, 127, 127)).max() <= 1  # half over white
    assert picture[20, 60].tolist() == [0, 0, 255]
    assert (picture[:, 64:] < 128).any()  # the text


def test_svg_says_the_same_and_escapes_texts() -> None:
    tree = ET.fromstring(drawn().svg())
    assert [part.tag.removeprefix(NS) for part in tree] == ["title", "rect", "image", "polygon", "line", "text"]
    assert (tree[0].text, tree[-1].text) == ("a <b>", "<&>")
    assert tree[2].get("href", "").startswith("data:image/png;base64,")


def test_long_texts_are_cut_to_what_fits() -> None:
    short = cut_to("How many yellow squares are left?", 13, 80)
    assert short.endswith("…")
    assert text_width(short, 13) <= 80
    assert cut_to("no", 13, 80) == "no"

from __future__ import annotations

import io
from html.parser import HTMLParser

import numpy as np
from PIL import Image

from karat.drawing import Panel, Scale, Sheet
from karat.drawing.sheet import legend, word_colours

IMAGE = np.full((30, 60, 3), 128, np.uint8)


def sheet(rows: int = 1) -> Sheet:
    words = (("Is", -1.0), ("<it>", 0.5), ("?", None))
    panel = Panel(IMAGE, np.eye(3), words, title="one & two", note="by nobody")
    return Sheet(((panel, panel),) * rows, "a question")


def test_panels_stand_in_rows() -> None:
    one, two = (Image.open(io.BytesIO(sheet(rows).png(1))) for rows in (1, 2))
    assert one.width == two.width == 14 + 2 * (260 + 14)
    assert two.height > 1.7 * one.height - 60


def test_html_needs_no_script_and_shows_words_as_text() -> None:
    tags: list[str] = []
    texts: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.handle_data = texts.append  # type: ignore[method-assign]
    parser.feed(sheet().html())
    assert {"div", "img", "span"} == set(tags)
    assert tags.count("img") == 2
    assert "".join(texts).count("Is <it> ?") == 2


def test_words_have_the_colour_of_their_score() -> None:
    [(_, strong), (_, zero), (_, none)] = word_colours((("a", 2.0), ("b", 0.0), ("c", None)), Scale(2.0, signed=True))
    assert none is None
    assert strong is not None
    assert zero is not None
    assert sum(zero) > sum(strong)  # zero is pale


def test_legends_say_what_the_ends_are() -> None:
    assert legend(Scale(0.5, signed=True, low=-0.5)) == ("against −0.5", "for 0.5")
    assert legend(Scale(0.5, low=0.1, clipped=True)) == ("0.1", "0.5 or more")

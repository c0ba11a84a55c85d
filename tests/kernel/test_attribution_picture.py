"""An attribution draws itself, says what it is, and names what is strongest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from karat.drawing import Scale, overlay
from karat.kernel.attribution import Attribution, Subject
from karat.kernel.attribution_picture import Attributions, panel, sheet
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import Target

SAMPLE = Sample("s", np.full((40, 60, 3), 90, np.uint8), "Is it red?")
MAP = np.arange(6.0).reshape(2, 3) - 2


def made(explainer: str = "cam/gradcam", factor: float = 1.0, word: str = "red") -> Attribution:
    target = Target.word(word, "yes, it is red")
    return Attribution(
        factor * MAP, factor * np.array([0.1, -0.5, 0.3, 0.0]), signed=True, passes=2, space="patch",
        of=Subject(SAMPLE, target, "toy", explainer, "a note"),
    )  # fmt: skip


def test_it_says_what_it_is() -> None:
    assert repr(made()) == ("Attribution of 'red' by cam/gradcam on toy: map 2 × 3 (patch, signed), 4 words, 2 passes")
    assert repr(Attribution(scalar=0.25)) == "Attribution: scalar 0.25"


def test_top_names_places_and_words_by_size() -> None:
    places = made().top(2)
    assert [(each.kind, each.name, each.score) for each in places] == [
        ("place", "row 2, column 3", 3.0), ("place", "row 1, column 1", -2.0),
        ("word", "it", -0.5), ("word", "red", 0.3),
    ]  # fmt: skip
    assert places[0].box == (40, 20, 20, 20)


def test_top_names_pairs_of_a_place_and_a_word() -> None:
    pairs = np.zeros((6, 4))
    pairs[5, 1], pairs[0, 3] = 0.5, -2.0
    both = replace(made(), pairs=pairs)
    named = [(each.name, each.score) for each in both.top(2) if each.kind == "pair"]
    words = [SAMPLE.text[a:b] for a, b in SAMPLE.words]
    assert named == [(f"{words[3]!r} with row 1, column 1", -2.0), (f"{words[1]!r} with row 2, column 3", 0.5)]
    assert f"strongest pairs: {words[3]!r} with row 1, column 1 (" in panel(both).note
    assert not [each for each in replace(both, words=None).top(2) if each.kind == "pair"]  # nobody knows their names


def test_overlay_is_the_drawing_of_the_whole_package() -> None:
    drawn = np.asarray(made().overlay())
    assert (drawn == overlay(SAMPLE.image, MAP, Scale.of([MAP], signed=True))).all()
    with pytest.raises(BadInput, match="needs a map"):
        Attribution(words=np.ones(2)).overlay()
    with pytest.raises(BadInput, match="needs the image"):
        Attribution(MAP).overlay()


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_saving(ending: str, tmp_path: Path) -> None:
    path = Attributions([made(), made(word="it")]).save(tmp_path / "new" / f"x.{ending}")
    data = path.read_bytes()
    assert data.startswith({"png": b"\x89PNG", "svg": b"<svg", "html": b"<!doctype html>"}[ending])
    if ending == "png":
        assert Image.open(path).width > 1000
    else:
        assert b"a note" in data
    with pytest.raises(BadInput, match=r"\.png, \.svg, \.html; got 'x.gif'"):
        made().save(tmp_path / "x.gif")


def test_maps_of_one_explainer_share_a_scale_others_do_not() -> None:
    [[one, ten, other]] = sheet([made(), made(factor=10), made("other")]).rows
    assert one.scale == ten.scale
    assert one.scale is not None
    assert one.scale.high == 30.0
    assert other.scale is not None
    assert other.scale.high == 3.0
    assert panel(made()).title == "'red', cam/gradcam"


def test_notebooks_show_it_without_script() -> None:
    page = Attributions([made()])._repr_html_()
    assert "<script" not in page
    assert "data:image/png" in page
    assert made()._repr_html_() == page

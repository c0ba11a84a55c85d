"""Absent states of images and texts."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.probe.absence import Absence


def sample() -> Sample:
    image = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    return Sample("s", image, "How many red circles, if any?")


def test_absent_images() -> None:
    picture = sample()
    blurred = np.asarray(Image.fromarray(picture.image).filter(ImageFilter.GaussianBlur(30)))
    assert np.array_equal(Absence().image_of(picture), blurred)
    assert np.array_equal(Absence(radius=0.0).image_of(picture), picture.image)
    assert (Absence("black").image_of(picture) == 0).all()
    assert (Absence("grey").image_of(picture) == 128).all()
    assert (Absence("white").image_of(picture) == 255).all()
    mean = Absence("mean").image_of(picture)
    assert mean.std(axis=(0, 1)).max() == 0
    assert np.abs(mean.mean((0, 1)) - picture.image.mean((0, 1))).max() <= 0.5
    noise = Absence("noise").image_of(picture)
    assert np.array_equal(noise, Absence("noise").image_of(picture))
    assert not np.array_equal(noise, Absence("noise", seed=1).image_of(picture))
    clean = np.zeros_like(picture.image)
    assert Absence("given", image=clean).image_of(picture) is clean


def test_words_are_deleted_with_their_gap() -> None:
    absence = Absence(text="delete")
    assert absence.text_of(sample(), frozenset()) == "How many red circles, if any?"
    assert absence.text_of(sample(), frozenset({0, 4})) == "many red circles if any?"
    assert absence.text_of(sample(), frozenset(range(8))) == ""
    assert Absence(text="given", words=("x",) * 8).text_of(sample(), frozenset({2, 7})) == "How many x circles, if anyx"


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Absence(visual="pink"), "one of blur, black"),
        (lambda: Absence(text="given"), "goes with `words`"),
        (
            lambda: Absence(visual="given", image=np.zeros((3, 3, 3), np.uint8)).image_of(sample()),
            "absent image has shape",
        ),
    ],
)
def test_bad_absent_states(build: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        build()  # type: ignore[operator]

from __future__ import annotations

import numpy as np
import toys

from karat.kernel.sample import Region, Sample, split_words


def test_words_keep_their_place_in_the_text() -> None:
    text = "How many red circles, above blue square?"
    assert [text[a:b] for a, b in split_words(text)] == [
        "How",
        "many",
        "red",
        "circles",
        ",",
        "above",
        "blue",
        "square",
        "?",
    ]


def test_a_region_is_the_union_of_its_boxes_and_stays_inside_the_image() -> None:
    mask = Region("r", "target", boxes=((0, 0, 2, 1), (3, 3, 9, 9), (-2, 1, 3, 1))).mask(4, 4)
    assert mask.tolist() == [
        [True, True, False, False],
        [True, False, False, False],
        [False, False, False, False],
        [False, False, False, True],
    ]


def test_exact_pixels_win_over_boxes() -> None:
    pixels = np.eye(3, dtype=bool)
    assert Region("r", "class", boxes=((0, 0, 3, 3),), pixels=pixels).mask(3, 3) is pixels


def test_truth_follows_the_mechanism() -> None:
    sample = toys.square(2)
    truth = sample.truth("reasons")
    assert truth is not None
    assert truth.visual is not None
    assert truth.visual.sum() == 16
    assert truth.words == (False, False, False, True, False)
    assert sample.truth("guesses") is None


def test_a_sample_without_regions_knows_no_visual_truth() -> None:
    sample = Sample("s", np.zeros((2, 2, 3), np.uint8), text="a b", mechanisms=toys.square(0).mechanisms)
    truth = sample.truth("reasons")
    assert truth is not None
    assert truth.visual is None
    assert truth.words is None

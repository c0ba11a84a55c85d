"""Images with the questions of others, and blocks of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cell_worlds import additive, shades, world

from karat.explainers.coalitional import Coalitional
from karat.explainers.cross_pairs import blocks, cross_matrices
from karat.kernel.sample import Sample
from karat.models.vlm import vlm
from karat.probe import Session
from tests.models.tiny_llava import make_module, make_processor


@pytest.fixture(scope="module")
def llava() -> Any:
    processor = make_processor()
    return vlm(make_module(processor), processor, name="tiny", max_new_tokens=1)


def questions() -> list[Sample]:
    rng = np.random.default_rng(0)
    texts = ["how many red circles", "any blue squares", "circles left of squares"]
    return [Sample(f"q{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), t) for i, t in enumerate(texts)]


def test_an_image_with_the_question_of_another(llava: Any) -> None:
    samples = questions()
    session = Session(llava, samples, ["yes"] * 3)
    [matrix] = cross_matrices(session, Coalitional(value="logit"), [("2", range(3))])
    for j, image in enumerate(samples):
        for k, text in enumerate(samples):
            crossed = Sample("x", image.image, text.text)
            assert matrix[j, k] == pytest.approx(
                float(llava.readout(llava.encode([crossed]), ["2"])[0].detach()), abs=1e-4
            )
    assert session.cost.images.made <= 3 + 6  # features of an image serve its other questions


def test_a_lone_sample_is_never_left_over() -> None:
    model, _ = world(additive)
    for n in range(2, 12):
        session = Session(model, shades(n), ["yes"] * n)
        for size in (2, 3, 4, 16):
            cut = blocks(session, size, "x")
            assert [i for block in cut for i in block] == list(range(n))
            assert min(map(len, cut)) >= 2
            assert max(map(len, cut)) <= max(size, 3)

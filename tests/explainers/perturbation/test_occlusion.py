"""Occlusion and leave-one-out against what an additive model must give."""

from __future__ import annotations

import numpy as np
import pytest
from cell_worlds import PATCH_WEIGHTS, WORD_WEIGHTS, WORDS, additive, cells, entangled, planted, shades, white, world

from karat.explainers.perturbation import LeaveOneOut, Occlusion
from karat.kernel.errors import BadInput
from karat.probe import Session


def test_leaving_one_out_of_a_sum_gives_its_terms() -> None:
    model, function = world(additive)
    [attribution] = LeaveOneOut(visual=(4, 4), absence="black")(Session(model, [white()], ["yes"]))
    np.testing.assert_allclose(attribution.visual.ravel(), PATCH_WEIGHTS, atol=1e-12)
    np.testing.assert_allclose(attribution.words, [WORD_WEIGHTS[word] for word in WORDS], atol=1e-12)
    assert attribution.passes == len(set(function.inputs)) == 20


def test_leaving_one_out_counts_a_pair_for_both() -> None:
    model, _ = world(planted)
    [attribution] = LeaveOneOut(visual=(4, 4), absence="black")(Session(model, [white()], ["yes"]))
    assert attribution.visual.ravel()[5] == pytest.approx(PATCH_WEIGHTS[5] + 0.4)
    assert attribution.words[2] == pytest.approx(WORD_WEIGHTS["red"] + 0.4)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_occlusion_equals_its_slow_twin(window: int) -> None:
    model, function = world(entangled)
    sample = shades(1)[0]
    [attribution] = Occlusion(cells=4, window=window, absence="black")(Session(model, [sample], ["yes"]))

    def value(image: np.ndarray) -> float:
        return float(entangled(cells(image[None]), [{"is", "it", "red"}])[0])

    total, count = np.zeros((4, 4)), np.zeros((4, 4))
    for y in range(5 - window):
        for x in range(5 - window):
            image = sample.image.copy()
            image[4 * y : 4 * (y + window), 4 * x : 4 * (x + window)] = 0
            total[y : y + window, x : x + window] += value(sample.image) - value(image)
            count[y : y + window, x : x + window] += 1
    np.testing.assert_allclose(attribution.visual, total / count, atol=1e-12)
    assert attribution.passes == Occlusion(cells=4, window=window).passes == len(set(function.inputs))


def test_a_window_must_fit() -> None:
    with pytest.raises(BadInput, match="a window of 5 does not fit 4 cells"):
        Occlusion(cells=4, window=5)


def test_explainers_on_equal_terms_share_answers() -> None:
    model, function = world(entangled)
    session = Session(model, shades(3), ["yes"] * 3)
    LeaveOneOut(visual=(4, 4), absence="grey")(session)
    before = len(function.inputs)
    Occlusion(cells=4, window=1)(session)
    assert len(function.inputs) == before


def test_a_model_that_reads_no_text_gets_no_word_scores() -> None:
    from karat.models.blackbox import blackbox

    model = blackbox(lambda images, texts: cells(images)[:, :2] / 2, answers=["a", "b"], text=False)
    [attribution] = LeaveOneOut(visual=(4, 4))(Session(model, [white()], ["a"]))
    assert attribution.words is None
    assert attribution.words_error is None

"""Occlusion and leave-one-out against what an additive model must give."""

from __future__ import annotations

import numpy as np
import pytest
from asking_worlds import PATCH_WEIGHTS, WORD_WEIGHTS, WORDS, additive, cells, entangled, planted, shades, white, world

from karat.explainers.perturbation import LeaveOneOut, Occlusion
from karat.kernel.errors import BadInput
from karat.probe import Session


def test_leaving_one_out_of_a_sum_gives_its_terms() -> None:
    model, seen = world(additive)
    [found] = LeaveOneOut(visual=(4, 4), absence="black")(Session(model, [white()], ["yes"]))
    np.testing.assert_allclose(found.visual.ravel(), PATCH_WEIGHTS, atol=1e-12)
    np.testing.assert_allclose(found.words, [WORD_WEIGHTS[word] for word in WORDS], atol=1e-12)
    assert found.passes == len(set(seen.seen)) == 20


def test_leaving_one_out_counts_a_pair_for_both() -> None:
    model, _ = world(planted)
    [found] = LeaveOneOut(visual=(4, 4), absence="black")(Session(model, [white()], ["yes"]))
    assert found.visual.ravel()[5] == pytest.approx(PATCH_WEIGHTS[5] + 0.4)
    assert found.words[2] == pytest.approx(WORD_WEIGHTS["red"] + 0.4)


def test_phrases_share_their_score_evenly() -> None:
    from dataclasses import replace

    from karat.kernel.sample import Phrase

    model, _ = world(additive)
    sample = replace(white(), phrases=(Phrase((3, 9), "target"),))  # "it red"
    [found] = LeaveOneOut(visual=(4, 4), absence="black", text="phrases")(Session(model, [sample], ["yes"]))
    np.testing.assert_allclose(found.words, [0.02, 0.035, 0.035], atol=1e-12)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_occlusion_equals_its_slow_twin(window: int) -> None:
    model, seen = world(entangled)
    sample = shades(1)[0]
    [found] = Occlusion(cells=4, window=window, absence="black")(Session(model, [sample], ["yes"]))

    def value(image: np.ndarray) -> float:
        return float(entangled(cells(image[None]), [{"is", "it", "red"}])[0])

    total, count = np.zeros((4, 4)), np.zeros((4, 4))
    for y in range(5 - window):
        for x in range(5 - window):
            image = sample.image.copy()
            image[4 * y : 4 * (y + window), 4 * x : 4 * (x + window)] = 0
            total[y : y + window, x : x + window] += value(sample.image) - value(image)
            count[y : y + window, x : x + window] += 1
    np.testing.assert_allclose(found.visual, total / count, atol=1e-12)
    assert found.passes == Occlusion(cells=4, window=window).passes == len(set(seen.seen))


def test_a_window_must_fit() -> None:
    model, _ = world(additive)
    with pytest.raises(BadInput, match="does not fit"):
        Occlusion(cells=4, window=5)(Session(model, [white()], ["yes"]))


def test_explainers_on_equal_terms_share_answers() -> None:
    model, seen = world(entangled)
    session = Session(model, shades(3), ["yes"] * 3)
    LeaveOneOut(visual=(4, 4), absence="grey")(session)
    before = len(seen.seen)
    Occlusion(cells=4, window=1)(session)
    assert len(seen.seen) == before


def test_a_model_that_reads_no_text_gets_no_word_scores() -> None:
    from karat.models.blackbox import blackbox

    model = blackbox(lambda images, texts: cells(images)[:, :2] / 2, answers=["a", "b"], text=False)
    [found] = LeaveOneOut(visual=(4, 4))(Session(model, [white()], ["a"]))
    assert found.words is None
    assert found.words_error is None

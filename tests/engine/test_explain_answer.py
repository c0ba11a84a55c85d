"""The answer word by word: one forward for all words, tokens with their probabilities, effort by budget."""

from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.grid import generate
from karat.engine.explain_answer import explain_answer
from karat.kernel.errors import BadInput
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.target import Target
from karat.models import load_model

SAID = "2 yellow squares"


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("gridvlm.pure")


@pytest.fixture(scope="module")
def sample() -> Sample:
    return generate("D2_M_F0_d0.3", 1, seed=3)[0]


def test_every_word_has_a_map_and_a_probability(model: Model, sample: Sample) -> None:
    made = explain_answer(model, sample, say=SAID, explainer=["cam/layercam", "relevance/attnlrp"])
    assert [str(t) for t in made.targets] == [SAID, "2", "yellow", "squares"]
    assert [each.text for each in made.tokens] == ["2", "yellow", "squares"]
    assert made.spoken[0].probability == pytest.approx(np.prod([each.probability for each in made.tokens]), rel=1e-4)
    for k, word in enumerate(("2", "yellow", "squares"), start=1):
        assert made.spoken[k].probability == pytest.approx(
            float(model.score([sample], [Target.word(word, SAID)])[0]), rel=1e-4
        )
    for method in made.methods:
        assert len(method.maps) == 4
        assert all(one.of is not None and one.of.sample is sample for one in method.maps)
    plain = made.plain()
    assert len(plain["explainers"][0]["maps"]) == 4
    assert np.shape(plain["explainers"][0]["maps"][1]["map"]) == (6, 6)


def test_its_own_answer_is_one_word(model: Model, sample: Sample) -> None:
    made = explain_answer(model, sample, explainer="cam/layercam")
    assert made.answer == model.answer([sample])[0]
    assert not made.forced
    assert made.targets == (made.answer,)


def test_one_word_and_what_it_is_against(model: Model, sample: Sample) -> None:
    made = explain_answer(model, sample, say=SAID, word="yellow", against="red", explainer="cam/layercam")
    [target] = made.targets
    assert isinstance(target, Target)
    assert (target.words, target.contrast, target.context) == ("yellow", "red", "2 ")
    with pytest.raises(BadInput, match=r"'yelow' was not said.*Did you mean 'yellow'"):
        explain_answer(model, sample, say=SAID, word="yelow")


def test_rare_words_are_asked_about_by_log_odds(model: Model, sample: Sample) -> None:
    rare = explain_answer(model, sample, say=SAID, explainer="perturbation/leave_one_out").methods[0]
    usual = explain_answer(model, sample, explainer="perturbation/leave_one_out").methods[0]
    assert (rare.note, usual.note) == ("run with value log_odds", "")
    assert rare.maps[2].visual is not None
    assert np.abs(rare.maps[2].visual).max() > 0.1


def test_a_budget_lowers_the_effort_and_says_so(model: Model, sample: Sample) -> None:
    made = explain_answer(
        model, sample, explainer=["perturbation/rise", "perturbation/occlusion", "cam/layercam"], budget=1e-9
    )
    rise, occlusion, cam = made.methods
    assert rise.note == "run with masks 24, word_masks 8 to stay near 1e-09 s"
    assert rise.maps[0].passes <= 24 + 8
    assert occlusion.maps[0].passes < 10
    assert cam.note == ""


def test_parts_that_were_not_asked_for_are_left_out(model: Model, sample: Sample) -> None:
    words = explain_answer(model, sample, explainer="relevance/attnlrp", show="words").methods[0].maps[0]
    assert (words.visual is None, words.words is None) == (True, False)
    cells = explain_answer(model, sample, explainer="relevance/attnlrp", show="cells").methods[0].maps[0]
    assert (cells.visual is None, cells.words is None) == (False, True)
    with pytest.raises(BadInput, match=r"gives no pairs of places and words; these do: .*interaction/multishap"):
        explain_answer(model, sample, explainer="cam/layercam", show="pairs")


def test_progress_names_each_explainer(model: Model, sample: Sample) -> None:
    told: list[tuple[str, float]] = []
    explain_answer(
        model, sample, explainer=["cam/layercam", "gradient/gradient"],
        progress=lambda name, session, passes: told.append((name, passes)),
    )  # fmt: skip
    assert [name for name, _ in told] == ["cam/layercam", "gradient/gradient"]


def test_a_model_that_answers_needs_a_question(model: Model) -> None:
    with pytest.raises(BadInput, match="answers questions: give one"):
        explain_answer(model, np.zeros((8, 8, 3), np.uint8))

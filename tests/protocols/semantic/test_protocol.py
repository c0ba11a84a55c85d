"""Protocol `semantic` on scenes where every number can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantic_worlds import Guesser, H, Scenes, W

from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.kernel.row import Outcomes
from karat.kernel.sample import Region, Sample
from karat.metrics import relevance_mass
from karat.probe.session import Session
from karat.protocols.semantic import Semantic

LEFT = np.zeros((H, W))
LEFT[:, :4] = [1.0, 0.8, 0.5, 0.2]


def scored(protocol: Semantic, scenes: Scenes, visual: Any = LEFT, model: Any = None) -> Mapping[str, Outcomes]:
    samples = scenes.load(0, len(scenes))
    model = model or Guesser()
    session = Session(model, samples, protocol.targets)
    return protocol.score(session, [Attribution(visual) for _ in samples])


def test_equations_by_hand() -> None:
    """cat is columns 0-2, column 7 is ignored."""
    plain = scored(Semantic(threshold=0.0), Scenes())
    np.testing.assert_allclose(plain["sss"].values, 0.2 / 2.5)
    np.testing.assert_allclose(plain["outside"].values, 4 / 7)
    np.testing.assert_allclose(plain["gain"].values, 1 - (0.2 / 2.5) / (4 / 7))
    soft = scored(Semantic(threshold=0.5), Scenes())
    np.testing.assert_allclose(soft["sss"].values, 0.0)  # ≥: 0.5 itself is kept, and all that is left is inside
    hard = scored(Semantic(threshold=0.2, mode="hard"), Scenes())
    np.testing.assert_allclose(hard["sss"].values, 1 / 4)


def test_thresholds_are_shares_or_absolute() -> None:
    """A map ten times as large: a share of the maximum does not notice, an absolute threshold does."""
    assert scored(Semantic(threshold=0.5, scale="maximum"), Scenes(), 10 * LEFT)["sss"].values[0] == 0
    np.testing.assert_allclose(
        scored(Semantic(threshold=2.0, scale="raw"), Scenes(), 10 * LEFT)["sss"].values, 2 / 25, rtol=1e-6
    )
    lifted = LEFT + 1  # the range takes the lifted floor away
    np.testing.assert_allclose(
        scored(Semantic(threshold=0.0, scale="range"), Scenes(), lifted)["sss"].values, 0.2 / 2.5, rtol=1e-5
    )
    with pytest.raises(BadInput, match="at most 1 with scale"):
        Semantic(threshold=1.5)


def test_ignored_pixels_count_for_nothing() -> None:
    loud = LEFT.copy()
    loud[:, -1] = 0.9
    same = scored(Semantic(threshold=0.0), Scenes(), loud)["sss"].values
    np.testing.assert_allclose(same, 0.2 / 2.5)
    hard = scored(Semantic(threshold=0.0, mode="hard"), Scenes(), loud)["sss"].values
    np.testing.assert_allclose(hard, 4 / 7)  # every counted pixel is 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 4, width=16), min_size=H * W, max_size=H * W).filter(lambda v: sum(v) > 0.1))
def test_sss_is_one_minus_rma(values: list[float]) -> None:
    visual = np.array(values).reshape(H, W)
    [sample] = Scenes(1).load(0, 1)
    known = visual.copy()
    known[:, -1] = 0  # the ignored column
    found = scored(Semantic(threshold=0.0, scale="raw"), Scenes(1), visual)["sss"]
    if known.any():
        mass = relevance_mass(known[None], sample.regions[0].mask(H, W)[None])[0]
        assert abs(found.values[0] - (1 - mass)) < 1e-6


def test_every_class_of_an_image_is_a_prediction() -> None:
    found = scored(Semantic(threshold=0.0), Scenes(2, predictions=3))
    np.testing.assert_allclose(found["sss"].values[:2], [0.2 / 2.5, 1 - 0.2 / 2.5])  # cat, then dog
    assert "only 2 to choose from" in found["sss"].not_applicable[2]
    assert np.isfinite(found["sss"].values[3])
    assert "only 1 to choose from" in found["sss"].not_applicable[4]
    np.testing.assert_allclose(found["confidence"].values[[0, 1, 3]], [0.6, 0.3, 0.6])


def test_predicted_classes_top_three_above_the_least_confidence() -> None:
    protocol = Semantic(threshold=0.0, target="predicted")
    samples = Scenes(1, predictions=4).load(0, 4)
    assert list(Session(Guesser(), samples, protocol.targets).targets) == ["cat", "dog", "lion", "kitten"]
    found = scored(protocol, Scenes(1, predictions=4))["sss"]
    assert np.isfinite(found.values[:2]).all()
    assert found.not_applicable[2] == "the image has no 'lion'"
    assert found.not_applicable[3] == "confidence 0.02 is not above 0.04"
    lax = scored(Semantic(threshold=0.0, target="predicted", min_confidence=0.01), Scenes(1, predictions=4))["sss"]
    np.testing.assert_allclose(lax.values[3], lax.values[0])  # "kitten" is another word for the same class
    whole = scored(Semantic(threshold=0.0, target="predicted", region="image"), Scenes(1, predictions=3))["sss"]
    np.testing.assert_allclose(whole.values, 0.0, atol=1e-12)  # all mass on cat or dog


def test_present_labels_are_ranked_among_themselves() -> None:
    protocol = Semantic(threshold=0.0, target="present")
    model = Guesser({"cat": 0.2, "dog": 0.3, "lion": 0.49, "kitten": 0.01})
    samples = Scenes(2, predictions=2).load(0, 4)
    assert Session(model, samples, protocol.targets).targets[:3] == ("dog", "cat", "cat")
    found = scored(protocol, Scenes(2, predictions=2), model=model)
    np.testing.assert_allclose(found["confidence"].values[:3], [0.6, 0.4, 1.0])
    assert "only 1" in found["sss"].not_applicable[3]


def test_correctness_and_what_the_model_says_by_itself() -> None:
    found = scored(Semantic(), Scenes(6))
    assert found["correct"].values.tolist() == [1, 1, 1, 1, 1, 0]
    np.testing.assert_allclose(found["own_confidence"].values, 0.6)
    np.testing.assert_allclose(found["confidence"].values, [0.6] * 5 + [0.08])
    assert found["correct"].texts["own"][-2:] == ["cat", "lion"]


def test_a_label_that_the_model_was_never_taught_is_no_failure() -> None:
    found = scored(Semantic(), Scenes(2), model=Guesser({"lion": 0.9, "tiger": 0.1}))
    assert not found["sss"].failures
    assert "no label is called 'cat'" in found["sss"].not_applicable[0]


def test_a_sample_that_could_not_be_read_fails_alone() -> None:
    found = scored(Semantic(threshold=0.0), Scenes(5, broken=True))["sss"]
    assert found.failures == {3: "sample: truncated file"}
    assert np.isfinite(np.delete(found.values, 3)).all()


def test_maps_without_mass_fail_with_their_reason() -> None:
    assert scored(Semantic(), Scenes(1), 0 * LEFT)["gain"].failures[0] == "map: all zero"
    found = scored(Semantic(threshold=0.9, scale="raw"), Scenes(1), 0.1 * LEFT)["sss"]
    assert found.failures[0] == "no saliency reaches the threshold 0.9"


def test_curves_are_kept_for_every_threshold() -> None:
    found = scored(Semantic(threshold=0.5, thresholds=(0.0, 0.5)), Scenes(1))["sss"]
    np.testing.assert_allclose(found.details["soft"][0], [0.2 / 2.5, 0.0], atol=1e-7)
    np.testing.assert_allclose(found.details["hard"][0], [4 / 7, 0.0], atol=1e-7)


def test_roles_stand_in_for_classes() -> None:
    sample = Sample(
        "s", np.zeros((2, 2, 3), np.uint8), answer="yes", regions=(Region("t", "target", boxes=((0, 0, 1, 2),)),)
    )

    class Yes:
        name, capabilities, mechanism = "yes", frozenset({"scores"}), None

        def answer(self, samples: Any) -> list[str]:
            return ["yes"] * len(samples)

        def score(self, samples: Any, answers: Any) -> Any:
            return np.full(len(samples), 0.7)

    protocol = Semantic(threshold=0.0, target="predicted", roles=("target",))
    session = Session(Yes(), [sample], protocol.targets)
    found = protocol.score(session, [Attribution(np.array([[3.0, 1.0], [3.0, 1.0]]))])
    assert found["sss"].values[0] == pytest.approx(0.25)
    assert found["correct"].values[0] == 1


def test_the_model_is_asked_once_per_image_whatever_the_explainers() -> None:
    asked = []

    class Counting(Guesser):
        def ranking(self, samples: Any, top: int) -> Any:
            asked.append(len(samples))
            return super().ranking(samples, top)

    protocol, model = Semantic(), Counting()
    samples = Scenes(4, predictions=3).load(0, 12)
    session = Session(model, samples, protocol.targets)
    for _ in range(3):
        protocol.score(session, [Attribution(LEFT) for _ in samples])
    assert asked == [4]


def test_another_model_is_asked_again_whatever_its_address() -> None:
    """Models made one after the other often get the same id; what the first said must not be taken for the second's."""
    protocol = Semantic(target="predicted")
    samples = Scenes(2).load(0, 2)
    said = []
    for best in ("cat", "dog", "lion"):
        table = {"cat": 0.1, "dog": 0.1, "lion": 0.1, "kitten": 0.1} | {best: 0.7}
        said.append(Session(Guesser(table), samples, protocol.targets).targets[0])
    assert said == ["cat", "dog", "lion"]


def test_every_prediction_has_its_own_confidence_and_its_own_truth() -> None:
    """Three predictions of each image, of which the third, a lion, is not there."""
    found = scored(Semantic(threshold=0.0, target="predicted", region="image"), Scenes(1, predictions=3))
    assert found["correct"].values.tolist() == [1, 1, 0]
    np.testing.assert_allclose(found["own_confidence"].values, [0.6, 0.3, 0.08])
    assert list(found["correct"].texts["own"]) == ["cat", "dog", "lion"]


def test_the_models_one_answer_is_the_prediction_of_one_row() -> None:
    """Where labels of the image are explained, its top answer belongs to the class it names."""
    found = scored(Semantic(threshold=0.0), Scenes(1, predictions=2), model=Guesser({"cat": 0.2, "dog": 0.7}))
    assert found["correct"].not_applicable[0] == "the model's answer is about another class of the image"
    assert found["correct"].values[1] == 1
    word = scored(Semantic(threshold=0.0), Scenes(1), model=Guesser({"cat": 0.2, "dog": 0.1, "kitten": 0.7}))
    assert word["correct"].values[0] == 1  # another word for the same pixels
    wrong = scored(Semantic(threshold=0.0), Scenes(1, predictions=2), model=Guesser({"cat": 0.2, "dog": 0.1, "x": 0.7}))
    assert wrong["correct"].values[0] == 0
    assert 1 in wrong["correct"].not_applicable


def test_the_predicted_class_is_held_against_the_object_even_where_it_is_wrong() -> None:
    model = Guesser({"cat": 0.1, "dog": 0.1, "lion": 0.8})
    found = scored(Semantic(threshold=0.0, target="predicted", region="image"), Scenes(1), model=model)
    assert found["correct"].values[0] == 0
    assert np.isfinite(found["sss"].values[0])

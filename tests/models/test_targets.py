"""Targets of models that answer as a whole: no parts, and contrasts read off the same scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_vlms

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import Target
from karat.models import blackbox, load_model

torch = pytest.importorskip("torch")

from karat.models.classifier import classifier  # noqa: E402
from karat.models.clip import clip  # noqa: E402
from karat.probe import Session  # noqa: E402


def small_network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 8, 8), torch.nn.Flatten(), torch.nn.LazyLinear(3))


def image(seed: int = 0) -> Sample:
    return Sample("s", np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8), "which?")


@pytest.fixture(params=["classifier", "clip", "blackbox"])
def model(request: pytest.FixtureRequest) -> Any:
    labels = ("cat", "dog", "cow")
    if request.param == "blackbox":
        return blackbox(lambda images, texts: np.tile([0.5, 0.3, 0.2], (len(images), 1)), answers=labels)
    if request.param == "clip":
        return clip(*tiny_vlms.make_clip("clip"), labels=labels)
    network = small_network()
    network(torch.zeros(1, 3, 224, 224))
    return classifier(network, labels=labels)


def test_a_contrast_is_a_choice_between_two(model: Any) -> None:
    cat, dog = model.score([image()] * 2, ["cat", "dog"])
    together = model.score([image()] * 2, [Target.whole("cat", contrast="dog"), "dog"])
    np.testing.assert_allclose(together, [cat / (cat + dog), dog], rtol=1e-5)


def test_no_part_of_an_answer_can_be_explained(model: Any) -> None:
    with pytest.raises(BadInput, match=r"answers as a whole.*asked for 'at' of 'cat'"):
        model.score([image()], [Target("cat", (1, 3))])


def test_raw_scores_are_differences() -> None:
    network = small_network()
    network(torch.zeros(1, 3, 224, 224))
    adapter = classifier(network, labels=("cat", "dog", "cow"))
    inputs = adapter.encode([image()])
    with torch.no_grad():
        cat, dog, both = (adapter.readout(inputs, [t]) for t in ("cat", "dog", Target.whole("cat", contrast="dog")))
    torch.testing.assert_close(both, cat - dog)


def test_choices_of_models_that_answer_as_a_whole_stay_texts() -> None:
    """A function that says "Yes, there is." is scored on that, whatever the choice it is read as."""
    says = blackbox(lambda images, texts: ["Yes, there is."] * len(images))
    session = Session(says, [Sample("s", image().image, "Is there?", choices=("yes", "no"))])
    assert session.targets == ("Yes, there is.",)
    assert session.answers == ("yes",)
    assert says.score(session.samples, session.targets).tolist() == [1.0]


def test_impossible_answers_have_no_choice_between_them() -> None:
    sure = blackbox(lambda images, texts: ["cat"] * len(images))
    assert np.isnan(sure.score([image()], [Target.whole("dog", contrast="cow")])[0])


def test_twins_take_contrasts() -> None:
    from karat.datasets import grid

    samples = list(grid.generate("D1_M_F1_d0.3", 2, seed=0))
    twin = load_model("gridprog.pure")
    yes, no = twin.score(samples, ["yes"] * 2), twin.score(samples, ["no"] * 2)
    both = twin.score(samples, [Target.whole("yes", contrast="no")] * 2)
    np.testing.assert_allclose(both, yes / (yes + no), rtol=1e-6)

"""Every word of an answer from one forward: the same maps as word by word, for the passes of one word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karat.datasets.grid import generate
from karat.kernel.attribution import Attribution
from karat.kernel.registry import build
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.target import Target
from karat.models import load_model
from karat.probe.session import Cost, Session

TEXT = "two red squares are left of the circle"
WORDS = [Target.word(word, TEXT) for word in ("two", "squares", "circle")] + [
    Target(TEXT, (4, 7), contrast="blue"),  # one token against another
    Target.whole(TEXT),
]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("gridvlm.pure")


@pytest.fixture(scope="module")
def sample() -> Sample:
    return generate("D1_M_F0_d0.3", 1, seed=3)[0]


def both(
    model: Model, sample: Sample, name: str, **parameters: Any
) -> tuple[list[Attribution], list[Attribution], Cost]:
    explainer = build("explainer", name, parameters)
    together = Session(model, [sample] * len(WORDS), WORDS)
    at_once = list(explainer(together))
    alone = [explainer(Session(model, [sample], [word]))[0] for word in WORDS]
    return at_once, alone, together.cost


def assert_same(at_once: list[Attribution], alone: list[Attribution]) -> None:
    for one, other in zip(at_once, alone, strict=True):
        for a, b in ((one.visual, other.visual), (one.words, other.words)):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * max(1e-9, float(np.abs(b).max())))
        for note, value in other.notes.items():
            assert one.notes[note] == pytest.approx(value, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["cam/gradcam", "gradient/gradient", "attention/generic", "relevance/attnlrp"])
def test_one_forward_and_a_backward_for_each_word(model: Model, sample: Sample, name: str) -> None:
    at_once, alone, cost = both(model, sample, name)
    assert_same(at_once, alone)
    assert (cost.traces, cost.backwards) == (1, len(WORDS))
    assert not np.allclose(at_once[0].visual, at_once[2].visual)  # words differ


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("perturbation/occlusion", {"cells": 4, "window": 2}), ("perturbation/rise", {"masks": 24, "word_masks": 10})],
)
def test_asking_costs_the_passes_of_one_word(model: Model, sample: Sample, name: str, parameters: Any) -> None:
    at_once, alone, cost = both(model, sample, name, **parameters)
    assert_same(at_once, alone)
    single = Session(model, [sample], WORDS[:1])
    build("explainer", name, parameters)(single)
    assert cost.passes.made == single.cost.passes.made
    assert cost.passes.requested == len(WORDS) * single.cost.passes.requested


def test_forwards_are_counted_at_the_module(model: Model, sample: Sample) -> None:
    session = Session(model, [sample] * len(WORDS), WORDS)
    module = session.torch_model.module
    rows: list[int] = []
    handle = module.get_submodule("model.language_model").register_forward_hook(
        lambda _, args, kwargs, out: rows.append(kwargs["inputs_embeds"].shape[0]), with_kwargs=True
    )
    try:
        build("explainer", "cam/gradcam", {})(session)
    finally:
        handle.remove()
    assert rows == [1]


def test_other_texts_are_not_mixed(model: Model, sample: Sample) -> None:
    session = Session(model, [sample] * 2, ["two", "red"])
    assert not session.one_forward()
    assert Session(model, [sample] * 2, WORDS[:2]).one_forward()
    assert not Session(model, [sample], WORDS[:1]).one_forward()

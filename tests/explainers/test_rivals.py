"""The answer that a contrastive explanation argues against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers")

from karat.datasets.grid import generate
from karat.explainers.gradient.activation import ContrastiveGradXAct
from karat.explainers.gradient.rivals import rivals
from karat.kernel.errors import BadInput
from karat.models import load_model
from karat.probe import Session


def test_a_model_that_can_say_anything_is_contrasted_within_the_choices_of_each_sample() -> None:
    model = load_model("gridvlm.pure")
    samples = [generate(name, 1, cell=16)[0] for name in ("D1_M_F0_d0.3", "D1_A_F1_d0.7")]
    both = Session(model, samples)
    found, passes = rivals(both, ())
    choices = [set(sample.choices) for sample in samples]
    assert passes == len(choices[0] | choices[1])
    assert found[0] in choices[0] - {both.targets[0]}
    assert found[1] == ({"yes", "no"} - {both.targets[1]}).pop()
    explain = ContrastiveGradXAct()
    maps = explain(both)
    for i, sample in enumerate(samples):
        named = replace(explain, candidates=sample.choices)(Session(model, [sample]))
        np.testing.assert_allclose(maps[i].visual, named[0].visual, rtol=1e-4, atol=1e-7)
        assert maps[i].passes == 2 + passes


def test_without_answers_and_choices_candidates_must_be_named() -> None:
    sample = replace(generate("D1_A_F1_d0.7", 1, cell=16)[0], choices=())
    with pytest.raises(BadInput, match="name candidates"):
        rivals(Session(load_model("gridvlm.pure"), [sample]), ())

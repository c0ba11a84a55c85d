"""Gradient times activation against a foil: its literal twin, and which answer the foil is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import model, samples, targets
from small_models import close
from torch import Tensor

from karat.datasets.grid import generate
from karat.explainers.gradient import ContrastiveGradXAct
from karat.explainers.gradient.activation import block_names, foils
from karat.kernel.errors import BadInput
from karat.models import load_model
from karat.probe import Session


@pytest.mark.parametrize("key", ["llava", "gridnet"])
def test_contrast_equals_its_literal_twin(key: str) -> None:
    """creg2026 Eq. 7-9 with τ differentiated as one number, sample by sample, layer by layer."""
    candidates = ("yes", "no", "1", "2", "3")
    built, wanted = model(key), targets(key)
    wanted = ["yes", "2", "2"] if key == "llava" else wanted
    attributions = ContrastiveGradXAct(candidates=candidates)(Session(built, samples(key), wanted))
    for i, sample in enumerate(samples(key)):
        inputs = built.encode([sample])
        inputs.pixels.requires_grad_()
        with torch.no_grad():
            scores = {c: float(built.readout(inputs, [c])) for c in candidates}
        ranked = sorted(candidates, key=lambda c: -scores[c])
        foil = ranked[0] if ranked[0] != wanted[i] else ranked[1]
        blocks = block_names(built)
        maps = []
        for k in (-2, -3, -4, -5):
            if -k > len(blocks):
                continue
            states: list[Tensor] = []
            keep = built.module.get_submodule(blocks[k]).register_forward_hook(
                lambda _, __, out, states=states: states.append(out[0] if isinstance(out, tuple) else out)
            )
            tau = built.readout(inputs, [wanted[i]]) - built.readout(inputs, [foil])
            keep.remove()
            slopes = torch.autograd.grad(tau.sum(), states)
            # h is the same in both passes, so the gradient of τ with respect to it is the sum of the two.
            maps.append((states[0] * (slopes[0] + slopes[1])).sum(-1).abs()[0].detach())
        layout = built.layout(inputs)
        weights = torch.stack([m[list(layout.visual)].max() for m in maps]).softmax(0)
        relevance = (weights[:, None] * torch.stack(maps)).sum(0)
        close(attributions[i].visual, relevance[list(layout.visual)].reshape(layout.grid))
        tokens = relevance[list(layout.text)]
        close(attributions[i].words, [float(tokens[a:b].sum()) for a, b in inputs.words[0]])


# ---- foils


def test_a_model_that_can_say_anything_is_contrasted_within_the_choices_of_each_sample() -> None:
    model = load_model("gridvlm.pure")
    samples = [generate(name, 1, cell=16)[0] for name in ("D1_M_F0_d0.3", "D1_A_F1_d0.7")]
    both = Session(model, samples)
    others, passes = foils(both, ())
    choices = [set(sample.choices) for sample in samples]
    assert passes == len(choices[0] | choices[1])
    assert others[0] in choices[0] - {both.targets[0]}
    assert others[1] == ({"yes", "no"} - {both.targets[1]}).pop()
    explain = ContrastiveGradXAct()
    maps = explain(both)
    for i, sample in enumerate(samples):
        named = replace(explain, candidates=sample.choices)(Session(model, [sample]))
        np.testing.assert_allclose(maps[i].visual, named[0].visual, rtol=1e-4, atol=1e-7)
        assert maps[i].passes == 2 + passes


def test_without_answers_and_choices_candidates_must_be_named() -> None:
    sample = replace(generate("D1_A_F1_d0.7", 1, cell=16)[0], choices=())
    with pytest.raises(BadInput, match="name candidates"):
        foils(Session(load_model("gridvlm.pure"), [sample]), ())


def test_one_candidate_is_no_contrast() -> None:
    with pytest.raises(BadInput, match=r"candidates are two or more, or none; got \('yes',\)"):
        ContrastiveGradXAct(candidates=("yes",))

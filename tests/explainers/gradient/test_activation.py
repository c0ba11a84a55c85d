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
from karat.explainers.gradient import ContrastiveGradXAct, GradXAct
from karat.explainers.gradient.activation import SIGNAL, block_names, foils, is_signal, signal, signal_by_layer
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
            products = (states[0] * (slopes[0] + slopes[1])).detach()[0]
            visual = products[list(built.layout(inputs).visual)]
            if float(visual.sum(-1).abs().sum() / visual.abs().sum()) >= 1e-4:  # else rounding
                maps.append(products.sum(-1).abs())
        layout = built.layout(inputs)
        weights = torch.stack([m[list(layout.visual)].max() for m in maps]).softmax(0)
        relevance = (weights[:, None] * torch.stack(maps)).sum(0)
        close(attributions[i].visual, relevance[list(layout.visual)].reshape(layout.grid))
        tokens = relevance[list(layout.text)]
        close(attributions[i].words, [float(tokens[a:b].sum()) for a, b in inputs.words[0]])


# ---- is it a signal?


def test_what_only_a_norm_reads_has_no_signal_and_says_so() -> None:
    """h is read through an RMSNorm: Σ_d g_d h_d = 0 by Euler's theorem; what is added to h first makes it a signal."""
    torch.manual_seed(0)
    states = torch.randn(1, 64, 3, 3, requires_grad=True)
    readers = {
        "norm": states / states.square().mean(1, keepdim=True).sqrt(),
        "residual": states + (states / states.square().mean(1, keepdim=True).sqrt()).tanh(),
    }
    weights = torch.randn(1, 64, 3, 3)
    ratios = {}
    for name, reader in readers.items():
        (slopes,) = torch.autograd.grad((reader * weights).tanh().sum(), states)
        ratios[name] = float(signal(states, slopes).detach())
        assert bool(is_signal(states, slopes)) == (name == "residual")
    assert ratios["norm"] < 1e-6 < 1e-2 < ratios["residual"]
    nothing = torch.zeros(1, 4, 2, 2)
    assert bool(is_signal(nothing, nothing))  # a map of zeros is told as one, not as rounding


def test_half_precision_rounds_more() -> None:
    """What survives rounding to bfloat16 of a sum that is exactly 0 is refused there, too."""
    torch.manual_seed(0)
    states, slopes = torch.randn(1, 128, 6, 6), torch.randn(1, 128, 6, 6)
    slopes = slopes - states * (slopes * states).sum(1, keepdim=True) / states.square().sum(1, keepdim=True)
    assert not bool(is_signal(states, slopes))
    assert float(signal(states.bfloat16(), slopes.bfloat16())) > 1e-4
    assert not bool(is_signal(states.bfloat16(), slopes.bfloat16()))
    assert bool(is_signal((states + 0.1 * slopes).bfloat16(), slopes.bfloat16()))


@pytest.mark.parametrize(
    ("key", "weak"),
    [("gridvlm", {"decoder.4"}), ("llava", {"decoder.3"}), ("qwen2_vl", {"decoder.2", "vision.1"}),
     ("gridnet", {"decoder.3"})],
)  # fmt: skip
def test_hidden_state_minus_two_of_a_pre_norm_decoder_has_no_signal(key: str, weak: set[str]) -> None:
    wanted = targets(key) if key in ("gridnet", "gridvlm") else ["yes", "2", "2"]
    session = Session(model(key), samples(key), wanted)
    ratios = signal_by_layer(session)
    assert {name for name, ratio in ratios.items() if ratio < SIGNAL} == weak
    for layer in weak:
        with pytest.raises(BadInput, match=rf"rounding error at {layer} .* Name an earlier layer"):
            GradXAct(layer)(session)
    roles = session.torch_model.layers
    assert min(signal_by_layer(session, ["vision.signal", "decoder.signal"]).values()) > 1e-3, roles
    assert np.abs(GradXAct("decoder.signal")(session)[0].visual).max() > 0


def test_a_contrast_of_rounding_alone_fails() -> None:
    session = Session(model("llava"), samples("llava"), ["yes", "2", "2"])
    with pytest.raises(BadInput, match=r"rounding error at hidden states \(-2,\)"):
        ContrastiveGradXAct(layers=(-2,), candidates=("yes", "no", "1"))(session)


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

"""AttnLRP and CP-LRP against explicit matrices, and what they must conserve."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from relevance_networks import CASES, Network, session_of

from karat.explainers.relevance import AttnLrp, CpLrp
from karat.kernel.sample import Sample
from karat.models.vlm import vlm
from karat.probe import Session
from tests.models.tiny_llava import make_module, make_processor
from tests.twins import relevance_rules as twin


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("hold", [False, True], ids=["attnlrp", "cplrp"])
def test_explainers_equal_explicit_shares(case: str, hold: bool) -> None:
    network = Network(*CASES[case])
    session = session_of(network)
    explainer = CpLrp("embed") if hold else AttnLrp("embed")
    with torch.no_grad():
        tokens = network.embed(session.inputs.pixels).flatten(2).transpose(1, 2).numpy()
    kind = "layer" if CASES[case][1] == "layer" else "rms"
    for i, attribution in enumerate(explainer(session)):
        readout = network.head.weight[int(session.targets[i])].detach().numpy()
        score, relevance, lost = twin.propagate(tokens[i], network.spelt(), readout, kind, hold)
        assert attribution.visual is not None
        np.testing.assert_allclose(attribution.visual.ravel(), relevance.sum(1), rtol=1e-5, atol=1e-7 * abs(score))
        assert attribution.notes["score"] == pytest.approx(score)
        assert attribution.notes["leak"] == pytest.approx(lost, rel=1e-6, abs=1e-9)
        assert attribution.notes["absorbed"] == pytest.approx(0.0, abs=1e-6 * max(1.0, abs(score)))
    assert (session.cost.traces, session.cost.backwards) == (1, 1)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 9999),
    layers=st.integers(1, 3),
    norm=st.sampled_from(["layer", "rms", "spelt"]),
    gated=st.booleans(),
    heads=st.sampled_from([(2, 2), (4, 2), (4, 1)]),
    fused=st.booleans(),
)
def test_conservation(seed: int, layers: int, norm: str, gated: bool, heads: tuple[int, int], fused: bool) -> None:
    """cplrp: pixels have the score, to 1e-6. attnlrp: what is missing is what its softmax rule says is lost."""
    session = session_of(Network(layers, norm, gated, *heads, fused, seed))
    for held, plain in zip(CpLrp()(session), AttnLrp()(session), strict=True):
        score = held.notes["score"]
        assert held.visual is not None
        assert plain.visual is not None
        assert held.visual.sum() == pytest.approx(score, rel=1e-6, abs=1e-9)
        assert held.notes["leak"] == 0
        assert plain.visual.sum() + plain.notes["leak"] == pytest.approx(score, rel=1e-6, abs=1e-8)


def test_attnlrp_does_leak() -> None:
    leaks = [
        abs(a.notes["leak"] / a.notes["score"]) for a in AttnLrp()(session_of(Network(*CASES["layer norm, gelu"])))
    ]
    assert min(leaks) > 0.01


def test_vision_language_models_conserve_from_the_vision_tower_on() -> None:
    processor = make_processor()
    model = vlm(make_module(processor, decoder=(3, 32)).double(), processor, name="tiny")
    rng = np.random.default_rng(0)
    texts = ("how many red circles are left of blue squares ?", "how many ?")
    samples = [Sample(f"s{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), t) for i, t in enumerate(texts)]
    session = Session(model, samples, ["twenty one", "no"])
    for explainer in (CpLrp("vision.last"), AttnLrp("vision.last")):
        for attribution, sample in zip(explainer(session), samples, strict=True):
            assert attribution.words is not None
            assert len(attribution.words) == len(sample.words)
            notes = attribution.notes
            assert notes["absorbed"] == pytest.approx(0, abs=1e-4 * abs(notes["score"]))  # its biases start at 0
            assert attribution.space == "patch"
    alone = CpLrp()(session.only(1))[0]
    np.testing.assert_allclose(alone.visual, CpLrp()(session)[1].visual, rtol=1e-4, atol=1e-9)

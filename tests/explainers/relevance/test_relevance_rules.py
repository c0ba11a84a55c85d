"""AttnLRP and CP-LRP against explicit matrices, and what they must conserve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from karat.explainers.relevance import AttnLrp, CpLrp
from karat.explainers.relevance.rules import Propagation
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.models.vlm import vlm
from karat.probe import Session
from tests.models.tiny_llava import make_module, make_processor
from tests.twins import relevance_rules as twin


class Attention(nn.Module):
    """Bias-free attention with shared key heads; fused, or spelt out."""

    def __init__(self, width: int, heads: int, key_heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.key_heads, self.fused = heads, key_heads, fused
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width * key_heads // heads, bias=False)
        self.v = nn.Linear(width, width * key_heads // heads, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = (f(x).view(n, length, -1, width // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.fused:
            out = functional.scaled_dot_product_attention(q, k, v, enable_gqa=self.heads != self.key_heads)
        else:
            k, v = (t.repeat_interleave(self.heads // self.key_heads, 1) for t in (k, v))
            out = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1) @ v
        return self.o(out.transpose(1, 2).reshape(n, length, width))


class SpeltNorm(nn.Module):
    """A root-mean-square norm as transformers write it."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class Network(nn.Module):
    """Pixels (n, 3, 4·rows, 4·columns) to scores, without a single bias: patches, layers, mean, head."""

    def __init__(
        self, layers: int, norm: str, gated: bool, heads: int, key_heads: int, fused: bool, seed: int = 0
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        width = 8
        self.gated = gated

        def made() -> nn.Module:
            if norm == "layer":
                return nn.LayerNorm(width, elementwise_affine=False)
            return nn.RMSNorm(width, 1e-5, elementwise_affine=False) if norm == "rms" else SpeltNorm()

        self.embed = nn.Conv2d(3, width, 4, 4, bias=False)
        self.attention = nn.ModuleList(Attention(width, heads, key_heads, fused) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 12, bias=False) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(width, 12, bias=False) for _ in range(layers if gated else 0))
        self.down = nn.ModuleList(nn.Linear(12, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(made() for _ in range(2 * layers + 1))
        self.head = nn.Linear(width, 3, bias=False)
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.5)
        self.double()

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.embed(pixels).flatten(2).transpose(1, 2)
        for k, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * k](x))
            h = self.norms[2 * k + 1](x)
            inner = functional.silu(self.gate[k](h)) * self.up[k](h) if self.gated else functional.gelu(self.up[k](h))
            x = x + self.down[k](inner)
        return self.head(self.norms[-1](x).mean(1))

    def spelt(self) -> list[twin.Layer]:
        def w(part: Any) -> Any:
            return part.weight.detach().numpy().T

        return [
            twin.Layer(
                q=w(a.q),
                k=w(a.k),
                v=w(a.v),
                o=w(a.o),
                gate=w(self.gate[k]) if self.gated else None,
                up=w(self.up[k]),
                down=w(self.down[k]),
                heads=a.heads,
                key_heads=a.key_heads,
            )
            for k, a in enumerate(self.attention)
        ]


def asked(network: nn.Module, n: int = 2) -> Session:
    rng = np.random.default_rng(1)
    samples = [Sample(f"s{i}", rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)) for i in range(n)]
    return Session(classifier(network, Preprocessing((8, 12))), samples, ["2", "0"][:n])


CASES = {
    "layer norm, gelu": (2, "layer", False, 2, 2, True),
    "spelt norm, gated, shared keys": (2, "spelt", True, 4, 2, True),
    "rms norm, gated, explicit attention": (2, "rms", True, 2, 1, False),
    "three layers, explicit": (3, "layer", False, 2, 2, False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("hold", [False, True], ids=["attnlrp", "cplrp"])
def test_explainers_equal_explicit_shares(case: str, hold: bool) -> None:
    network = Network(*CASES[case])
    session = asked(network)
    explainer = CpLrp("embed") if hold else AttnLrp("embed")
    with torch.no_grad():
        tokens = network.embed(session.inputs.pixels).flatten(2).transpose(1, 2).numpy()
    kind = "layer" if CASES[case][1] == "layer" else "rms"
    for i, found in enumerate(explainer(session)):
        readout = network.head.weight[int(session.targets[i])].detach().numpy()
        score, relevance, lost = twin.propagate(tokens[i], network.spelt(), readout, kind, hold)
        assert found.visual is not None
        np.testing.assert_allclose(found.visual.ravel(), relevance.sum(1), rtol=1e-5, atol=1e-7 * abs(score))
        assert found.notes["score"] == pytest.approx(score)
        assert found.notes["leak"] == pytest.approx(lost, rel=1e-6, abs=1e-9)
        assert found.notes["absorbed"] == pytest.approx(0.0, abs=1e-6 * max(1.0, abs(score)))
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
    session = asked(Network(layers, norm, gated, *heads, fused, seed))
    for held, plain in zip(CpLrp()(session), AttnLrp()(session), strict=True):
        score = held.notes["score"]
        assert held.visual is not None
        assert plain.visual is not None
        assert held.visual.sum() == pytest.approx(score, rel=1e-6, abs=1e-9)
        assert held.notes["leak"] == 0
        assert plain.visual.sum() + plain.notes["leak"] == pytest.approx(score, rel=1e-6, abs=1e-8)


def test_attnlrp_does_leak() -> None:
    leaks = [abs(a.notes["leak"] / a.notes["score"]) for a in AttnLrp()(asked(Network(*CASES["layer norm, gelu"])))]
    assert min(leaks) > 0.01


def test_fused_and_spelt_out_attention_agree() -> None:
    for explainer in (AttnLrp(), CpLrp()):
        one = explainer(asked(Network(2, "rms", True, 4, 2, True)))
        other = explainer(asked(Network(2, "rms", True, 4, 2, False)))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.visual, b.visual, rtol=1e-6, atol=1e-10)
            assert a.notes["leak"] == pytest.approx(b.notes["leak"], abs=1e-9)


@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_gamma_rule_equals_explicit_shares(gamma: float) -> None:
    """A linear map and a convolution of pixels, against contributions spelt out; then no bias, so all is conserved."""

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.two = nn.Linear(3 * 8 * 12, 6, bias=False), nn.Linear(6, 3, bias=False)
            self.double()

        def forward(self, pixels: Tensor) -> Tensor:
            return self.two(self.one(pixels.flatten(1)))

    network = Linear()
    session = asked(network)
    inner = network.one(session.inputs.pixels.flatten(1)).detach().numpy()
    for i, found in enumerate(CpLrp(gammas=(0.0, gamma))(session)):
        target = int(session.targets[i])
        at_output = np.zeros((1, 3))
        at_output[0, target] = found.notes["score"]
        weights = [part.weight.detach().numpy().T for part in (network.one, network.two)]
        relevance = twin.gamma_linear(inner[i : i + 1], weights[1], at_output, gamma)
        pixels = session.inputs.pixels[i].flatten()[None].numpy()
        relevance = twin.gamma_linear(pixels, weights[0], relevance, gamma).reshape(3, 8, 12).sum(0)
        np.testing.assert_allclose(found.visual, relevance, rtol=1e-6, atol=1e-9)


def test_gamma_on_convolutions_conserves_and_bounds() -> None:
    network = Network(*CASES["layer norm, gelu"])
    for found in CpLrp(gammas=(0.25, 0.05))(asked(network)):
        assert found.visual is not None
        assert found.visual.sum() == pytest.approx(found.notes["score"], rel=1e-6)
    plain, calm = CpLrp()(asked(network))[0], CpLrp(gammas=(0.25, 0.05))(asked(network))[0]
    assert np.abs(plain.visual - calm.visual).max() > 1e-3 * np.abs(plain.visual).max()


def test_gamma_survives_outputs_that_cancel() -> None:
    """Contributions that cancel exactly give an output of 0, by which plain shares would divide."""

    class Cancels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 4, 4, bias=False)
            with torch.no_grad():
                self.conv.weight.copy_(torch.tensor([1.0, -1.0, 0.0]).view(1, 3, 1, 1).expand_as(self.conv.weight))
            self.head = nn.Linear(12, 3)

        def forward(self, pixels: Tensor) -> Tensor:
            return self.head(self.conv(pixels).flatten(1))

    grey = Sample("grey", np.full((8, 12, 3), 90, dtype=np.uint8))
    model = classifier(Cancels(), Preprocessing((8, 12), mean=(0.5,) * 3, std=(0.5,) * 3))
    [found] = CpLrp(gammas=(0.25, 0.05))(Session(model, [grey], ["1"]))
    assert found.visual is not None
    assert np.isfinite(found.visual).all()
    with pytest.raises(BadInput, match="gammas are 0 or more"):
        CpLrp(gammas=(-1.0, 0.0))(Session(model, [grey], ["1"]))


def _decoder(kind: str, implementation: str) -> Any:
    import transformers

    sizes = {
        "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 32, "initializer_range": 0.3,
    }  # fmt: skip
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = getattr(transformers, f"{kind}ForCausalLM")._from_config(config, attn_implementation=implementation)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(False)
        if name.endswith("bias"):
            parameter.zero_()
    return model.double().eval()


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3", "Mistral"])
def test_decoders_of_transformers(kind: str) -> None:
    """Eager and fused attention give the same relevance; embeddings have the logit, less what the softmaxes lose."""
    tokens = torch.arange(14).reshape(2, 7)
    for hold in (True, False):
        maps = []
        for implementation in ("eager", "sdpa"):
            model = _decoder(kind, implementation)
            embedded = model.get_input_embeddings()(tokens).detach().requires_grad_()
            with Propagation(model, 2, hold) as rules:
                logits = model(inputs_embeds=embedded).logits[:, -1, 3]
            [slope] = torch.autograd.grad(logits.sum(), embedded)
            relevance = (embedded * slope).sum(-1).detach()
            # its norms work in float32, whatever the model does
            torch.testing.assert_close(relevance.sum(1) + rules.tally.lost, logits.detach(), rtol=1e-5, atol=1e-5)
            assert bool((rules.tally.lost == 0).all()) == hold
            maps.append(relevance)
        torch.testing.assert_close(*maps, rtol=1e-4, atol=1e-6)


def test_vision_language_models_conserve_from_the_vision_tower_on() -> None:
    processor = make_processor()
    model = vlm(make_module(processor, decoder=(3, 32)).double(), processor, name="tiny")
    rng = np.random.default_rng(0)
    texts = ("how many red circles are left of blue squares ?", "how many ?")
    samples = [Sample(f"s{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), t) for i, t in enumerate(texts)]
    session = Session(model, samples, ["twenty one", "no"])
    for explainer in (CpLrp("vision.last"), AttnLrp("vision.last")):
        for found, sample in zip(explainer(session), samples, strict=True):
            assert found.words is not None
            assert len(found.words) == len(sample.words)
            notes = found.notes
            assert notes["absorbed"] == pytest.approx(0, abs=1e-4 * abs(notes["score"]))  # its biases start at 0
            assert found.space == "patch"
    alone = CpLrp()(session.only(1))[0]
    np.testing.assert_allclose(alone.visual, CpLrp()(session)[1].visual, rtol=1e-4, atol=1e-9)


def test_the_model_is_as_it_was() -> None:
    network = Network(*CASES["layer norm, gelu"])
    session = asked(network)
    with torch.no_grad():
        before = network(session.inputs.pixels)
    AttnLrp()(session)
    with pytest.raises(RuntimeError, match="stop"), Propagation(network, 2, True):
        raise RuntimeError("stop")
    with torch.no_grad():
        assert bool((network(session.inputs.pixels) == before).all())
    assert all(not part._forward_hooks and not part._forward_pre_hooks for part in network.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in network.parameters())
    plain = torch.autograd.grad(network(session.inputs.pixels.requires_grad_())[:, 0].sum(), session.inputs.pixels)
    assert bool(plain[0].isfinite().all())

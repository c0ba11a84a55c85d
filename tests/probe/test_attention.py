"""Attention maps and their gradients against modules that spell attention out, whole and in factored form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from karat.kernel.errors import BadInput
from karat.probe import trace
from karat.probe.attention import AttentionWatch, Heads

WHOLE, PARTS = {"attention", "attention_gradients"}, {"heads", "head_gradients"}


class Attention(nn.Module):
    """One head over (n, tokens, width), fused or spelt out."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.fused = fused
        self.weights: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        if self.fused:
            return functional.scaled_dot_product_attention(q, k, v)[:, 0]
        self.weights = torch.exp(q @ k.transpose(-2, -1) / 8**0.5)
        self.weights = self.weights / self.weights.sum(-1, keepdim=True)
        return (self.weights @ v)[:, 0]


class Network(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.blocks = nn.ModuleList([Attention(fused) for _ in range(3)])
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            tokens = tokens + block(tokens)
        return self.head(tokens.mean(1))


@pytest.fixture
def pixels() -> Tensor:
    return torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(1))


def test_maps_and_gradients_equal_those_of_a_spelt_out_twin(pixels: Tensor) -> None:
    fused, twin = Network(True), Network(False)
    logits = twin(pixels)
    maps = [block.weights for block in twin.blocks]
    grads = torch.autograd.grad(logits[[0, 1], [2, 3]].sum(), maps)
    with trace(fused, pixels, [2, 3], want=WHOLE) as recording:
        assert list(recording.attention) == [f"blocks.{k}" for k in range(3)]
        for k in range(3):
            torch.testing.assert_close(recording.attention[f"blocks.{k}"], maps[k])
            torch.testing.assert_close(recording.attention_gradients[f"blocks.{k}"], grads[k])
        torch.testing.assert_close(recording.scores, logits[[0, 1], [2, 3]])


def test_layers_nobody_asked_for_keep_their_kernel(pixels: Tensor) -> None:
    with trace(Network(True), pixels, [2, 3], want={"attention"}, attention_layers=["blocks.1"]) as recording:
        assert list(recording.attention) == ["blocks.1"]
        assert recording.backwards == 0


def test_torchs_own_multi_head_attention(pixels: Tensor) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.TransformerEncoderLayer(12, 3, 16, batch_first=True), nn.Flatten(), nn.Linear(96, 4)
    ).eval()
    tokens = pixels.reshape(2, -1)[:, :96].reshape(2, 8, 12)
    layer = module[0]
    expected = layer.self_attn(tokens, tokens, tokens, need_weights=True, average_attn_weights=False)[1]
    with trace(module, tokens, [0, 1], want=WHOLE) as recording:
        torch.testing.assert_close(recording.attention["0.self_attn"], expected)
        torch.testing.assert_close(recording.scores, module(tokens)[[0, 1], [0, 1]])
        gradient = recording.attention_gradients["0.self_attn"]
    # The direction in which one weight moves changes the score as its gradient says.
    assert gradient.shape == expected.shape
    assert gradient.abs().sum() > 0
    averaged = layer.self_attn(tokens, tokens, tokens, need_weights=True)[1]
    with AttentionWatch(module, ["0.self_attn"]) as watch:
        torch.testing.assert_close(layer.self_attn(tokens, tokens, tokens, need_weights=True)[1], averaged)
    assert set(watch.maps) == {"0.self_attn"}
    assert functional.scaled_dot_product_attention is torch.nn.functional.scaled_dot_product_attention


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999),
    heads=st.sampled_from([(2, 2), (4, 2), (4, 1)]),
    mask=st.sampled_from(["none", "causal", "bool", "float"]),
    scale=st.sampled_from([None, 0.3]),
)
def test_plain_arithmetic_equals_the_fused_kernel(
    seed: int, heads: tuple[int, int], mask: str, scale: float | None
) -> None:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(2, heads[0], 5, 4, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, 2, heads[1], 5, 4, generator=generator, dtype=torch.float64)
    given_mask = {
        "none": None,
        "causal": None,
        "bool": torch.rand(2, 1, 5, 5, generator=generator) < 0.5,
        "float": torch.randn(5, 5, generator=generator, dtype=torch.float64),
    }[mask]
    options = {
        "attn_mask": given_mask,
        "is_causal": mask == "causal",
        "scale": scale,
        "enable_gqa": heads[0] != heads[1],
    }
    expected = functional.scaled_dot_product_attention(q, k, v, **options)
    watch = AttentionWatch(nn.Identity(), [])
    watch._inside.append("here")
    torch.testing.assert_close(watch._attend(q, k, v, **options), expected)
    rows = watch.maps["here"].sum(-1)
    assert bool(((rows - 1).abs() < 1e-9).logical_or(rows == 0).all())


def test_two_softmaxes_in_one_module_are_refused(pixels: Tensor) -> None:
    class TwoAttention(Attention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(super().forward(x))

    module = Network(True)
    module.blocks[1] = TwoAttention(True)
    with (
        pytest.raises(BadInput, match=r"blocks\.1 .* more than one softmax"),
        trace(module, pixels, [0, 1], want=WHOLE),
    ):
        pass
    with trace(module, pixels, [0, 1], want=WHOLE, attention_layers=["blocks.0"]) as recording:
        assert len(recording.attention) == 1


def test_modules_without_attention_are_named(pixels: Tensor) -> None:
    with (
        pytest.raises(BadInput, match=r"no attention map was computed in head \(Linear\)"),
        trace(Network(True), pixels, [0, 1], want={"attention"}, attention_layers=["head"]),
    ):
        pass


def test_hidden_kernels_are_switched_to_eager_and_back(pixels: Tensor) -> None:
    class Config:
        _attn_implementation = "flash_attention_2"

    class Hidden(Network):
        def __init__(self) -> None:
            super().__init__(True)
            self.config = Config()
            self.switches: list[str] = []

        def set_attn_implementation(self, name: str) -> None:
            self.switches.append(name)

    module = Hidden()
    with trace(module, pixels, [0, 1], want={"attention"}):
        assert module.switches == ["eager", "flash_attention_2"]
    with pytest.raises(RuntimeError), trace(module, pixels[:, :1], [0, 1], want={"attention"}):
        pass
    assert module.switches == ["eager", "flash_attention_2"] * 2


class FusedAttention(nn.Module):
    """(n, tokens, 8), four heads, two of keys; a mask of any kind."""

    def __init__(self, mask: str, spelt: bool = False) -> None:
        super().__init__()
        self.q, self.kv, self.mask, self.spelt = nn.Linear(8, 8), nn.Linear(8, 8), mask, spelt

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        q = self.q(x).view(n, length, 4, 2).transpose(1, 2)
        k, v = self.kv(x).view(n, length, 4, 2).transpose(1, 2).chunk(2, 1)
        allowed = torch.arange(length) != 1
        biases = torch.where(allowed, 0.3, -torch.inf)
        mask = {"bool": allowed.expand(n, 1, length, length), "bias": biases.expand(length, length)}.get(self.mask)
        if self.spelt:
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            out = (q @ k.transpose(-1, -2) / 2**0.5).softmax(-1) @ v
        else:
            causal = self.mask == "causal"
            out = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=True)
        return out.transpose(1, 2).reshape(n, length, 8)


class Stack(nn.Module):
    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 4)
        self.blocks = nn.ModuleList([make(), make()])

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            out: Any = block(tokens, tokens, tokens)[0] if isinstance(block, nn.MultiheadAttention) else block(tokens)
            tokens = tokens + out
        return self.head(tokens[:, -1])


MODULES: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: FusedAttention("none"),
    "causal": lambda: FusedAttention("causal"),
    "bool": lambda: FusedAttention("bool"),
    "bias": lambda: FusedAttention("bias"),
    "spelt out": lambda: FusedAttention("none", spelt=True),
    "torch's own": lambda: nn.MultiheadAttention(8, 2, batch_first=True),
}


@pytest.mark.parametrize("kind", MODULES)
def test_formed_maps_equal_kept_ones(kind: str, pixels: Tensor) -> None:
    module = Stack(MODULES[kind])
    with trace(module, pixels, [2, 3], want=WHOLE) as recording:
        maps, slopes = dict(recording.attention.items()), dict(recording.attention_gradients.items())
    expected = module(pixels)[[0, 1], [2, 3]]
    for want in (PARTS, PARTS | WHOLE):
        with trace(module, pixels, [2, 3], want=want) as recording:
            torch.testing.assert_close(recording.scores, expected)
            assert list(recording.heads) == ["blocks.0", "blocks.1"]
            for name, part in recording.heads.items():
                torch.testing.assert_close(part.weights(), maps[name])
                torch.testing.assert_close(part.slopes(), slopes[name], atol=1e-6, rtol=1e-4)
                rows = torch.tensor([4, 1])
                torch.testing.assert_close(part.weights(rows), maps[name][..., rows, :])
                torch.testing.assert_close(part.slopes(rows), slopes[name][..., rows, :], atol=1e-6, rtol=1e-4)
            assert bool(recording.attention) == (want != PARTS)
        assert not recording.heads


def test_kernels_stay_fused(pixels: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody forms a map while only the parts are wanted."""

    def forbidden(*_: Any) -> Tensor:
        raise AssertionError("a map was formed")

    monkeypatch.setattr(AttentionWatch, "_spelt_out", forbidden)
    with trace(Stack(MODULES["causal"]), pixels, [0, 1], want=PARTS) as recording:
        assert len(recording.heads) == 2
    with (
        pytest.raises(AssertionError, match="a map was formed"),
        trace(Stack(MODULES["causal"]), pixels, [0, 1], want=WHOLE),
    ):
        pass


def test_gradients_must_have_been_asked_for(pixels: Tensor) -> None:
    with trace(Stack(MODULES["plain"]), pixels, [0, 1], want={"heads"}) as recording:
        assert recording.backwards == 0
        with pytest.raises(BadInput, match="ask for `head_gradients`"):
            recording.heads["blocks.0"].slopes()


def test_everything_stays_differentiable_with_create_graph(pixels: Tensor) -> None:
    module = Stack(MODULES["plain"])
    with trace(module, pixels, [2, 3], want=PARTS, create_graph=True) as recording:
        mass = (recording.heads["blocks.0"].weights() * recording.heads["blocks.0"].slopes()).abs().sum()
        assert torch.autograd.grad(mass, module.embed.weight)[0].abs().sum() > 0


def test_attention_that_adds_up_has_heads_too(pixels: Tensor) -> None:
    class SumAttention(FusedAttention):
        def forward(self, x: Tensor) -> Tensor:
            q, v = self.q(x)[:, None], self.kv(x)[:, None]
            return (torch.sigmoid(q @ q.transpose(-1, -2)) @ v)[:, 0]

    module = Stack(lambda: SumAttention("none"))
    with trace(module, pixels, [2, 3], want=PARTS) as recording:
        weights = recording.heads["blocks.0"].weights()
        q = module.blocks[0].q(module.embed(pixels).flatten(2).transpose(1, 2))
        torch.testing.assert_close(weights[:, 0], torch.sigmoid(q @ q.transpose(-1, -2)).detach())


def test_runs_cover_all_rows_in_order() -> None:
    part = Heads(torch.zeros(2, 4, 1000, 8), torch.zeros(2, 4, 1000, 8), torch.zeros(2, 4, 1000, 8))
    runs = list(part.runs(torch.arange(1000)))
    assert torch.cat(runs).tolist() == list(range(1000))
    assert len(runs) > 1
    assert max(len(run) for run in runs) * 2 * 4 * 1000 <= 2**21

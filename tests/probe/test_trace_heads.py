"""Attention in factored form: maps and gradients formed from queries, keys and values equal those that were kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from karat.kernel.errors import BadInput
from karat.probe import trace
from karat.probe.attention import AttentionWatch, Heads

WHOLE, PARTS = {"attention", "attention_gradients"}, {"heads", "head_gradients"}


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


class Network(nn.Module):
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


@pytest.fixture
def pixels() -> Tensor:
    return torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", MODULES)
def test_formed_maps_equal_kept_ones(kind: str, pixels: Tensor) -> None:
    module = Network(MODULES[kind])
    with trace(module, pixels, [2, 3], want=WHOLE) as seen:
        maps, slopes = dict(seen.attention.items()), dict(seen.attention_gradients.items())
    expected = module(pixels)[[0, 1], [2, 3]]
    for want in (PARTS, PARTS | WHOLE):
        with trace(module, pixels, [2, 3], want=want) as seen:
            torch.testing.assert_close(seen.scores, expected)
            assert list(seen.heads) == ["blocks.0", "blocks.1"]
            for name, part in seen.heads.items():
                torch.testing.assert_close(part.weights(), maps[name])
                torch.testing.assert_close(part.slopes(), slopes[name], atol=1e-6, rtol=1e-4)
                rows = torch.tensor([4, 1])
                torch.testing.assert_close(part.weights(rows), maps[name][..., rows, :])
                torch.testing.assert_close(part.slopes(rows), slopes[name][..., rows, :], atol=1e-6, rtol=1e-4)
            assert bool(seen.attention) == (want != PARTS)
        assert not seen.heads


def test_kernels_stay_fused(pixels: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody forms a map while only the parts are wanted."""

    def forbidden(*_: Any) -> Tensor:
        raise AssertionError("a map was formed")

    monkeypatch.setattr(AttentionWatch, "_spelt_out", forbidden)
    with trace(Network(MODULES["causal"]), pixels, [0, 1], want=PARTS) as seen:
        assert len(seen.heads) == 2
    with (
        pytest.raises(AssertionError, match="a map was formed"),
        trace(Network(MODULES["causal"]), pixels, [0, 1], want=WHOLE),
    ):
        pass


def test_gradients_must_have_been_asked_for(pixels: Tensor) -> None:
    with trace(Network(MODULES["plain"]), pixels, [0, 1], want={"heads"}) as seen:
        assert seen.backwards == 0
        with pytest.raises(BadInput, match="ask for `head_gradients`"):
            seen.heads["blocks.0"].slopes()


def test_everything_stays_differentiable_with_create_graph(pixels: Tensor) -> None:
    module = Network(MODULES["plain"])
    with trace(module, pixels, [2, 3], want=PARTS, create_graph=True) as seen:
        mass = (seen.heads["blocks.0"].weights() * seen.heads["blocks.0"].slopes()).abs().sum()
        assert torch.autograd.grad(mass, module.embed.weight)[0].abs().sum() > 0


def test_attention_that_adds_up_has_heads_too(pixels: Tensor) -> None:
    class SumAttention(FusedAttention):
        def forward(self, x: Tensor) -> Tensor:
            q, v = self.q(x)[:, None], self.kv(x)[:, None]
            return (torch.sigmoid(q @ q.transpose(-1, -2)) @ v)[:, 0]

    module = Network(lambda: SumAttention("none"))
    with trace(module, pixels, [2, 3], want=PARTS) as seen:
        weights = seen.heads["blocks.0"].weights()
        q = module.blocks[0].q(module.embed(pixels).flatten(2).transpose(1, 2))
        torch.testing.assert_close(weights[:, 0], torch.sigmoid(q @ q.transpose(-1, -2)).detach())


def test_runs_cover_all_rows_in_order() -> None:
    part = Heads(torch.zeros(2, 4, 1000, 8), torch.zeros(2, 4, 1000, 8), torch.zeros(2, 4, 1000, 8))
    runs = list(part.runs(torch.arange(1000)))
    assert torch.cat(runs).tolist() == list(range(1000))
    assert len(runs) > 1
    assert max(len(run) for run in runs) * 2 * 4 * 1000 <= 2**21

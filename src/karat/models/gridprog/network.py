"""The network: plain PyTorch modules, shapes only. What the weights say is written in `heads` and `answers`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Vision(nn.Module):
    """Pixels (n, 3, H, W) to glyph evidence (n, glyphs, S, S): pool, match templates, let them compete.

    The competition is a softmax over the glyphs and "none of them", whose score is fixed; evidence lies in [0, 1] and
    sums to at most 1 in a cell.
    """

    def __init__(self, glyphs: int, pool: int, window: int, gain: float, threshold: float) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(pool)
        self.templates = nn.Conv2d(3, glyphs, window, stride=window, bias=False)
        self.gain = gain
        self.threshold = threshold

    def forward(self, pixels: Tensor) -> Tensor:
        matches = self.templates(self.pool(pixels))
        none = torch.full_like(matches[:, :1], self.threshold)
        return torch.softmax(self.gain * torch.cat([none, matches], dim=1), dim=1)[:, 1:]


class Attention(nn.Module):
    """Self-attention with a fixed bias per head and pair of positions. The usual 1/sqrt(width) is in the weights.

    Returns (output (n, L, width), weights (n, heads, L, L)).
    """

    bias: Tensor

    def __init__(self, width: int, heads: int, match: int, carry: int, bias: Tensor) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, heads * match, bias=False)
        self.key = nn.Linear(width, heads * match, bias=False)
        self.value = nn.Linear(width, heads * carry, bias=False)
        self.out = nn.Linear(heads * carry, width, bias=False)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, length, _ = x.shape
        query, key, value = (
            layer(x).view(n, length, self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) + self.bias[:, :length, :length]
        weights = torch.softmax(scores, dim=-1)
        mixed = (weights @ value).transpose(1, 2).reshape(n, length, -1)
        return self.out(mixed), weights


class Mlp(nn.Module):
    """Sigmoid units between two linear maps."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, units, bias=False)
        self.down = nn.Linear(units, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.sigmoid(self.up(x)))


class Block(nn.Module):
    """x + attention(x), then each MLP in turn, added too. No normalisation: every direction keeps its meaning."""

    def __init__(self, attention: Attention, mlps: Sequence[Mlp]) -> None:
        super().__init__()
        self.attention = attention
        self.mlps = nn.ModuleList(mlps)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)[0]
        for mlp in self.mlps:
            x = x + mlp(x)
        return x


class AnswerHead(nn.Module):
    """Readout state (n, width) to logits (n, answers): a thermometer code of counts, then gated units by task."""

    def __init__(self, width: int, marks: int, units: int, answers: int) -> None:
        super().__init__()
        self.thermometer = nn.Linear(width, marks, bias=False)
        self.gate = nn.Linear(width + marks, units, bias=False)
        self.up = nn.Linear(width + marks, units, bias=False)
        self.down = nn.Linear(units, answers, bias=False)

    def forward(self, state: Tensor) -> Tensor:
        state = torch.cat([state, torch.sigmoid(self.thermometer(state))], dim=-1)
        return self.down(torch.sigmoid(self.gate(state)) * self.up(state))


class Network(nn.Module):
    """One sequence [readout, null, cells, words] through the blocks; the answer is read at the readout."""

    def __init__(
        self,
        vision: Vision,
        see: nn.Linear,
        words: nn.Embedding,
        places: Tensor,
        blocks: Sequence[Block],
        answer: AnswerHead,
    ) -> None:
        super().__init__()
        self.vision = vision
        self.see = see
        self.words = words
        self.places = nn.Parameter(places)  # (L, width) what a position says by itself: kind, coordinates, order
        self.blocks = nn.ModuleList(blocks)
        self.answer = answer

    def look(self, pixels: Tensor) -> Tensor:
        """Cell tokens (n, cells, width), before they know where they are."""
        return self.see(self.vision(pixels).flatten(2).transpose(1, 2))

    def read(self, cells: Tensor, tokens: Tensor) -> Tensor:
        """Logits (n, answers) from cell tokens and word tokens (n, T)."""
        words = self.words(tokens)
        first = cells.new_zeros(len(cells), 2, cells.shape[-1])
        x = torch.cat([first, cells, words], dim=1)
        x = x + self.places[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.answer(x[:, 0])

    def forward(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        return self.read(self.look(pixels), tokens)

"""The network of `gridnet`: MDETR's design at a size that two CPU cores can train.

    image (3, 96, 96) ── convolutions ──▶ 36 cells ─┐
    question ── text encoder ──▶ words ─────────────┼─▶ joint encoder over [answer, cells, words] ──▶ QA heads
                                       answer token ┘                       └─▶ object queries ──▶ boxes, phrases

Letters: n samples, T word positions, L = 1 + 36 + T places of the joint sequence, Q object queries, d width.

Departure from MDETR: its answers are read from extra decoder queries; here an answer token runs through the joint
encoder, so that one stack of attention leads from cells and words to the answer, and the decoder need not run to
answer. The last layer adds up instead of averaging (sigmoid weights, no softmax), because counting is a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes. Everything that decides the names and shapes of the weights is here, and is stored with them."""

    vocabulary: int
    answer_types: tuple[int, ...]  # how many answers each question type has: yes/no, directions, counts
    roles: int
    word_roles: int
    relations: int = 4  # at most so many anchors in a question
    grid: int = 6
    cell: int = 16
    words: int = 32
    width: int = 128
    heads: int = 4
    hidden: int = 256
    text_layers: int = 1
    joint_layers: int = 5
    queries: int = 20
    align: int = 64


class Encoded(NamedTuple):
    """What the joint encoder leaves behind; `middle` is the joint sequence two layers before the end."""

    answer: Tensor  # (n, d)
    cells: Tensor  # (n, grid*grid, d)
    words: Tensor  # (n, T, d)
    middle_cells: Tensor  # (n, grid*grid, d)
    read_words: Tensor  # (n, T, d), straight out of the text encoder
    keep: Tensor  # (n, T)


class Answers(NamedTuple):
    """Logits of the question type (n, types) and of the answers within each type."""

    type: Tensor
    values: tuple[Tensor, ...]

    def log_probabilities(self) -> Tensor:
        """(n, answers) log P(type) + log P(answer | type), in the grid world's order: yes/no, directions, counts."""
        types = F.log_softmax(self.type, dim=-1)
        parts = [types[:, i : i + 1] + F.log_softmax(v, dim=-1) for i, v in enumerate(self.values)]
        return torch.cat(parts, dim=-1)

    def logits(self) -> Tensor:
        """(n, answers) raw scores: the type's logit plus the answer's."""
        return torch.cat([self.type[:, i : i + 1] + v for i, v in enumerate(self.values)], dim=-1)


class Found(NamedTuple):
    """What the object queries say: boxes (n, Q, 4) as centre and size in [0, 1]; phrases (n, Q, words + 1) logits
    over word positions, the last one for "no object"; queries and words in the space where they are aligned."""

    boxes: Tensor
    phrases: Tensor
    queries: Tensor  # (n, Q, align), unit length
    words: Tensor  # (n, T, align), unit length


class Attention(nn.Module):
    """Multi-head attention that returns its output and its weights (n, heads, places, sources)."""

    def __init__(self, width: int, heads: int, adds: bool = False) -> None:
        super().__init__()
        self.heads, self.adds = heads, adds
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        # A sum over dozens of places starts small, so that the residual stream is not drowned at step 0.
        self.bias = nn.Parameter(torch.full((heads, 1, 1), -3.0)) if adds else None

    def forward(self, x: Tensor, source: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        n, places, width = x.shape
        size = width // self.heads
        q = self.query(x).view(n, places, self.heads, size).transpose(1, 2)
        k = self.key(source).view(n, -1, self.heads, size).transpose(1, 2)
        v = self.value(source).view(n, -1, self.heads, size).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) * size**-0.5
        if self.bias is not None:
            weights = torch.sigmoid(scores + self.bias) * keep[:, None, None, :].to(scores.dtype)
        else:
            weights = scores.masked_fill(~keep[:, None, None, :], float("-inf")).softmax(dim=-1)
            # Where nothing is kept (a question without words) there is nothing to look at: weights of 0, not NaN.
            weights = torch.where(keep.any(dim=-1)[:, None, None, None], weights, torch.zeros_like(weights))
        mixed = (weights @ v).transpose(1, 2).reshape(n, places, width)
        return self.out(mixed), weights


class Block(nn.Module):
    """Pre-norm transformer layer over one sequence."""

    def __init__(self, shape: Shape, adds: bool = False) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape.width, shape.heads, adds)
        self.norm2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, shape.hidden)
        self.down = nn.Linear(shape.hidden, shape.width)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        normal = self.norm1(x)
        x = x + self.attention(normal, normal, keep)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Backbone(nn.Module):
    """Three overlapping convolutions, 16 pixels to one place a cell: (n, 3, 96, 96) to (n, d, 6, 6)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, kernel_size=4, stride=4)
        self.middle = nn.Conv2d(32, 64, kernel_size=3, stride=2, padding=1)
        self.last = nn.Conv2d(64, width, kernel_size=3, stride=2, padding=1)

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.relu(self.last(torch.relu(self.middle(torch.relu(self.stem(pixels))))))


class Decoder(nn.Module):
    """Object queries: each looks at the other queries, then at the joint memory, and names a box and its phrase."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.queries = nn.Parameter(torch.randn(shape.queries, width) * 0.5)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.self_attention = Attention(width, shape.heads)
        self.cross_attention = Attention(width, shape.heads)
        self.up = nn.Linear(width, shape.hidden)
        self.down = nn.Linear(shape.hidden, width)
        self.box = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.phrase = nn.Linear(width, shape.words + 1)
        self.align_query = nn.Linear(width, shape.align)
        self.align_word = nn.Linear(width, shape.align)

    def forward(self, encoded: Encoded) -> Found:
        n = len(encoded.cells)
        memory = torch.cat([encoded.cells, encoded.words], dim=1)
        visible = torch.cat([encoded.keep.new_ones(n, encoded.cells.shape[1]), encoded.keep], dim=1)
        x = self.queries.expand(n, -1, -1)
        normal = self.norm1(x)
        x = x + self.self_attention(normal, normal, encoded.keep.new_ones(n, x.shape[1]))[0]
        x = x + self.cross_attention(self.norm2(x), memory, visible)[0]
        x = x + self.down(F.gelu(self.up(self.norm3(x))))
        return Found(
            boxes=self.box(x).sigmoid(),
            phrases=self.phrase(x),
            queries=F.normalize(self.align_query(x), dim=-1),
            words=F.normalize(self.align_word(encoded.words), dim=-1),
        )


class GridNetwork(nn.Module):
    """Pixels (n, 3, 96, 96) and tokens (n, T) to `Answers`; `keep` (n, T) is False at padding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width = shape.width
        self.backbone = Backbone(width)
        self.row = nn.Parameter(torch.randn(shape.grid, 1, width) * 0.5)
        self.column = nn.Parameter(torch.randn(1, shape.grid, width) * 0.5)
        self.cell_norm = nn.LayerNorm(width)
        self.word = nn.Embedding(shape.vocabulary, width)
        self.place = nn.Parameter(torch.randn(shape.words, width) * 0.5)
        self.text = nn.ModuleList(Block(shape) for _ in range(shape.text_layers))
        self.answer = nn.Parameter(torch.randn(width) * 0.5)
        self.joint = nn.ModuleList(Block(shape, adds=i == shape.joint_layers - 1) for i in range(shape.joint_layers))
        self.norm = nn.LayerNorm(width)
        self.decoder = Decoder(shape)
        self.question_type = nn.Linear(width, len(shape.answer_types))
        self.values = nn.ModuleList(nn.Linear(width, size) for size in shape.answer_types)
        # Grounding heads beside MDETR's: what a cell is to the question, and which relations hold at it.
        self.role = nn.Linear(width, shape.roles)
        self.middle_role = nn.Linear(width, shape.roles)
        self.region = nn.Linear(width, shape.relations)
        self.word_role = nn.Linear(width, shape.word_roles)

    def encode(self, pixels: Tensor, tokens: Tensor, keep: Tensor) -> Encoded:
        return self.read(self.look(pixels), tokens, keep)

    def look(self, pixels: Tensor) -> Tensor:
        """(n, cells, d) what the joint encoder gets of an image; the question has no part in it."""
        image = self.backbone(pixels).flatten(2).transpose(1, 2)
        return self.cell_norm(image) + (self.row + self.column).reshape(1, image.shape[1], -1)

    def read(self, image: Tensor, tokens: Tensor, keep: Tensor) -> Encoded:
        n, cells = image.shape[:2]
        words = self.word(tokens) + self.place[: tokens.shape[1]]
        for block in self.text:
            words = block(words, keep)
        read = words
        x = torch.cat([self.answer.expand(n, 1, -1), image, words], dim=1)
        visible = torch.cat([keep.new_ones(n, 1 + cells), keep], dim=1)
        middle = x
        for i, block in enumerate(self.joint):
            x = block(x, visible)
            if i == self.shape.joint_layers - 3:
                middle = x
        x = self.norm(x)
        return Encoded(x[:, 0], x[:, 1 : 1 + cells], x[:, 1 + cells :], middle[:, 1 : 1 + cells], read, keep)

    def forward(self, pixels: Tensor, tokens: Tensor, keep: Tensor) -> Answers:
        return self.answers(self.encode(pixels, tokens, keep))

    def answers(self, encoded: Encoded) -> Answers:
        return Answers(self.question_type(encoded.answer), tuple(head(encoded.answer) for head in self.values))

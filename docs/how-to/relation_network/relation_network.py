"""A model that somebody else trained, made to answer Karat: two Relation Networks for CLEVR (MIT, 0.5 M parameters each).

The network is written from its description (Santoro et al. 2017; github mesnico/RelationNetworks-CLEVR), so that the
published weights load strictly. `Adapter` is all that Karat asks of a torch model; `RelationNetworks` names it in a spec.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from karat import Card, Sample
from karat.kernel.identity import digest
from karat.kernel.target import TargetLike, whole_answer
from karat.models.torch_model import Inputs, Layout
from PIL import Image
from torch import Tensor, nn

SIDE, CELLS, WORDS = 128, 8, 128  # pixels the network takes, cells of its last map, width of the question's state


class Picture(nn.Module):
    """(n, 3, 128, 128) to (n, 24, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        for k, channels in enumerate((3, 24, 24, 24), start=1):
            self.add_module(f"conv{k}", nn.Conv2d(channels, 24, 3, stride=2, padding=1))
            self.add_module(f"batchNorm{k}", nn.BatchNorm2d(24))
        self.last = nn.Identity()  # a place to look at what comes out

    def forward(self, pixels: Tensor) -> Tensor:
        for k in range(1, 5):
            pixels = torch.relu(self.get_submodule(f"batchNorm{k}")(self.get_submodule(f"conv{k}")(pixels)))
        return self.last(pixels)


class Question(nn.Module):
    """(n, T) words to (n, 128): the last state of an LSTM that reads backwards."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.wembedding = nn.Embedding(words, 32)
        self.lstm = nn.LSTM(32, 128, batch_first=True)

    def forward(self, tokens: Tensor, keep: Tensor) -> Tensor:
        embedded, lengths = self.wembedding(tokens), keep.sum(1)
        places = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        backwards = (lengths[:, None] - 1 - places).clamp(min=0)
        turned = embedded.gather(1, backwards[..., None].expand_as(embedded))
        states, _ = self.lstm(turned)
        return states[torch.arange(len(tokens)), lengths - 1]


class Relations(nn.Module):
    """All pairs of cells through g, with the question from its layer `asked` on; their sum through f to 28 answers."""

    def __init__(self, asked: int) -> None:
        super().__init__()
        self.asked = asked
        wide = [2 * 26, 256, 256, 256]
        wide[asked] += 128
        self.g_layers = nn.ModuleList(nn.Linear(width, 256) for width in wide)
        self.f_fc1, self.f_fc2, self.f_fc3 = nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 28)

    def forward(self, cells: Tensor, question: Tensor) -> Tensor:
        """A layer of g is linear in each part of its input: cells and question are weighed before they are paired,
        64 rows and one instead of 4,096."""
        pairs = cells  # until the first layer has paired them
        for k, layer in enumerate(self.g_layers):
            weight, constant = layer.weight, layer.bias.expand(len(cells), 1, -1)
            if k == self.asked:
                weight, of_question = weight[:, :-WORDS], weight[:, -WORDS:]
                constant = constant + (question @ of_question.T)[:, None]
            if k == 0:
                first, second = (cells @ half.T for half in weight.chunk(2, 1))
                pairs = ((first + constant)[:, :, None] + second[:, None]).flatten(1, 2)  # (n, 4096, 256)
            else:
                pairs = torch.baddbmm(constant, pairs, weight.T.expand(len(cells), -1, -1))
            pairs = torch.relu_(pairs)
        state = torch.relu(self.f_fc2(torch.relu(self.f_fc1(pairs.sum(1)))))
        return self.f_fc3(state)


class RelationNetwork(nn.Module):
    def __init__(self, words: int, asked: int) -> None:
        super().__init__()
        self.conv, self.text, self.rl = Picture(), Question(words), Relations(asked)

    def forward(self, pixels: Tensor, tokens: Tensor, keep: Tensor) -> Tensor:
        cells = self.conv(pixels).flatten(2).transpose(1, 2)  # (n, 64, 24), row by row
        line = torch.linspace(-4, 4, CELLS)
        places = torch.stack([line.repeat(CELLS), line.repeat_interleave(CELLS)], 1)  # column first
        cells = torch.cat([cells, places.expand(len(cells), -1, -1)], -1)
        return self.rl(cells, self.text(tokens, keep))


@dataclass(frozen=True, eq=False)
class Adapter:
    """What Karat asks of a torch model: encode, a differentiable score, layers by role."""

    module: RelationNetwork
    words: Mapping[str, int]
    answers: Sequence[str]
    name: str
    mechanism: None = None
    neutral_token: int = 0  # padding stands for an absent word
    attention_layers: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset({"scores", "gradients", "activations", "text"})
    layers: Mapping[str, str] = field(default_factory=lambda: {"vision.last": "conv.last", "words": "text.wembedding"})

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        pictures = [Image.fromarray(s.image).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for s in samples]
        pixels = torch.from_numpy(np.stack([np.asarray(p) for p in pictures])).permute(0, 3, 1, 2) / 255
        texts = [s.text or "" for s in samples]
        spans = [s.words for s in samples]
        rows = [[self.number(text[a:b]) for a, b in own] for text, own in zip(texts, spans, strict=True)]
        longest = max(map(len, rows))
        tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        keep = torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in rows])
        words = tuple(tuple((j, j + 1) for j in range(len(row))) for row in rows)  # a word is a token
        return Inputs(pixels, tokens, keep, words)

    def number(self, word: str) -> int:
        try:
            return self.words[word.lower()]
        except KeyError:
            raise ValueError(f"{self.name} does not know the word {word!r}.") from None

    def logits(self, inputs: Inputs) -> Tensor:
        return self.module(inputs.pixels, inputs.tokens, inputs.token_keep)

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        return self.logits(inputs)[torch.arange(len(targets)), self._columns(targets)]

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        return self.logits(inputs).log_softmax(1)[torch.arange(len(targets)), self._columns(targets)]

    def _columns(self, targets: Sequence[TargetLike]) -> list[int]:
        return [self.answers.index(whole_answer(target, self.name)) for target in targets]

    def layout(self, inputs: Inputs) -> Layout:
        return Layout((CELLS, CELLS), None, None, None)

    @torch.no_grad()
    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return [self.answers[k] for k in self.logits(self.encode(samples)).argmax(1).tolist()] if samples else []

    @torch.no_grad()
    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Any:
        return self.log_probability(self.encode(samples), targets).exp().double().numpy()


@dataclass(frozen=True)
class RelationNetworks:
    """`folder` holds the two weight files and vocabulary.json; `variant` says where the question joins."""

    folder: str = "data/clevr_vqa"
    variant: Literal["original", "ir"] = "original"
    card: ClassVar[Card] = Card("mine/relation_network", "a Relation Network that others trained on CLEVR", "model")
    capabilities: ClassVar[frozenset[str]] = Adapter.capabilities
    facts: ClassVar[Mapping[str, str]] = {}

    @property
    def label(self) -> str:
        return f"relation_network.{self.variant}"

    @property
    def revision(self) -> str:
        return digest([self.card.version, self.variant])

    def load(self) -> Adapter:
        from safetensors.torch import load_file

        folder = Path(self.folder)
        vocabulary = json.loads((folder / "vocabulary.json").read_text())
        module = RelationNetwork(len(vocabulary["question"]) + 1, asked={"original": 0, "ir": 2}[self.variant])
        weights = load_file(folder / f"relation_network_{self.variant}.safetensors")
        counters = {name: value for name, value in module.state_dict().items() if "num_batches" in name}
        module.load_state_dict(counters | weights)
        module.eval().requires_grad_(False)
        return Adapter(module, vocabulary["question"], vocabulary["answer"], self.label)

"""Models that are linear in pixels and word embeddings, so that explanations have closed forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from karat.kernel.sample import Sample
from karat.kernel.typing import Values
from karat.models.classifier import Classifier, classifier
from karat.models.torch_model import Inputs, Layout

SIDE = 6
PAD = 0


def samples(n: int = 3) -> list[Sample]:
    rng = np.random.default_rng(0)
    texts = ["a bb c", "c", "bb bb a c"]
    return [
        Sample(f"s{i}", rng.integers(1, 255, (SIDE, SIDE, 3), dtype=np.uint8), texts[i % 3], answer="1")
        for i in range(n)
    ]


def to_pixels(image: Any) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 127.5 - 1


class Features(nn.Module):
    """y_c = Σ_k head[c, k] · mean over places of (1×1 convolution)_k: linear, with maps to look at."""

    def __init__(self, channels: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.maps = nn.Conv2d(3, channels, 1, bias=False)
        self.head = nn.Linear(channels, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.maps(x).mean((2, 3)))


def features() -> Classifier:
    torch.manual_seed(1)
    return classifier(Features(), to_pixels, name="features", layer="maps")


class _Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 5)
        self.see = nn.Linear(3 * SIDE * SIDE, 3)
        self.read = nn.Linear(5, 3, bias=False)

    def forward(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        return self.see(pixels.flatten(1)) + self.read(self.words(tokens).sum(1))


class Reader:
    """Linear in pixels and in word embeddings. "bb" is two tokens; padding counts like any token."""

    name = "reader"
    capabilities = frozenset({"scores", "gradients", "activations", "text"})
    mechanism = None
    layers: Mapping[str, str] = {"words": "words"}
    attention_layers: Sequence[str] = ()
    neutral_token = PAD
    ids: Mapping[str, tuple[int, ...]] = {"a": (1,), "bb": (2, 3), "c": (4,)}

    def __init__(self) -> None:
        torch.manual_seed(2)
        self.module = _Module()

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        said = [[self.ids[word] for word in (sample.text or "").split()] for sample in samples]
        rows = [[t for word in words for t in word] for words in said]
        most = max(map(len, rows))
        tokens = torch.tensor([row + [PAD] * (most - len(row)) for row in rows])
        spans = []
        for words in said:
            ends = np.cumsum([len(word) for word in words]).tolist()
            spans.append(tuple(zip([0, *ends[:-1]], ends, strict=True)))
        pixels = torch.stack([to_pixels(sample.image) for sample in samples])
        return Inputs(pixels, tokens, tokens != PAD, tuple(spans))

    def readout(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        assert inputs.tokens is not None
        return self.module(inputs.pixels, inputs.tokens)[range(len(answers)), [int(a) for a in answers]]

    def log_probability(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        assert inputs.tokens is not None
        return self.module(inputs.pixels, inputs.tokens).log_softmax(1)[range(len(answers)), [int(a) for a in answers]]

    def layout(self, inputs: Inputs) -> Layout:
        return Layout(None, None, None, None)

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return ["1"] * len(samples)

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        with torch.no_grad():
            return np.asarray(self.log_probability(self.encode(samples), answers).exp(), dtype=np.float64)

"""Models small enough for closed forms, for captum and for shifts that carry over exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from karat.kernel.attribution import Attribution
from karat.kernel.sample import Sample
from karat.kernel.typing import Values
from karat.models.classifier import Classifier, classifier
from karat.models.torch_model import Inputs, Layout
from karat.probe import Session

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
        by_word = [[self.ids[word] for word in (sample.text or "").split()] for sample in samples]
        rows = [[t for word in words for t in word] for words in by_word]
        most = max(map(len, rows))
        tokens = torch.tensor([row + [PAD] * (most - len(row)) for row in rows])
        spans = []
        for words in by_word:
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


class Cnn(nn.Module):
    """Every ReLU is a module of its own, max-pools neither overlap nor follow a ReLU: so captum's DeepLIFT needs it.

    (Where they do, its hooks miss the pool's rule, or keep one gradient of overlapping windows. See `test_rescale.py`.)
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 12, 3, padding=1),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1, stride=2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(16 * 16, 24),
            nn.Tanh(),
            nn.Linear(24, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def ring(seed: int = 0) -> nn.Sequential:
    """Convolutions that wrap around, then a mean over places: shifting the input changes nothing but places."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


# ---- comparing


TARGETS = ["1", "0", "2"]


def visual(attributions: Sequence[Attribution]) -> Any:
    """(n, h, w) maps."""
    return np.stack([each.visual for each in attributions if each.visual is not None])


def close(ours: Any, expected: Any) -> None:
    """Equal to 1e-5 of the largest, or of 1."""
    expected = expected.detach().numpy() if isinstance(expected, Tensor) else np.asarray(expected)
    np.testing.assert_allclose(ours, expected, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


@dataclass(frozen=True, eq=False)
class Linear:
    """A session over `Reader`: pixels and their weights (n, 3, H, W), embeddings and their weights (n, T, width)."""

    session: Session
    pixels: Tensor
    pixel_weights: Tensor
    embeddings: Tensor
    word_weights: Tensor

    @property
    def pad(self) -> Tensor:
        return self.session.torch_model.module.words.weight.detach()[PAD]

    def by_word(self, tokens: Tensor) -> list[list[float]]:
        return [[float(tokens[i, a:b].sum()) for a, b in spans] for i, spans in enumerate(self.session.inputs.words)]

    def check(self, attributions: Sequence[Attribution], maps: Tensor, tokens: Tensor, signed: bool = True) -> None:
        close(visual(attributions), maps)
        for attribution, words in zip(attributions, self.by_word(tokens), strict=True):
            assert attribution.signed == signed
            close(attribution.words, words)


def linear() -> Linear:
    model = Reader()
    session = Session(model, samples(), TARGETS)
    classes = [int(target) for target in TARGETS]
    pixels = session.inputs.pixels
    weights = model.module.see.weight.detach()[classes].reshape(pixels.shape)
    embeddings = model.module.words(session.inputs.tokens).detach()
    word_weights = model.module.read.weight.detach()[classes][:, None].expand_as(embeddings)
    return Linear(session, pixels, weights, embeddings, word_weights)


@cache
def cnn() -> Classifier:
    torch.manual_seed(0)
    module = Cnn()
    with torch.no_grad():
        module.body[1].running_mean.normal_(std=0.2)
    return classifier(module, to_pixels, name="cnn")


def cnn_session() -> Session:
    images = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    return Session(cnn(), [Sample(f"s{i}", image) for i, image in enumerate(images)], ["1", "3", "0"])

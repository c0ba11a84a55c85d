"""Worlds in which F_syn has a closed form: plain models whose probability is a function of what is left of the input.

Images are white and their absence is black, so brightness is the share of the image that is kept; deleted words are
missing, so the share of words that is kept can be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.sample import Phrase, Sample
from karat.probe.session import Session
from karat.protocols.synergy import Synergy

GRID = (2, 5)
WORDS = "key lock key lock key lock key lock key lock"
PLAIN = Synergy(visual=GRID, absence="black", text_absence="delete")


@dataclass(frozen=True)
class White:
    """n white images of 4 × 10 pixels with ten words each, every other word being "key"."""

    n: int = 6
    called: str = "white"
    card: ClassVar[Card] = Card("toys/white", "white images", "dataset")

    @property
    def label(self) -> str:
        return self.called

    @property
    def revision(self) -> str:
        return "1"

    def __len__(self) -> int:
        return self.n

    def load(self, start: int, stop: int) -> list[Sample]:
        return [white(f"{self.called}-{i}") for i in range(start, stop)]


def white(name: str, text: str | None = WORDS, size: tuple[int, int] = (4, 10), **fields: object) -> Sample:
    return Sample(name, np.full((*size, 3), 255, dtype=np.uint8), text, "here", **fields)


def told(name: str, question: str, instruction: str) -> Sample:
    """A question with an instruction below it."""
    text = f"{question}\n{instruction}"
    return white(name, text, phrases=(Phrase((len(question), len(text)), "instruction"),))


@dataclass(frozen=True)
class Shares:
    """`rule` of the kept shares of image and text: product, either, sum; keys looks at the left half and the word "key"
    only; nan is keys, without a number for samples whose name ends in 1; sometimes is either on every other sample and
    product on the rest; faint has a dividend of -0.01."""

    rule: str = "product"
    says: str = "here"
    words: int = 10
    name: str = "shares"
    mechanism: str | None = None
    capabilities: frozenset[str] = frozenset({"scores", "text"})

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return [self.says] * len(samples)

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> np.ndarray:
        return np.array([self.value(sample) for sample in samples])

    def value(self, sample: Sample) -> float:
        image = sample.image[..., 0] / 255
        words = (sample.text or "").split()
        if self.rule == "nan" and sample.id.endswith("1"):
            return np.nan
        if self.rule in ("keys", "nan"):
            return float(image[:, : image.shape[1] // 2].mean() * words.count("key") / (self.words / 2))
        visible, read = float(image.mean()), len(words) / self.words
        if self.rule == "faint":
            return 0.5 - 0.01 * visible * read
        if self.rule == "sometimes":
            return visible * read if int(sample.id.rpartition("-")[2]) % 2 else visible + read - visible * read
        if self.rule == "sum":
            return 0.3 * visible + 0.7 * read
        return visible + read - visible * read if self.rule == "either" else visible * read


@dataclass(frozen=True)
class SharesRecipe:
    rule: str = "product"
    says: str = "here"
    card: ClassVar[Card] = Card("toys/shares", "shares of what is kept", "model")
    capabilities: ClassVar[frozenset[str]] = frozenset({"scores", "text"})

    @property
    def label(self) -> str:
        return self.rule

    @property
    def revision(self) -> str:
        return "1"

    def load(self) -> Shares:
        return Shares(self.rule, self.says, name=self.rule)


@dataclass(frozen=True)
class Finds:
    """Knows the left half and the word "key" with the given skill in [-1, 1]; the rest is noise. On a share `fails` of
    the samples, those on which its noise is unlucky, it finds nothing at all: a map of zeros."""

    skill: float = 1.0
    part: str = "both"
    fails: float = 0.0
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card("toys/finds", "finds the keys", "explainer", gives=frozenset({"visual", "words"}))

    def __call__(self, session: Session) -> list[Attribution]:
        attributions = []
        for i, sample in enumerate(session.samples):
            rng = session.rng(i, f"finds {self.skill}")
            left = np.repeat([[1.0] * 5 + [0.0] * 5], 2, axis=0)
            words = np.array([word == "key" for word in (sample.text or "").split()], dtype=float)
            noise = 1 - abs(self.skill)
            visual = self.skill * left + noise * rng.normal(size=left.shape)
            read = self.skill * words + noise * rng.normal(size=words.shape)
            if self.fails and (visual[:, :5].mean() - visual[:, 5:].mean()) < 2.2 * (self.fails - 0.5):
                visual = np.zeros_like(visual)
            attributions.append(Attribution(visual, None if self.part == "image" else read, space="patch", passes=1.0))
        return attributions


def spec(**changes: object) -> dict[str, object]:
    return {
        "name": "synergy-toy",
        "protocol": {"name": "synergy", "visual": list(GRID), "absence": "black", "text_absence": "delete"},
        "models": [{"name": "synergy_worlds:SharesRecipe", "rule": "keys"}],
        "datasets": [{"name": "synergy_worlds:White", "n": 24}],
        "explainers": [
            "control/random",
            {"name": "synergy_worlds:Finds", "skill": 0.7},
            {"name": "synergy_worlds:Finds", "skill": -0.7},
        ],
        "shard_size": 8,
        "batch_size": 8,
        **changes,
    }

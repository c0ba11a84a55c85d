"""PixelSHAP and TokenSHAP: objects and words valued by how far the model's answer stays the same without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from karat.explainers.asking import Asking, Features, among, attribution, games, parts
from karat.explainers.shapley.values import best
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.typing import Keep, Values
from karat.probe import estimators
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Block, Evaluator, Question
from karat.probe.games import Estimate
from karat.probe.session import Session


@dataclass(frozen=True)
class PixelShapTokenShap(Asking):
    """Players are objects (`visual="objects"`) or patches, and words; apart, each under the whole of the other.

    `compare`: "answer" is the cosine of the word counts of two answers, the one given without some features and the
    one given with all; "probability" is what other explainers ask for. `variant`: "paper" gives Shapley values;
    "released" the mean value with a player less the mean without it, over every leave-one-out and random coalitions,
    shifted so that the least is 0 and scaled to add up to 1.
    """

    visual: str | tuple[int, int] = "auto"
    absence: str = "black"
    text_absence: str = "delete"
    budget: int = 1000
    features: Features = "apart"
    compare: Literal["answer", "probability"] = "answer"
    variant: Literal["paper", "released"] = "paper"
    card: ClassVar[Card] = Card(
        "shapley/pixelshap_tokenshap",
        "objects (or patches) and words by how much of the model's own answer depends on them",
        "explainer",
        gives=frozenset({"visual", "words"}),
        citation="Goldshmidt & Horovicz 2024, TokenSHAP; Goldshmidt 2025, PixelSHAP; gridvqax2026 A.3",
        departures="plain word counts, not TF-IDF, whose weights depend on which coalitions were drawn (the same for "
        "answers of one word); masks are not dilated; answers are not sampled",
        passes="budget",
    )

    @property
    def passes(self) -> int:
        return self.budget

    def __call__(self, session: Session) -> list[Attribution]:
        asked = games(session, self)
        plans = [(i, part) for i, game in enumerate(asked) for part in parts(game, self.features)]
        questions: list[tuple[int, Question[Estimate]]] = []
        for i, part in plans:
            budget = self.budget // len(parts(asked[i], self.features))
            rng = session.rng(i, f"{self.card.name}/{part.start}")
            question = self._question(len(part), budget, rng)
            questions.append((i, among(part, asked[i].n, question)))
        if self.compare == "answer":
            found = same_answer(session, asked).run(questions)
        else:
            found = session.ask([(asked[i], question) for i, question in questions])
        scores = [np.full(game.n, np.nan) for game in asked]
        errors = [np.zeros(game.n) for game in asked]
        passes = [0] * len(asked)
        for (i, part), estimate in zip(plans, found, strict=True):
            scores[i][part], errors[i][part] = estimate.values, estimate.standard_error
            passes[i] += estimate.passes
        signed = self.variant == "paper"
        return [
            attribution(session, i, game, scores[i], errors[i], passes=passes[i], signed=signed)
            for i, game in enumerate(asked)
        ]

    def _question(self, n: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
        if self.variant == "released":
            return released(n, budget, rng)
        enough = budget >= estimators.least_regression(n)
        return best(n, budget, rng, estimators.kernelshap if enough else estimators.permutation)


def same_answer(session: Session, asked: Sequence[ModelGame]) -> Evaluator:
    """An evaluator whose values are how alike the answer to an altered sample is to the session's target."""

    def answer(blocks: Sequence[Block]) -> Values:
        samples: list[Sample] = []
        targets: list[str] = []
        for block in blocks:
            setting = asked[block.game].setting
            samples += setting.altered(block.visual_keep, block.text_keep)
            text = setting.target if isinstance(setting.target, str) else setting.target.text
            targets += [text] * len(block.visual_keep)
        given = session.model.answer(samples)
        return np.array([cosine(a, b) for a, b in zip(given, targets, strict=True)])

    shapes = [(game.n_visual, game.n_text) for game in asked]
    return Evaluator(answer, shapes, batch_size=session.batch_size, passes=session.cost.passes)


def cosine(a: str, b: str) -> float:
    """Of the word counts of two answers.

    >>> cosine("two red circles", "two"), cosine("Yes", "no")
    (0.5773502691896258, 0.0)
    """
    left, right = Counter(a.lower().split()), Counter(b.lower().split())
    dot = sum(count * right[word] for word, count in left.items())
    size = sqrt(sum(c * c for c in left.values()) * sum(c * c for c in right.values()))
    return dot / size if size else float(left == right)


def released(n: int, budget: int, rng: np.random.Generator) -> Question[Estimate]:
    """As published code does it: with minus without, no Shapley weights, shifted and scaled. Not a Shapley value."""
    if budget < n:
        raise BadInput(f"{n} players have {n} coalitions that leave one out; got a budget of {budget}.")
    seen: dict[bytes, None] = {row.tobytes(): None for row in ~np.eye(n, dtype=np.bool_)}
    while len(seen) < min(budget, 2**n):
        seen.update((row.tobytes(), None) for row in rng.random((min(budget, 2**n) - len(seen), n)) < 0.5)
    keep: Keep = np.frombuffer(b"".join(seen), dtype=np.bool_).reshape(-1, n)
    values = yield keep
    present, absent = keep.sum(axis=0), (~keep).sum(axis=0)
    mean = values @ keep / np.maximum(present, 1) - values @ ~keep / np.maximum(absent, 1)
    shifted = mean - mean.min()
    total = shifted.sum() or 1.0
    centred = values - values.mean()
    variance = centred**2 @ keep / np.maximum(present, 1) ** 2 + centred**2 @ ~keep / np.maximum(absent, 1) ** 2
    error = np.sqrt(variance)
    return Estimate(shifted / total, error / total, len(keep), "released")

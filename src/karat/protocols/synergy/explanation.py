"""One explanation of one answer: the orders it puts the features in, what is asked about them, and what that scores.

A visual player gets the mean of the map over its area, a word its own score, and so does a token; of a method that
scores words only, a token has its word's. Ties (see `karat.kernel.ties`) are broken
at random, seeded by the run and the sample: no method gains from how pixels are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from karat.datasets.vqa.files import INSTRUCTION
from karat.explainers.to_attribution import frame_of
from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.ties import tie_levels
from karat.kernel.typing import Map, Values
from karat.metrics.perturbation import Curve, Modality, Quadrature, Rounding, curve_question, order_of
from karat.metrics.synergy import CURVES, Synergy, macro_question, synergy_question
from karat.models.torch_model import Frame
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.players import TextPlayers, VisualPlayers
from karat.probe.session import Session

Ranks = npt.NDArray[np.intp]
Scores = dict[str, tuple[float, dict[str, Values]]]  # metric → its value, and what it was computed from, by name
Questions = list[tuple[ModelGame, Question[Any]]]
Unit = Literal["words", "tokens"]  # what a text player is
MODALITIES: tuple[Modality, Modality] = ("visual", "text")
SYNERGY_CURVES = (*CURVES, "syn_del", "syn_ins")


@dataclass(frozen=True, eq=False)
class Ranking:
    """The players of one modality, most important first; or why there is no order, by definition or by failure."""

    order: Ranks | None
    problem: str = ""
    defined: bool = True  # False where the method has no such scores: not applicable, rather than failed


@dataclass(frozen=True, eq=False)
class Explanation:
    """A game and the orders that an explanation puts its players in, where it has them."""

    game: ModelGame
    rankings: Mapping[Modality, Ranking]

    @property
    def orders(self) -> tuple[Ranks, Ranks] | None:
        """Both orders, or None where one of them is missing."""
        image, text = (self.rankings[modality].order for modality in MODALITIES)
        return None if image is None or text is None else (image, text)

    def lacking(self, metric: str) -> list[Ranking]:
        """The orders that a metric needs and this explanation lacks."""
        needed = [m for m in MODALITIES if metric.endswith(m)] or MODALITIES
        return [self.rankings[m] for m in needed if self.rankings[m].order is None]

    @property
    def failed(self) -> bool:
        """Whether an order is missing that the method should have given."""
        return any(ranking.order is None and ranking.defined for ranking in self.rankings.values())

    def at_random(self, rng: np.random.Generator) -> Explanation:
        """The same game in a random order."""
        sizes = {"visual": self.game.n_visual, "text": self.game.n_text}
        return Explanation(self.game, {m: Ranking(rng.permutation(sizes[m]) if sizes[m] else None) for m in MODALITIES})

    def curves(self, steps: int, rounding: Rounding, quadrature: Quadrature) -> Questions:
        """The unimodal curves, insertion before deletion, image before text."""
        return [
            (self.game, curve_question(self.game, order, adding, steps, modality, rounding, quadrature))
            for modality in MODALITIES
            if (order := self.rankings[modality].order) is not None
            for adding in (True, False)
        ]

    def synergy(self, steps: int, rounding: Rounding, quadrature: Quadrature) -> Questions:
        if self.orders is None:
            return []
        return [(self.game, _counted(synergy_question(self.game, *self.orders, steps, rounding, quadrature)))]

    def exact(self, steps: int, background: int, rng: np.random.Generator) -> Questions:
        if self.orders is None:
            return []
        return [(self.game, _counted(macro_question(self.game, *self.orders, rng, steps, background)))]

    def read_curves(self, answers: Iterator[Any]) -> Scores:
        scores: Scores = {}
        for modality in MODALITIES:
            if self.rankings[modality].order is not None:
                came: Curve = next(answers)
                went: Curve = next(answers)
                both = {"insertion": came.values, "deletion": went.values}
                scores[f"insertion_{modality}"] = came.value, {"insertion": came.values}
                scores[f"deletion_{modality}"] = went.value, {"deletion": went.values}
                scores[f"srg_{modality}"] = came.value - went.value, both
        return scores

    def read_synergy(self, answers: Iterator[Any]) -> tuple[Scores, int]:
        """F_syn, and the distinct coalitions it asked for."""
        if self.orders is None:
            return {}, 0
        synergy: Synergy
        synergy, passes = next(answers)
        return {"f_syn": (synergy.value, {name: synergy.curves[name] for name in SYNERGY_CURVES})}, passes

    def read_exact(self, answers: Iterator[Any], by_synergy: int) -> Scores:
        if self.orders is None:
            return {}
        index: Curve
        index, passes = next(answers)
        counts = {"f_syn_passes": np.array(float(by_synergy)), "sii_passes": np.array(float(passes))}
        return {"sii": (index.value, {"sii": index.values, **counts})}


def _counted(question: Question[Any]) -> Question[tuple[Any, int]]:
    """A question that asks once, with the number of distinct coalitions it asked for."""
    keep = next(question)
    values = yield keep
    try:
        question.send(values)
    except StopIteration as stop:
        return stop.value, len(np.unique(np.packbits(keep, axis=1), axis=0))
    raise AssertionError("both questions of this protocol ask once")


def question_words(sample: Sample) -> list[int]:
    """Positions of the words of the question; words of an instruction are no players (fsyn2026 A.3)."""
    instruction = sample.word_mask(INSTRUCTION)
    return [j for j in range(len(sample.words)) if not instruction[j]]


def question_players(session: Session, i: int, unit: Unit) -> TextPlayers | None:
    """One text player per word of the question of sample i, or per token of those words; None without any."""
    words = question_words(session.samples[i])
    if unit == "words":
        return TextPlayers(tuple((j,) for j in words)) if words else None
    if session.inside is None or (words and not session.inputs.words):
        raise BadInput(f"{session.model.name} says nothing about tokens; use text: words.")
    spans = [session.inputs.words[i][j] for j in words]
    tokens = tuple((t,) for start, stop in spans for t in range(start, stop))
    return TextPlayers(tokens, unit="tokens") if tokens else None


def token_scores(session: Session, i: int, attribution: Attribution) -> Values:
    """(tokens,) one score per token player of sample i: its own, or its word's."""
    assert attribution.words is not None
    spans, words = session.inputs.words[i], question_words(session.samples[i])
    lengths = np.array([stop - start for start, stop in spans], dtype=np.intp)
    own = np.repeat(attribution.words, lengths) if attribution.tokens is None else attribution.tokens
    return np.asarray(own[np.repeat(np.isin(np.arange(len(spans)), words), lengths)], dtype=np.float64)


def ranking(session: Session, i: int, game: ModelGame, attribution: Attribution, modality: Modality) -> Ranking:
    """The order of one modality of sample i. Equal seeds, samples and scores give equal orders in any batch."""
    sample = session.samples[i]
    values = attribution.visual if modality == "visual" else attribution.words
    if modality == "text" and not game.n_text:
        return Ranking(None, "text: the question has no word to perturb")
    if values is None:
        return Ranking(None, f"the method defines no {'map' if modality == 'visual' else 'words'}", defined=False)
    if problem := attribution.problem("visual" if modality == "visual" else "words"):
        return Ranking(None, problem)
    if modality == "visual":
        scores = patch_scores(values, game.setting.visual, frame_of(session, i), sample.size)
    elif len(values) != len(sample.words):
        return Ranking(None, f"words: {len(values)} scores for the {len(sample.words)} words of the text")
    elif game.setting.text.unit == "tokens":
        scores = token_scores(session, i, attribution)
    else:
        scores = np.array([values[list(group)].mean() for group in game.setting.text.groups], dtype=np.float64)
    return Ranking(order_of(tie_levels(scores), session.rng(i, f"synergy/ties/{modality}")))


def patch_scores(visual: Map, players: VisualPlayers, frame: Frame, size: tuple[int, int]) -> Values:
    """(count,) the mean of a map of the whole image over each player; a grid divides what the model sees of it."""
    if players.grid is None:
        labels = players.labels_of(*size).ravel()
        values = resize_maps(np.asarray(visual, dtype=np.float64)[None], *size)[0].ravel()
        own = labels >= 0
        area = np.bincount(labels[own], minlength=players.count)
        return np.bincount(labels[own], values[own], minlength=players.count) / np.maximum(area, 1)
    top, left, bottom, right = frame
    down = overlaps(visual.shape[0], players.grid[0], top, bottom)
    across = overlaps(visual.shape[1], players.grid[1], left, right)
    return np.asarray(down @ np.asarray(visual, dtype=np.float64) @ across.T).ravel()


def overlaps(cells: int, parts: int, start: float, stop: float) -> Values:
    """(parts, cells): how much of each of `parts` equal stretches of [start, stop] lies on each of `cells` of [0, 1].

    >>> overlaps(4, 2, 0.0, 1.0).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    edges = np.linspace(start, stop, parts + 1)
    low, high = np.arange(cells) / cells, np.arange(1, cells + 1) / cells
    shared = np.minimum(edges[1:, None], high) - np.maximum(edges[:-1, None], low)
    shared = np.clip(shared, 0.0, None)
    return np.asarray(shared / shared.sum(axis=1, keepdims=True))

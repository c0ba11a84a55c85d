"""What is asked about one explanation, and how the answers become scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.metrics.perturbation import Curve, Modality, Quadrature, Rounding, curve_question
from karat.metrics.synergy import MacroInteraction, Synergy, macro_question, synergy_question
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.protocols.synergy.cards import SYNERGY_CURVES
from karat.protocols.synergy.orders import Ranking, Ranks

Numbers = npt.NDArray[np.float64]
Scores = dict[str, tuple[float, dict[str, Numbers]]]  # metric → its value, and what it was computed from, by name
Questions = list[tuple[ModelGame, Question[Any]]]
MODALITIES: tuple[Modality, Modality] = ("visual", "text")


@dataclass(frozen=True, eq=False)
class Explanation:
    """One explanation of one answer: its game and the orders it puts the players in, where it has them."""

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
        found: Scores = {}
        for modality in MODALITIES:
            if self.rankings[modality].order is not None:
                came: Curve = next(answers)
                went: Curve = next(answers)
                both = {"insertion": came.values, "deletion": went.values}
                found[f"insertion_{modality}"] = came.value, {"insertion": came.values}
                found[f"deletion_{modality}"] = went.value, {"deletion": went.values}
                found[f"srg_{modality}"] = came.value - went.value, both
        return found

    def read_synergy(self, answers: Iterator[Any]) -> tuple[Scores, int]:
        """F_syn, and the distinct coalitions it asked for."""
        if self.orders is None:
            return {}, 0
        found: Synergy
        found, asked = next(answers)
        return {"f_syn": (found.value, {name: found.curves[name] for name in SYNERGY_CURVES})}, asked

    def read_exact(self, answers: Iterator[Any], by_synergy: int) -> Scores:
        if self.orders is None:
            return {}
        found: MacroInteraction
        found, asked = next(answers)
        counts = {"f_syn_passes": np.array(float(by_synergy)), "sii_passes": np.array(float(asked))}
        return {"sii": (found.value, {"sii": found.values, **counts})}


def _counted(question: Question[Any]) -> Question[tuple[Any, int]]:
    """A question that asks once, with the number of distinct coalitions it asked for."""
    keep = next(question)
    values = yield keep
    try:
        question.send(values)
    except StopIteration as stop:
        return stop.value, len(np.unique(np.packbits(keep, axis=1), axis=0))
    raise AssertionError("both questions of this protocol ask once")

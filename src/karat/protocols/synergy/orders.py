"""From an attribution to the order in which its features are perturbed, most important first.

A visual player gets the mean of the map over its area, a word its own score. Ties are broken at random, seeded by the
run and the sample: no method gains from how pixels are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.datasets.vqa.prompts import INSTRUCTION
from karat.explainers.to_attribution import frame_of
from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.sample import Sample
from karat.kernel.typing import Map, Values
from karat.metrics.perturbation import Modality, order_of
from karat.models.torch_model import Frame
from karat.probe.coalitions import ModelGame
from karat.probe.players import VisualPlayers
from karat.probe.session import Session

Ranks = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Ranking:
    """The players of one modality, most important first; or why there is no order, by definition or by failure."""

    order: Ranks | None
    problem: str = ""
    defined: bool = True  # False where the method has no such scores: not applicable, rather than failed


def question_words(sample: Sample) -> list[tuple[int]]:
    """One text player per word of the question; words of an instruction are no players (fsyn2026 A.3)."""
    told = sample.word_mask(INSTRUCTION)
    return [(j,) for j in range(len(sample.words)) if not told[j]]


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
    else:
        scores = np.array([values[list(group)].mean() for group in game.setting.text.groups], dtype=np.float64)
    # Means of equal numbers differ in their last digits: what is equal up to a billionth is a tie.
    level = np.round(scores / np.abs(scores).max(initial=np.finfo(np.float64).tiny), 9)
    return Ranking(order_of(level, session.rng(i, f"synergy/ties/{modality}")))


def patch_scores(shown: Map, players: VisualPlayers, frame: Frame, size: tuple[int, int]) -> Values:
    """(count,) the mean of a map of the whole image over each player; a grid divides what the model sees of it."""
    if players.grid is None:
        labels = players.labels_of(*size).ravel()
        values = resize_maps(np.asarray(shown, dtype=np.float64)[None], *size)[0].ravel()
        own = labels >= 0
        area = np.bincount(labels[own], minlength=players.count)
        return np.bincount(labels[own], values[own], minlength=players.count) / np.maximum(area, 1)
    top, left, bottom, right = frame
    down = overlaps(shown.shape[0], players.grid[0], top, bottom)
    across = overlaps(shown.shape[1], players.grid[1], left, right)
    return np.asarray(down @ np.asarray(shown, dtype=np.float64) @ across.T).ravel()


def overlaps(cells: int, parts: int, start: float, stop: float) -> npt.NDArray[np.float64]:
    """(parts, cells): how much of each of `parts` equal stretches of [start, stop] lies on each of `cells` of [0, 1].

    >>> overlaps(4, 2, 0.0, 1.0).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    edges = np.linspace(start, stop, parts + 1)
    low, high = np.arange(cells) / cells, np.arange(1, cells + 1) / cells
    shared = np.minimum(edges[1:, None], high) - np.maximum(edges[:-1, None], low)
    shared = np.clip(shared, 0.0, None)
    return np.asarray(shared / shared.sum(axis=1, keepdims=True))

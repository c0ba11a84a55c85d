"""From interactions of pairs to maps: the rules by which a matrix of patches × words becomes a map and word scores."""

from __future__ import annotations

from typing import Literal

import numpy as np

from karat.explainers.asking import Floats, on_image, on_words
from karat.kernel.attribution import Attribution
from karat.probe.coalitions import ModelGame
from karat.probe.session import Session

Reduce = Literal["mean", "positive", "absolute"]


def reduced(indices: Floats, axis: int, rule: Reduce) -> Floats:
    """The mean over the other modality: of the values, of their positive part (synergy), or of their size."""
    if rule == "positive":
        indices = np.maximum(indices, 0)
    elif rule == "absolute":
        indices = np.abs(indices)
    return np.asarray(indices.mean(axis=axis))


def synergy_share(indices: Floats) -> float:
    """Sum of the positive interactions over the sum of all sizes; 0 where there is no interaction at all."""
    total = float(np.abs(indices).sum())
    return float(np.maximum(indices, 0).sum()) / total if total else 0.0


def of_pairs(
    session: Session, i: int, game: ModelGame, indices: Floats, error: Floats | None, passes: float, rule: Reduce
) -> Attribution:
    """An attribution with pairs (h*w, words) from indices (n_visual, n_text); its map and words follow by `rule`."""
    words = len(session.samples[i].words)

    def over_cells_and_words(matrix: Floats) -> Floats:
        spread = np.stack([on_words(game, row, words) for row in matrix])
        placed = on_image(session, i, game, spread)[0]
        return placed.reshape(-1, words)

    visual, space = on_image(session, i, game, reduced(indices, 1, rule))
    return Attribution(
        visual,
        on_words(game, reduced(indices, 0, rule), words),
        over_cells_and_words(indices),
        scalar=synergy_share(indices),
        space=space,
        signed=rule == "mean",
        passes=passes,
        standard_error=None if error is None else over_cells_and_words(error),
    )

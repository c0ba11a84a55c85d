"""Soft masks: images that fade into their absent state, pixel by pixel, as rows of a `Batcher`.

A coalition knows only kept and absent; a soft mask has shades between. Its key is its number: whoever draws the masks
makes number k again when its batch comes, so that no more than a batch of masks is ever in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.kernel.typing import Values
from karat.probe.batcher import RowQuestion, Rows, Run
from karat.probe.coalitions import FadedBlock, ModelGame, Shades
from karat.probe.session import Session

Numbers = npt.NDArray[np.int64]  # (m,)
Draw = Callable[[Numbers], Shades]  # numbers of masks -> masks (m, h, w)


@dataclass(eq=False)
class FadedImages:
    """The images of some games under soft masks: `draws[g]` makes the masks of `games[g]`, of size `mask_size`."""

    session: Session
    games: Sequence[ModelGame]
    draws: Sequence[Draw]

    def values(self, g: int, count: int) -> RowQuestion[Values]:
        """The question of the values (count,) of masks 0, 1, ... of game g."""
        return (yield Rows(self._values, g, range(count), remember=False))

    def _values(self, runs: Sequence[Run]) -> npt.ArrayLike:
        return self.session.games.faded_values(
            [FadedBlock(self.games[g].index, self.draws[g](np.array(numbers))) for g, numbers in runs]
        )


def mask_size(session: Session, game: ModelGame) -> tuple[int, int]:
    """(h, w) of soft masks: what the model sees of the image where that is known, else the image itself."""
    if session.inside is not None:
        base = session.masked_inputs(game).base
        if base.frames is not None:
            return base.pixels.shape[-2], base.pixels.shape[-1]
    return game.setting.sample.size

"""RISE: the mean of random soft masks, each weighed by the answer it left; and the same over words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Lt

from karat.explainers.coalitional import ValueKind, value_kind
from karat.explainers.to_attribution import frame_of, over_image
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.typing import Keep, Values
from karat.probe.absence import Absence, CoalitionAbsence, TextAbsence
from karat.probe.batcher import RowQuestion
from karat.probe.coalitions import ModelGame, Shades
from karat.probe.evaluator import ask
from karat.probe.games import small_sample
from karat.probe.session import Session
from karat.probe.soft_masks import FadedImages, Numbers, mask_size

GROUPS = 12  # of masks, whose means give the standard error
Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
@checked
class Rise:
    """S = 1/(N p) sum of f(x under M_k) M_k, for masks of `cells` × `cells` that are on with probability `keep`,
    upsampled and shifted at random.

    Args:
        masks: N, of the image; two or more for each of the groups that the standard error is made of.
        cells: rows and columns of a mask before it is upsampled.
        keep: p, the probability that a cell is on, or a word kept.
        word_masks: coalitions of words, which give the words' scores in the same way.
        absence, text_absence: what an absent pixel or word looks like, see `Absence`.
        value: as for `Coalitional`.
    """

    masks: Annotated[int, Ge(2 * GROUPS)] = 4000
    cells: Annotated[int, Ge(1)] = 7
    keep: Annotated[float, Gt(0), Lt(1)] = 0.5
    word_masks: Annotated[int, Ge(0)] = 256
    absence: CoalitionAbsence = "black"
    text_absence: TextAbsence = "auto"
    value: ValueKind = "probability"
    card: ClassVar[Card] = Card(
        "perturbation/rise",
        "random masks of the image (and of the words), each weighed by the answer it left",
        "explainer",
        gives=frozenset({"visual", "words"}),
        citation="Petsiuk et al. 2018, RISE; pixelrules2024; creg2026 (150 masks)",
        departures="words are our counterpart: hard masks, one word each",
        passes="masks + word_masks",
    )

    @property
    def passes(self) -> int:
        return self.masks + self.word_masks

    def __call__(self, session: Session) -> list[Attribution]:
        absence, value = Absence(self.absence, self.text_absence), value_kind(session, self.value)
        games = [session.game(i, visual=(1, 1), absence=absence, value=value) for i in range(len(session.samples))]
        masks = [
            SoftMasks.drawn(mask_size(session, game), self.masks, self.cells, self.keep, session.rng(i, self.card.name))
            for i, game in enumerate(games)
        ]
        words = [
            session.rng(i, f"{self.card.name}/words").random((self.word_masks, game.n_text)) < self.keep
            for i, game in enumerate(games)
        ]
        images = FadedImages(session, games, [each.shades for each in masks])
        answers = session.run(
            [_question(session, images, i, self.masks, game, words[i]) for i, game in enumerate(games)]
        )
        attributions = []
        for i, (values, word_values) in enumerate(answers):
            visual, error = masks[i].weighed(values)
            frame, size = frame_of(session, i), session.samples[i].size
            scores, scores_error = (None, None) if word_values is None else weighed_words(words[i], word_values)
            attributions.append(
                Attribution(
                    over_image(visual / self.keep, frame, size),
                    scores,
                    passes=self.masks + (0 if word_values is None else len(np.unique(words[i], axis=0))),
                    standard_error=over_image(error / self.keep, frame, size),
                    words_error=scores_error,
                )
            )
        return attributions


def _question(
    session: Session, images: FadedImages, i: int, count: int, game: ModelGame, words: Keep
) -> RowQuestion[tuple[Values, Values | None]]:
    """Values of the masks of the image and, where there is a text, of the coalitions of its words."""
    values = yield from images.values(i, count)
    if not game.n_text:
        return values, None
    return values, (yield from session.about(game, ask(np.insert(words, 0, True, axis=1))))


@dataclass(frozen=True, eq=False)
class SoftMasks:
    """N random grids (N, s, s), upsampled by one cell more than the image and cut at a random shift.

    A mask is `rows[shift_y] @ grid @ rows[shift_x].T`, so that batches of masks are matrix products.
    """

    grids: Array
    shifts: npt.NDArray[np.int64]  # (N, 2)
    rows: Array  # (shifts, h, s)
    columns: Array  # (shifts, w, s)

    @staticmethod
    def drawn(size: tuple[int, int], count: int, cells: int, keep: float, rng: np.random.Generator) -> SoftMasks:
        grids = (rng.random((count, cells, cells)) < keep).astype(np.float32)
        rows, columns = (shifted(length, cells) for length in size)
        shifts = np.stack([rng.integers(0, len(rows), count), rng.integers(0, len(columns), count)], axis=1)
        return SoftMasks(grids, shifts, rows, columns)

    def shades(self, numbers: Numbers) -> Shades:
        """Masks (m, h, w)."""
        y, x = self.shifts[numbers].T
        return np.matmul(np.matmul(self.rows[y], self.grids[numbers]), self.columns[x].transpose(0, 2, 1))

    def weighed(self, values: Values) -> tuple[Array, Array]:
        """The mean of value × mask (h, w), and its standard error from the means of groups of masks."""
        groups = np.array_split(np.arange(len(self.grids)), GROUPS)
        means = np.stack([self._sum(group, values) / len(group) for group in groups])
        share = np.array([len(group) for group in groups]) / len(self.grids)
        error = means.std(axis=0, ddof=1) / np.sqrt(GROUPS) * small_sample(GROUPS - 1)
        mean: Array = np.tensordot(share, means, 1).astype(np.float32)
        return mean, error.astype(np.float32)

    def _sum(self, numbers: Numbers, values: Values) -> Array:
        """sum of value × mask in one matrix product: (h, m s) @ (m s, w)."""
        total = np.zeros((self.rows.shape[1], self.columns.shape[1]), dtype=np.float32)
        for part in np.array_split(numbers, max(1, len(numbers) // 64)):
            y, x = self.shifts[part].T
            left = np.matmul(self.rows[y], self.grids[part]) * values[part, None, None].astype(np.float32)
            right = self.columns[x]  # (m, w, s)
            total += np.tensordot(left, right, axes=((0, 2), (0, 2)))
        return total


def shifted(length: int, cells: int) -> Array:
    """(shifts, length, cells): bilinear weights of the cells on `length` pixels, for every shift within a cell."""
    cell = -(-length // cells)
    pixels = (cells + 1) * cell
    centre = np.clip((np.arange(pixels) + 0.5) * cells / pixels - 0.5, 0, cells - 1)
    low = np.minimum(np.floor(centre).astype(np.intp), max(cells - 2, 0))
    weights = np.zeros((pixels, cells), dtype=np.float32)
    weights[np.arange(pixels), low] = 1 - (centre - low)
    weights[np.arange(pixels), np.minimum(low + 1, cells - 1)] += centre - low
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(weights, length, axis=0)[:cell].swapaxes(1, 2))


def weighed_words(rows: Keep, values: Values) -> tuple[Values, Values]:
    """Mean value over the coalitions that hold a word (E[f M] / E[M], M's own mean), and its standard error."""
    held = np.maximum(rows.sum(axis=0), 1)
    mean = values @ rows / held
    spread = ((values[:, None] - mean) * rows) ** 2
    return mean, np.sqrt(spread.sum(axis=0)) / held

"""Explanations of known quality between the oracle and noise: rungs on which a metric can be put to the test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from karat.explainers.control import noise, truths
from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.sample import Truth
from karat.kernel.typing import Map, Values
from karat.probe.session import Session

How = Literal["noise", "swap", "shift", "blur", "words", "other_twin"]
CELLS = 12  # a side, of the cells that change places
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
OTHER = {"reasons": "matches_words", "matches_words": "reasons"}


@dataclass(frozen=True)
class Degraded:
    """The oracle made worse in one way; `level` 0 is the oracle itself.

    noise: a share `level` of the mass is that of control/random, 1 being all of it; ranks stay until noise overtakes
    truth. swap: a share `level` of the cells and words change places at random, so ranks go wrong from the start.
    shift: moved right and down by
    `level` of the side, round the edge. blur: a Gaussian of standard deviation `level` of the side. words: the right
    objects, and every word but the right ones. other_twin: the truth about the twin with the other mechanism, which
    looks at the same picture for other reasons. The last two have no levels.
    """

    how: How = "noise"
    level: float = 0.5
    passes: ClassVar[int] = 0
    card: ClassVar[Card] = Card(
        "control/degraded",
        "the truth made worse by a known amount: a rung of the ladder that metrics must order",
        "explainer",
        needs=frozenset({"mechanism"}),
        gives=frozenset({"visual", "words"}),
    )

    def __post_init__(self) -> None:
        if not 0 <= self.level <= 1:
            raise BadInput(f"control/degraded: level goes from 0 (the oracle) to 1; got {self.level}.")

    @property
    def label(self) -> str:
        return f"control/{self.how}" if self.how in ("words", "other_twin") else f"control/{self.how}({self.level:g})"

    def __call__(self, session: Session) -> list[Attribution]:
        mechanism = session.model.mechanism
        if self.how == "other_twin":
            if mechanism not in OTHER:
                raise BadInput(f"control/other_twin needs a model that {' or '.join(OTHER)}; this one: {mechanism}.")
            mechanism = OTHER[mechanism]
        found = truths(session, self.card.name, mechanism)
        return [self._degrade(session, i, truth) for i, truth in enumerate(found)]

    def _degrade(self, session: Session, i: int, truth: Truth) -> Attribution:
        visual: Floats | None = None if truth.visual is None else truth.visual.astype(np.float64)
        words: Floats | None = None if truth.words is None else np.array(truth.words, dtype=np.float64)
        if self.how == "noise":
            map_noise, word_noise = noise(session, i)
            visual = None if visual is None else self._blend(visual, resize_maps(map_noise[None], *visual.shape)[0])
            words = None if words is None or word_noise is None else self._blend(words, word_noise)
        elif self.how == "swap":
            rng = session.rng(i, f"control/swap/{session.model.name}")
            visual = None if visual is None else _swap(pooled(visual, CELLS), self.level, rng)
            words = None if words is None else _swap(words, self.level, rng)
        elif self.how == "words":
            words = None if words is None else 1 - words
        elif self.how == "shift" and visual is not None:
            visual = np.roll(visual, [round(self.level * side) for side in visual.shape], axis=(0, 1))
        elif self.how == "blur" and visual is not None:
            visual = _blur(visual, self.level)
        return Attribution(visual, words)

    def _blend(self, truth: Floats, random: Map | Values) -> Floats:
        """Shares of mass. A truth of nothing stays nothing but noise."""
        mass = truth.sum()
        own = truth / mass if mass else truth
        return np.asarray((1 - self.level) * own + self.level * random / random.sum(), dtype=np.float64)


def _swap(values: Floats, level: float, rng: np.random.Generator) -> Floats:
    """A share of the entries trade places. The same ones at every level, and more as it grows: rungs of one ladder."""
    flat = values.ravel().copy()
    order = rng.permutation(flat.size)
    moved = order[: round(level * flat.size)]
    flat[moved] = flat[moved][rng.permutation(len(moved))]
    return flat.reshape(values.shape)


def pooled(visual: Floats, cells: int) -> Floats:
    """A map as means over cells × cells, where that divides it; else as it is."""
    height, width = visual.shape
    if height % cells or width % cells:
        return visual
    return np.asarray(visual.reshape(cells, height // cells, cells, width // cells).mean(axis=(1, 3)))


def _blur(visual: Floats, level: float) -> Floats:
    from scipy.ndimage import gaussian_filter

    blurred: Floats = gaussian_filter(visual, [level * side for side in visual.shape], mode="constant")
    return blurred

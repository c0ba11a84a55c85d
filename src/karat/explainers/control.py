"""Controls: explanations of known worth. Floors that know nothing of the model, references that know the truth, and the
truth made worse by known amounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample, Truth
from karat.kernel.typing import Box, Map, Values
from karat.probe.session import Session

Damage = Literal["noise", "swap", "shift", "blur", "words", "other_twin"]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
SWAP_CELLS = 12  # a side, of the cells that change places
GRID = (12, 12)  # of noise, and of a flat map where a model has no visual tokens
OTHER_MECHANISM = {"reasons": "matches_words", "matches_words": "reasons"}
_of_image = partial(Card, kind="explainer", gives=frozenset({"visual"}))
_of_both = partial(Card, kind="explainer", gives=frozenset({"visual", "words"}))
_of_truth = partial(_of_both, needs=frozenset({"mechanism"}))

# ---- floors: they have never met the model


@dataclass(frozen=True)
@checked
class Random:
    """Independent uniform noise on `cells` × `cells` map cells, on every word, and on every token of a word.

    What noise scores depends on how fine it is: with `cells` None it is as fine as the maps it stands beside, those of
    the model's visual tokens.
    """

    cells: Annotated[int, Ge(1)] | None = 12
    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_both("control/random", "noise: what a score gives to an explanation that says nothing")

    def __call__(self, session: Session) -> list[Attribution]:
        size = token_grid(session) if self.cells is None else (self.cells, self.cells)
        return [
            Attribution(*noise(session, i, size), space="patch", tokens=_token_noise(session, i))
            for i in range(len(session.samples))
        ]


@dataclass(frozen=True)
@checked
class SmoothNoise:
    """Normal noise blurred with a Gaussian of `width` of the side, round the edge, so that no place is special; its
    absolute value on every cell. Independent noise on every word.

    Most maps are smooth, and what smooth noise scores is not what rough noise does: a blob lies on a region or beside
    it.
    """

    width: Annotated[float, Gt(0)] = 0.1
    cells: Annotated[int, Ge(2)] = 24
    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_both(
        "control/smooth_noise", "smooth noise: what a score gives to a map of blobs that says nothing"
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return [self._explain(session, i) for i in range(len(session.samples))]

    def _explain(self, session: Session, i: int) -> Attribution:
        from scipy.ndimage import gaussian_filter

        rng = session.rng(i, f"control/smooth_noise/{session.model.name}")
        rough = rng.standard_normal((self.cells, self.cells))
        words = session.samples[i].words
        return Attribution(
            np.abs(gaussian_filter(rough, self.width * self.cells, mode="wrap")),
            rng.random(len(words)) if words else None,
            space="patch",
        )


@dataclass(frozen=True)
class Uniform:
    """The same everywhere, on the grid of the model's visual tokens: what plain mass gives for the size of the mask
    alone, and what a compass gives for the layout of the picture."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_both("control/uniform", "the same score everywhere: rewards nothing but a large mask")

    def __call__(self, session: Session) -> list[Attribution]:
        size = token_grid(session)
        return [Attribution(np.ones(size), _ones(len(s.words)), space="patch") for s in session.samples]


@dataclass(frozen=True)
@checked
class Center:
    """A Gaussian in the middle of the image; `width` is its standard deviation as a share of the side."""

    width: Annotated[float, Gt(0)] = 0.25
    cells: Annotated[int, Ge(1)] = 24
    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_image("control/center", "a blob in the middle: the bias of photographs, not of models")

    def __call__(self, session: Session) -> list[Attribution]:
        axis = (np.arange(self.cells) + 0.5) / self.cells - 0.5
        bump = np.exp(-(axis**2) / (2 * self.width**2))
        blob = np.outer(bump, bump)
        return [Attribution(blob, space="patch") for _ in session.samples]


@dataclass(frozen=True)
class Edges:
    """Gradient magnitude of the image's brightness: looks like a saliency map and has never met the model."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_image(
        "control/edges",
        "an edge detector: convincing to the eye, blind to the model",
        citation="Adebayo et al. 2018, Sanity checks for saliency maps",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        return [Attribution(edges(sample.image)) for sample in session.samples]


# ---- references: they know the truth


class OfTruth:
    """The truth of the model's own mechanism as a map, or everything else."""

    inverse: ClassVar[bool]
    passes: ClassVar[int] = 0
    card: ClassVar[Card]

    def __call__(self, session: Session) -> list[Attribution]:
        return [_from_truth(truth, self.inverse) for truth in truths(session, self.card.name)]


@dataclass(frozen=True)
class Oracle(OfTruth):
    """The truth of the model's own mechanism: every region and word it must use scores 1."""

    inverse: ClassVar[bool] = False
    card: ClassVar[Card] = _of_truth(
        "control/oracle", "the truth about this model: the reference that a faithful explanation should reach"
    )


@dataclass(frozen=True)
class InverseOracle(OfTruth):
    """Everything but the truth: the worst explanation there is."""

    inverse: ClassVar[bool] = True
    card: ClassVar[Card] = _of_truth(
        "control/inverse_oracle", "everything but the truth: the worst explanation there is"
    )


@dataclass(frozen=True)
class BoxOnly:
    """The same score everywhere inside the boxes of the target, nothing elsewhere. Knows the answer's object only."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_image(
        "control/box_only",
        "the target's box filled: what plain localisation earns where a relation was asked for",
        citation="creg2026, B.3",
        departures="exact pixels of the box, not visual tokens: the same for every model",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        for sample in session.samples:
            _target_boxes(sample, self.card.name)
        return [Attribution(sample.mask("target").astype(np.float64)) for sample in session.samples]


@dataclass(frozen=True)
class Geometry:
    """All mass on the centre of the target's box (of each, if there are several): the direction itself."""

    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_image(
        "control/geometry",
        "a point at the target's centre: the true direction and nothing else",
        citation="creg2026, B.3",
        departures="drawn as a map and read like any other, so half a sector of error remains; the paper sets it to 0",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        points = []
        for sample in session.samples:
            point = np.zeros(sample.size)
            for x, y, width, height in _target_boxes(sample, self.card.name):
                point[_middle(y, height, sample.size[0]), _middle(x, width, sample.size[1])] = 1.0
            points.append(Attribution(point))
        return points


# ---- the truth made worse


@dataclass(frozen=True)
@checked
class Degraded:
    """The oracle made worse in one way; `level` 0 is the oracle itself.

    noise: a share `level` of the mass is that of control/random, 1 being all of it; ranks stay until noise overtakes
    truth. swap: a share `level` of the cells and words change places at random, so ranks go wrong from the start.
    shift: moved right and down by `level` of the side, round the edge. blur: a Gaussian of standard deviation `level`
    of the side. words: the right objects, and every word but the right ones. other_twin: the truth about the twin with
    the other mechanism, which looks at the same picture for other reasons. The last two have no levels.
    """

    how: Damage = "noise"
    level: Annotated[float, Ge(0), Le(1)] = 0.5
    passes: ClassVar[int] = 0
    card: ClassVar[Card] = _of_truth(
        "control/degraded", "the truth made worse by a known amount: a rung of the ladder that metrics must order"
    )

    @property
    def label(self) -> str:
        return f"control/{self.how}" if self.how in ("words", "other_twin") else f"control/{self.how}({self.level:g})"

    def __call__(self, session: Session) -> list[Attribution]:
        mechanism = session.model.mechanism
        if self.how == "other_twin":
            if mechanism not in OTHER_MECHANISM:
                known = " or ".join(OTHER_MECHANISM)
                raise BadInput(f"control/other_twin needs a model that {known}; this one: {mechanism}.")
            mechanism = OTHER_MECHANISM[mechanism]
        return [self._degrade(session, i, truth) for i, truth in enumerate(truths(session, self.card.name, mechanism))]

    def _degrade(self, session: Session, i: int, truth: Truth) -> Attribution:
        visual: Floats | None = None if truth.visual is None else truth.visual.astype(np.float64)
        words: Floats | None = None if truth.words is None else np.array(truth.words, dtype=np.float64)
        if self.how == "noise":
            map_noise, word_noise = noise(session, i)
            visual = None if visual is None else self._blend(visual, resize_maps(map_noise[None], *visual.shape)[0])
            words = None if words is None or word_noise is None else self._blend(words, word_noise)
        elif self.how == "swap":
            rng = session.rng(i, f"control/swap/{session.model.name}")
            visual = None if visual is None else _swap(pooled(visual, SWAP_CELLS), self.level, rng)
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


# ---- what they are made of


def token_grid(session: Session) -> tuple[int, int]:
    """(rows, columns) of the model's visual tokens, which its maps lie on; `GRID` where nobody can look inside."""
    layout = session.layout
    return GRID if layout is None or layout.grid is None else layout.grid


def noise(session: Session, i: int, size: tuple[int, int] = GRID) -> tuple[Map, Values | None]:
    """A map (rows, columns) and word scores that know nothing of sample i. Another model, other noise: the twins must
    not agree by construction."""
    rng = session.rng(i, f"control/random/{session.model.name}")
    visual = rng.random(size)
    words = session.samples[i].words
    return visual, rng.random(len(words)) if words else None


def _token_noise(session: Session, i: int) -> Values | None:
    """Scores of the tokens of sample i's words, where the model has tokens."""
    if session.inside is None or "text" not in session.model.capabilities or not session.inputs.words:
        return None
    count = sum(stop - start for start, stop in session.inputs.words[i])
    return session.rng(i, f"control/random/{session.model.name}/tokens").random(count) if count else None


def edges(image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Map:
    """(H, W) gradient magnitude of the mean of the channels, by central differences."""
    grey = image.mean(axis=2, dtype=np.float32)
    dy, dx = np.gradient(grey)
    return np.hypot(dx, dy)


def _ones(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    return np.ones(n) if n else None


def _target_boxes(sample: Sample, name: str) -> list[Box]:
    boxes = [box for region in sample.regions if region.role == "target" for box in region.boxes]
    if not boxes:
        raise BadInput(f"{name} needs a region with the role 'target' and a box; sample {sample.id} has none.")
    return boxes


def _middle(start: int, length: int, size: int) -> slice:
    """The pixel in the middle of a stretch; the two middle ones if its length is even. Never outside the image."""
    first = min(max(start + (length - 1) // 2, 0), size - 1)
    return slice(first, min(start + length // 2, size - 1) + 1)


def truths(session: Session, name: str, mechanism: str | None = None) -> list[Truth]:
    """What a model of that mechanism must use on every sample; by default of the mechanism that the model has."""
    mechanism = mechanism or session.model.mechanism
    if mechanism is None:
        raise BadInput(f"{name} needs a model whose mechanism is known; {session.model.name!r} does not say.")
    known = []
    for sample in session.samples:
        truth = sample.truth(mechanism)
        if truth is None:
            raise BadInput(f"sample {sample.id} does not know what a model that {mechanism!r} must use.")
        known.append(truth)
    return known


def _from_truth(truth: Truth, inverse: bool) -> Attribution:
    """A mask as a map. Where it would be all zero it stays so, and is reported as such."""
    visual = None if truth.visual is None else (truth.visual != inverse).astype(np.float64)
    words = None if truth.words is None else (np.array(truth.words, dtype=np.bool_) != inverse).astype(np.float64)
    return Attribution(visual, words, space="pixel")


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

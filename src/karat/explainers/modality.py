"""One number for a sample or a dataset: how much of what the model does needs image and question together.

EMAP, InterSHAP and PID are scores of a block of samples, every image of it with every question of it (`cross_pairs`);
the first sample of a block notes the block's score, `BLOCK`. The Harsanyi dividend is of each sample alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from karat.explainers.coalitional import Coalitional, ImagePlayers, ValueKind, games
from karat.explainers.cross_pairs import BLOCK, blocks, cross_matrices, cross_values
from karat.explainers.partial_information import Information, pid
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike, distinct
from karat.probe.absence import CoalitionAbsence
from karat.probe.session import Session

Array = npt.NDArray[np.float64]
BlockSize = Annotated[int, Ge(2)]
Absent = Literal["background", "absence"]
ONE_ANSWER = "one answer for the whole block: InterSHAP over a background is 1/2 there, whatever the model does"
_card = partial(Card, kind="explainer", needs=frozenset({"text"}), gives=frozenset({"scalar"}))


# ---- two modalities: four values


@dataclass(frozen=True)
class Harsanyi(Coalitional):
    """The Harsanyi dividend, v(both) - v(image) - v(question) + v(nothing): two players, four passes, exact."""

    visual: ImagePlayers = (1, 1)
    passes: ClassVar[int] = 4
    card: ClassVar[Card] = _card(
        "modality/harsanyi",
        "what image and question bring only together, exactly",
        citation="Harsanyi 1963, A simplified bargaining model for the n-person game",
        passes="4",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        nothing, image, question, both = four_values(session, self).T
        dividends = both - image - question + nothing
        return [Attribution(scalar=float(dividend), signed=True, passes=4) for dividend in dividends]


def four_values(session: Session, parameters: Coalitional) -> Array:
    """(N, 4) values of nothing, the image, the question, both. On the parameters' players, so answers are shared."""
    requests = []
    for game in games(session, parameters):
        if not (game.n_visual and game.n_text):
            raise BadInput(f"two modalities need an image and a question; sample {game.setting.sample.id} lacks one.")
        keep = np.zeros((4, game.n), dtype=np.bool_)
        keep[[1, 3], : game.n_visual] = True
        keep[[2, 3], game.n_visual :] = True
        requests.append((game, keep))
    return np.stack(session.evaluate(requests))


@dataclass(frozen=True)
@checked
class InterShap:
    """The share of a prediction that is interaction: |D| / (|D| + |v1 - v0| + |v2 - v0|), D the Harsanyi dividend.

    `absent`: "background" puts the images or questions of the block in the place of an absent one, "absence" shows
    the state `absence` (4 passes). Blocks are runs of `batch` samples at most; the first sample of each notes the score
    of its block, `BLOCK`. For the score of another set use `intershap` on `values_of`.

    With the block as background, a block to all of which the model gives one answer has no score. Let m be the mean
    value of that answer over the samples as they are and g its mean over all crossings. v(both) and v(nothing) average
    to m, v(image) and v(question) to g, so the signed means are 2 (m - g), g - m and g - m: the share is exactly one
    half whatever the model does, unless it is additive.
    """

    absent: Absent = "background"
    batch: BlockSize = 16
    value: ValueKind = "probability"
    absence: CoalitionAbsence = "blur"
    card: ClassVar[Card] = _card(
        "modality/intershap",
        "the share of this prediction that is interaction of image and question",
        version=3,
        range=(0.0, 1.0),
        citation="Wenderoth et al. 2025, Measuring cross-modal interactions (InterSHAP); gridvqax2026 A.3",
        departures="the background is the block, each once, rather than 1000 random draws",
        passes="3 · batch - 2, or 4",
    )

    @property
    def passes(self) -> int:
        return 4 if self.absent == "absence" else 3 * self.batch - 2

    @property
    def hides(self) -> bool:
        return self.absent == "absence"

    def __call__(self, session: Session) -> list[Attribution]:
        table, passes = values_of(session, self.absent, self.batch, self.value, self.absence)
        made = [Attribution(scalar=float(s), passes=p) for s, p in zip(intershap(table).local, passes, strict=True)]
        for block in blocks(session, self.batch, self.card.name) if len(made) > 1 else ():
            first = made[block.start]
            if self.absent == "background" and len(distinct(session.targets[i] for i in block)) == 1:
                made[block.start] = replace(first, notes={BLOCK: np.nan}, reasons={BLOCK: ONE_ANSWER})
            else:
                made[block.start] = replace(first, notes={BLOCK: intershap(table[block.start : block.stop]).overall})
        return made


@dataclass(frozen=True)
class Shares:
    """`local` (N,) per sample, and the `overall` one, whose terms are averaged with their signs before the ratio."""

    local: Array
    overall: float


def intershap(values: npt.ArrayLike) -> Shares:
    """InterSHAP, |D| / (|D| + |v1 - v0| + |v2 - v0|) with D = v12 - v1 - v2 + v0, of each sample and of all.

    Args:
        values: (N, 4) of nothing, the image, the question, both. `values_of` gives those of a session.

    Returns NaN where the model does not react to anything.

    >>> intershap([[0.5, 0.5, 0.5, 1.0], [0.5, 0.5, 0.5, 1.0]]).overall
    1.0
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != 4:
        raise BadInput(f"InterSHAP of two modalities needs (N, 4) values; got shape {table.shape}.")
    nothing, image, question, both = table.T
    terms = np.stack([both - image - question + nothing, image - nothing, question - nothing], axis=1)
    # differences of rounding size are none
    terms[np.abs(terms) < 1e-9 * np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-300)] = 0.0
    return Shares(_share(terms), float(_share(terms.mean(axis=0, keepdims=True))[0]))


def background_values(session: Session, batch: int, value: ValueKind) -> tuple[Array, list[int]]:
    """(N, 4) values of the answer to each sample, and passes: an absent modality is that of other samples in turn.

    Nothing present is the mean prediction, over the samples as they are.
    """
    triples: list[tuple[TargetLike, int, int]] = []
    sizes = []
    for members in blocks(session, batch, "InterSHAP"):
        for i in members:
            pairs = [(i, i), *((i, k) for k in members), *((k, i) for k in members), *((k, k) for k in members)]
            triples += [(session.targets[i], image, question) for image, question in pairs]
            sizes.append(len(members))
    values = cross_values(session, Coalitional(value=value), triples)
    table = []
    for own, n in zip(np.split(values, np.cumsum([1 + 3 * n for n in sizes])[:-1]), sizes, strict=True):
        image, question, nothing = own[1:].reshape(3, n).mean(axis=1)
        table.append([nothing, image, question, own[0]])
    return np.array(table), [3 * n - 2 for n in sizes]


def values_of(
    session: Session,
    absent: Absent = "background",
    batch: int = 16,
    value: ValueKind = "probability",
    absence: CoalitionAbsence = "blur",
) -> tuple[Array, list[int]]:
    """(N, 4) values of all samples of a session, as `intershap` takes them, and passes per sample."""
    if absent == "background":
        return background_values(session, batch, value)
    table = four_values(session, Coalitional(visual=(1, 1), absence=absence, value=value))
    return table, [4] * len(table)


def _share(terms: Array) -> Array:
    sizes = np.abs(terms)
    total = sizes.sum(axis=1)
    return np.divide(sizes[:, 0], total, out=np.full(len(terms), np.nan), where=total > 0)


# ---- every image with every question


@dataclass(frozen=True)
@checked
class OfBlock:
    """Scores of a block's samples, from the values of every image of it with every question of it."""

    batch: BlockSize = 16
    value: ValueKind = "auto"
    card: ClassVar[Card]
    signed: ClassVar[bool] = False

    @property
    def passes(self) -> int:
        return self.batch**2

    def scores(self, table: Array, given: Sequence[int]) -> tuple[Sequence[float], float]:
        """Of every sample and of the block: table (N, N, answers) by image and question, `given` the place (N,) of each
        sample's own answer."""
        raise NotImplementedError

    def __call__(self, session: Session) -> list[Attribution]:
        made = []
        for block, answers, table in _block_tables(session, self.batch, self.value, self.card.name):
            own, overall = self.scores(table, [answers.index(session.targets[i]) for i in block])
            for row, score in enumerate(own):
                notes = {} if row else {BLOCK: overall}
                passes = len(block) * len(answers)
                made.append(Attribution(scalar=float(score), signed=self.signed, passes=passes, notes=notes))
        return made


class Emap(OfBlock):
    """logit - projection of each sample: what the additive model of its block cannot explain. (DIME calls it MI.)

    Blocks are runs of `batch` samples at most. The first sample of each notes the score of its block, `BLOCK`: the
    `interaction_share` over the answers that the model gave there.
    """

    signed: ClassVar[bool] = True
    card: ClassVar[Card] = _card(
        "modality/emap",
        "the part of the answer that image and question bring only together",
        version=2,
        citation="Hessel & Lee 2020, Does my multimodal model learn cross-modal interactions?; gridvqax2026 A.3",
        departures="per sample and over its block; the fraction that gridvqax2026 reports is not defined there, ours "
        "is the share of the two-way sum of squares",
        passes="batch²",
    )

    def scores(self, table: Array, given: Sequence[int]) -> tuple[Sequence[float], float]:
        projection = emap(table)
        left = projection.original - projection.projected
        return left[np.arange(len(left)), given].tolist(), projection.interaction_share


class Pid(OfBlock):
    """The share of the answer's bits that image and question give only together: one number for a whole block.

    The model chooses among the answers that it gave in the block; blocks are runs of `batch` samples at most. On N
    images and N questions even a model that ignores the image gives it about (N - 1) (answers - 1) / (2 N² ln 2) bits.
    """

    card: ClassVar[Card] = _card(
        "modality/pid",
        "the share of the answer's information that image and question give only together",
        range=(0.0, 1.0),
        citation="Bertschinger et al. 2014, Quantifying unique information; Liang et al. 2023; gridvqax2026 A.3",
        departures="discrete and exact over the inputs of a block; gridvqax2026 speaks of a Gaussian estimator "
        "(`pid_gaussian`) and releases none",
        passes="batch²",
    )

    def scores(self, table: Array, given: Sequence[int]) -> tuple[Sequence[float], float]:
        share = synergy_share(pid_of_answers(table.argmax(axis=-1)))
        return [share] * len(table), share


def _block_tables(
    session: Session, size: int, value: ValueKind, name: str
) -> Iterator[tuple[range, list[TargetLike], Array]]:
    """Each block, the answers that the model gave in it, and their values (N, N, answers): image, question, answer.

    All blocks are asked for together.
    """
    members = blocks(session, size, name)
    answers = [distinct(session.targets[i] for i in block) for block in members]
    pairs = [(answer, block) for block, given in zip(members, answers, strict=True) for answer in given]
    matrices = iter(cross_matrices(session, Coalitional(value=value), pairs))
    for block, given in zip(members, answers, strict=True):
        yield block, given, np.stack([next(matrices) for _ in given], axis=-1)


@dataclass(frozen=True)
class Projection:
    """`projected` (N,) or (N, classes) are the additive model's logits of the paired inputs, `original` the model's.

    `interaction_share` is the share of the two-way sum of squares that neither modality explains alone (0: additive,
    1: interaction only), averaged over classes by their sums of squares. `accuracy`, `projected_accuracy` and their
    difference `accuracy_gain` where labels were given.
    """

    original: Array
    projected: Array
    interaction_share: float
    accuracy: float | None = None
    projected_accuracy: float | None = None

    @property
    def accuracy_gain(self) -> float | None:
        """What interaction adds to accuracy."""
        if self.accuracy is None or self.projected_accuracy is None:
            return None
        return self.accuracy - self.projected_accuracy


def emap(logits: npt.ArrayLike, labels: Sequence[int] | None = None) -> Projection:
    """Empirical multimodally-additive projection: the best sum of a part of the image and a part of the question.

    Args:
        logits: (N, N) or (N, N, classes), of image i with question j.
        labels: N numbers of the right classes, for accuracies; needs classes.

    >>> emap([[-1.3, 0.3, -0.2], [0.8, 3.0, 1.1], [1.1, -0.1, 0.7]]).projected.round(6).tolist()
    [-0.8, 2.1, 0.5]
    """
    table = np.asarray(logits, dtype=np.float64)
    if table.ndim not in (2, 3) or table.shape[0] != table.shape[1] or len(table) < 2:
        raise BadInput(f"EMAP needs logits (N, N) or (N, N, classes) of N >= 2 samples; got shape {table.shape}.")
    grand = table.mean(axis=(0, 1), keepdims=True)
    image, question = table.mean(axis=1, keepdims=True) - grand, table.mean(axis=0, keepdims=True) - grand
    additive = grand + image + question
    total = float(((table - grand) ** 2).sum())
    left = float(((table - additive) ** 2).sum())
    own = np.arange(len(table))
    original, projected = table[own, own], additive[own, own]
    # below what rounding leaves of an additive table there is nothing to share out
    share = left / total if total > 1e-20 * float((table**2).sum()) else 0.0
    if labels is None:
        return Projection(original, projected, share)
    if table.ndim != 3 or len(labels) != len(table):
        raise BadInput(
            f"accuracy needs logits (N, N, classes) and N labels; got {table.shape} and {len(labels)} labels."
        )
    right, still = (float(np.mean(scores.argmax(axis=1) == np.asarray(labels))) for scores in (original, projected))
    return Projection(original, projected, share, right, still)


def emap_of(session: Session, answers: Sequence[str], value: ValueKind = "auto") -> Projection:
    """EMAP of all samples of a session over the given answers; accuracy against the samples' own answers, if known.

    Costs N² passes for each answer.
    """
    [everyone] = blocks(session, len(session.samples), "EMAP")
    pairs = [(answer, everyone) for answer in answers]
    table = np.stack(cross_matrices(session, Coalitional(value=value), pairs), axis=-1)
    truth = [sample.answer for sample in session.samples]
    known = all(answer in answers for answer in truth)
    return emap(table, [list(answers).index(str(answer)) for answer in truth] if known else None)


def pid_of_answers(answers: npt.ArrayLike) -> Information:
    """Answers (N, M) to N images with M questions, both drawn evenly: nothing is estimated, the table is the truth.

    >>> round(pid_of_answers([["yes", "no"], ["no", "yes"]]).synergistic, 5)
    1.0
    """
    table = np.asarray(answers)
    numbers = np.unique(table, return_inverse=True)[1].reshape(table.shape)
    joint = np.zeros((*table.shape, int(numbers.max()) + 1))
    np.put_along_axis(joint, numbers[..., None], 1.0, axis=2)
    return pid(joint)


def synergy_share(parts: Information) -> float:
    """Synergistic bits as a share of all the bits that image and question give; 0 for a model that always says one."""
    return parts.synergistic / parts.total if parts.total > 1e-9 else 0.0

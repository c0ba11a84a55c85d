"""InterSHAP: the share of a prediction that is interaction of the modalities, for a sample and for a dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from karat.explainers.asking import Asking, ValueKind
from karat.explainers.crossing import BLOCK, blocks, crossed
from karat.explainers.modality.harsanyi import four_values
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike
from karat.probe.session import Session

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """`local` (N,) per sample, and the `overall` one, whose terms are averaged with their signs before the ratio."""

    local: Array
    overall: float


def intershap(values: npt.ArrayLike) -> Shares:
    """From values (N, 4) of nothing, the image, the question, both: |D| / (|D| + |v1 - v0| + |v2 - v0|),
    D = v12 - v1 - v2 + v0. NaN where the model does not react to anything.

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
    wanted: list[tuple[TargetLike, int, int]] = []
    places = []
    for members in blocks(session, batch, "InterSHAP"):
        for i in members:
            pairs = [(i, i), *((i, k) for k in members), *((k, i) for k in members), *((k, k) for k in members)]
            wanted += [(session.targets[i], image, question) for image, question in pairs]
            places.append(len(members))
    values = np.split(crossed(session, Asking(value=value), wanted), np.cumsum([1 + 3 * n for n in places])[:-1])
    table = []
    for own, n in zip(values, places, strict=True):
        image, question, nothing = own[1:].reshape(3, n).mean(axis=1)
        table.append([nothing, image, question, own[0]])
    return np.array(table), [3 * n - 2 for n in places]


def values_of(
    session: Session,
    absent: Literal["background", "absence"] = "background",
    batch: int = 16,
    value: ValueKind = "probability",
    absence: str = "blur",
) -> tuple[Array, list[int]]:
    """(N, 4) values of all samples of a session, as `intershap` takes them, and passes per sample."""
    if absent == "background":
        return background_values(session, batch, value)
    table = four_values(session, Asking(visual=(1, 1), absence=absence, value=value))
    return table, [4] * len(table)


@dataclass(frozen=True)
class InterShap:
    """`absent`: "background" puts the images or questions of the block in the place of an absent one, "absence" shows
    the state `absence` (4 passes). Blocks are runs of `batch` samples at most; the first sample of each notes the score
    of its block, `BLOCK`. For the score of another set use `intershap` on `values_of`.
    """

    absent: Literal["background", "absence"] = "background"
    batch: int = 16
    value: ValueKind = "probability"
    absence: str = "blur"
    card: ClassVar[Card] = Card(
        "modality/intershap",
        "the share of this prediction that is interaction of image and question",
        "explainer",
        version=2,
        needs=frozenset({"text"}),
        gives=frozenset({"scalar"}),
        range=(0.0, 1.0),
        citation="Wenderoth et al. 2025, Measuring cross-modal interactions (InterSHAP); gridvqax2026 A.3",
        departures="the background is the block, each once, rather than 1000 random draws",
        passes="3 · batch - 2, or 4",
    )

    @property
    def passes(self) -> int:
        return 4 if self.absent == "absence" else 3 * self.batch - 2

    def __call__(self, session: Session) -> list[Attribution]:
        table, passes = values_of(session, self.absent, self.batch, self.value, self.absence)
        found = [Attribution(scalar=float(s), passes=p) for s, p in zip(intershap(table).local, passes, strict=True)]
        for block in blocks(session, self.batch, self.card.name) if len(found) > 1 else ():
            overall = intershap(table[block.start : block.stop]).overall
            found[block.start] = replace(found[block.start], notes={BLOCK: overall})
        return found


def _share(terms: Array) -> Array:
    sizes = np.abs(terms)
    total = sizes.sum(axis=1)
    return np.divide(sizes[:, 0], total, out=np.full(len(terms), np.nan), where=total > 0)

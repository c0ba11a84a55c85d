"""The language in which gridprog's weights are written: heads and units over named directions of the residual stream.

A `Mix` is a linear form on the stream, `{"says red": 1.0, "one": -0.5}`. Nothing here is executed by the model: `build`
turns each head and unit into rows of ordinary weight matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from karat.datasets.grid import World
from karat.models.gridprog.lexicon import MAX_WORDS

Mix = Mapping[str, float]
Floats = npt.NDArray[np.floating[Any]]
Kind = Literal["readout", "null", "cell", "word"]

READOUT, NULL, FIRST_CELL = 0, 1, 2  # positions in the sequence: readout, null, cells row by row, words
BLOCKED = -1e4  # a score that no match can make up for


def scaled(mix: Mix, by: float) -> dict[str, float]:
    return {name: by * weight for name, weight in mix.items()}


def added(*mixes: Mix) -> dict[str, float]:
    total: dict[str, float] = {}
    for mix in mixes:
        for name, weight in mix.items():
            total[name] = total.get(name, 0.0) + weight
    return total


@dataclass(frozen=True)
class Reach:
    """Which tokens a head may look at, from where: a fixed bias per pair of positions.

    The bias is `offset - slope * distance`; distance is in words, the readout standing just before the first. `order`
    says whether a key must come before or after its query in the text. Pairs in no reach are blocked.
    """

    query: Kind
    key: Kind
    offset: float = 0.0
    slope: float = 0.0
    order: Literal["any", "before", "after"] = "any"


@dataclass(frozen=True)
class Head:
    """score(i, j) = Σ (query · x_i)(key · x_j) + bias(i, j); it writes value · x_j into the named directions of x_i.

    Every token may also look at the null token, whose score is `null` and which has nothing to say: a head that finds
    nothing leaves the stream as it is.
    """

    name: str
    scores: tuple[tuple[Mix, Mix], ...]
    writes: tuple[tuple[Mix, str], ...]
    reaches: tuple[Reach, ...]
    null: float = 0.0


@dataclass(frozen=True)
class Unit:
    """sigmoid(reads · x), added to one direction of the stream."""

    reads: Mix
    writes: str


class Stream:
    """The residual stream: one name per dimension."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._place = {name: place for place, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def row(self, mix: Mix) -> Floats:
        """(width,) the linear form of a mix."""
        row = np.zeros(len(self.names))
        for name, weight in mix.items():
            row[self._place[name]] += weight
        return row

    def rows(self, mixes: Sequence[Mix]) -> Floats:
        """(len(mixes), width)"""
        return np.stack([self.row(mix) for mix in mixes]) if mixes else np.zeros((0, len(self)))


def kinds(world: World) -> list[Kind]:
    """What stands at each position of the longest sequence."""
    return ["readout", "null", *["cell"] * world.n_cells, *["word"] * MAX_WORDS]  # type: ignore[list-item]


def bias(head: Head, world: World) -> Floats:
    """(length, length) the fixed part of a head's scores, queries by rows."""
    kind = np.array(kinds(world))
    length = len(kind)
    place = np.where(kind == "word", np.arange(length) - (FIRST_CELL + world.n_cells) + 1, 0)  # 0 is the readout's
    ahead = place[None, :] - place[:, None]
    table = np.full((length, length), BLOCKED)
    for reach in head.reaches:
        pairs = (kind == reach.query)[:, None] & (kind == reach.key)[None, :]
        if reach.order != "any":
            pairs &= ahead < 0 if reach.order == "before" else ahead > 0
        table[pairs] = (reach.offset - reach.slope * abs(ahead))[pairs]
    table[:, NULL] = head.null
    return table

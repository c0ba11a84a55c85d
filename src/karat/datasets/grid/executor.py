"""An independent executor: it reads the *text* of a question and the objects of a scene, and nothing else.

It shares no code with the sampler or the certificate. It parses words, finds the anchors by looking for them, and
compares coordinates. It is what `audit` believes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput

Codes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

NO_ANSWER = -1
# Answers as integers: counts are themselves, so the rest lies above any count.
YES, NO, LEFT, RIGHT, ABOVE, BELOW = 10_000, 10_001, 10_002, 10_003, 10_004, 10_005
WORDS = {YES: "yes", NO: "no", LEFT: "left", RIGHT: "right", ABOVE: "above", BELOW: "below", NO_ANSWER: "(none)"}


def answer_number(text: str) -> int:
    """The integer of an answer given as text.

    >>> answer_number("7"), answer_number("yes") == YES
    (7, True)
    """
    for number, name in WORDS.items():
        if name == text:
            return number
    if not text.isdigit():
        raise BadInput(f"an answer is a count, yes, no, left, right, above or below; got {text!r}")
    return int(text)


@dataclass(frozen=True)
class Clause:
    """One noun with its constraints: (colour or None, shape or None), and (relation, noun) for each anchor."""

    noun: tuple[str | None, str | None]
    constraints: tuple[tuple[str, tuple[str | None, str | None]], ...]


@dataclass(frozen=True)
class Query:
    """A parsed question: what is asked, and of which clauses (two in a comparison)."""

    kind: str  # how many | is there | more | where
    clauses: tuple[Clause, ...]


_RELATION = r"left of|right of|above|below"


@lru_cache(maxsize=200_000)
def parse(text: str, world: World) -> Query:
    """Read a question. Raises `BadInput` with the part that it cannot read."""
    body = text.removesuffix("?")
    if body == text:
        raise BadInput(f"a question ends with '?', got {text!r}")
    if match := re.fullmatch(r"Where is (.+) relative to (.+)", body):
        anchor = ("relative to", _noun(match[2], world))
        return Query("where", (Clause(_noun(match[1], world), (anchor,)),))
    if match := re.fullmatch(r"Are there more (.+) than (.+)", body):
        return Query("more", (_clause(match[1], world), _clause(match[2], world)))
    if match := re.fullmatch(r"How many (.+)", body):
        return Query("how many", (_clause(re.sub(r" (?:that )?are ", " ", match[1], count=1), world),))
    if match := re.fullmatch(r"Is there any (.+)", body):
        return Query("is there", (_clause(match[1].replace(" that is ", " ", 1), world),))
    raise BadInput(f"cannot read the question {text!r}")


def _clause(text: str, world: World) -> Clause:
    pieces = re.split(rf"(?:,? and |, | )({_RELATION}) ", text)
    constraints = [(pieces[k], _noun(pieces[k + 1], world)) for k in range(1, len(pieces), 2)]
    return Clause(_noun(pieces[0], world), tuple(constraints))


def _noun(text: str, world: World) -> tuple[str | None, str | None]:
    words = text.split(" ")
    colour = words[0] if words[0] in world.colours else None
    last = words[-1]
    singular = next((shape for shape in (*world.shapes, "object") if last in (shape, shape + "s", shape + "es")), None)
    if singular is None or len(words) != 1 + (colour is not None):
        raise BadInput(f"cannot read the noun {text!r}")
    return colour, None if singular == "object" else singular


class Asked:
    """Questions of one structure, as columns, so that many scenes are executed at once."""

    def __init__(self, queries: Sequence[Query], world: World) -> None:
        self.world = world
        self.kind = queries[0].kind
        self.sides = [len(clause.constraints) for clause in queries[0].clauses]
        if any(q.kind != self.kind or [len(c.constraints) for c in q.clauses] != self.sides for q in queries):
            raise BadInput("questions of different structure cannot be executed together")
        self.targets = [self._nouns([q.clauses[s].noun for q in queries]) for s in range(len(self.sides))]
        places = [(s, k) for s, number in enumerate(self.sides) for k in range(number)]
        self.side_of = [s for s, _ in places]
        self.anchors = [self._nouns([q.clauses[s].constraints[k][1] for q in queries]) for s, k in places]
        self.relations = [np.array([q.clauses[s].constraints[k][0] for q in queries]) for s, k in places]
        shapes = world.n_shapes
        self._colour_of = np.array([255, *[code // shapes for code in range(world.n_classes)]], dtype=np.uint8)
        self._shape_of = np.array([255, *[code % shapes for code in range(world.n_classes)]], dtype=np.uint8)
        self._x = (np.arange(world.n_cells) % world.size).astype(np.int8)
        self._y = (np.arange(world.n_cells) // world.size).astype(np.int8)
        self._horizontal = [np.isin(names, ("left of", "right of")) for names in self.relations]
        self._smaller = [np.isin(names, ("left of", "above")) for names in self.relations]

    def _nouns(self, nouns: Sequence[tuple[str | None, str | None]]) -> tuple[Codes | None, Codes | None]:
        """Wanted colours and shapes (m,), or None where this kind of question does not name them."""
        colours = [self.world.colours.index(c) for c, _ in nouns if c is not None]
        shapes = [self.world.shapes.index(s) for _, s in nouns if s is not None]
        if len(colours) not in (0, len(nouns)) or len(shapes) not in (0, len(nouns)):
            raise BadInput("questions of different structure cannot be executed together")
        return np.array(colours, np.uint8) if colours else None, np.array(shapes, np.uint8) if shapes else None

    def matches(self, codes: Codes, noun: tuple[Codes | None, Codes | None], rows: Any) -> npt.NDArray[np.bool_]:
        """(m, P) objects that a noun describes."""
        matching = codes > 0
        if noun[0] is not None:
            matching &= self._colour_of[codes] == noun[0][rows][:, None]
        if noun[1] is not None:
            matching &= self._shape_of[codes] == noun[1][rows][:, None]
        return matching

    def inside(self, codes: Codes, k: int, rows: Any) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """(m, P) cells that satisfy constraint k, and (m,) whether its anchor is there and is the only one."""
        hits = self.matches(codes, self.anchors[k], rows)
        at = hits.argmax(axis=1)
        one = hits.sum(axis=1) == 1
        horizontal = self._horizontal[k][rows]
        line = np.where(horizontal, self._x[at], self._y[at])[:, None]
        along = np.where(horizontal[:, None], self._x[None, :], self._y[None, :])
        return np.where(self._smaller[k][rows][:, None], along < line, along > line), one

    def counts(self, codes: Codes, rows: Any = slice(None), dropped: frozenset[int] = frozenset()) -> Places:
        """(m, sides) objects that satisfy each clause, constraints in `dropped` aside; -1 if an anchor is amiss."""
        matching = [self.matches(codes, noun, rows) for noun in self.targets]
        sound = np.ones(len(codes), dtype=np.bool_)
        for k, side in enumerate(self.side_of):
            if k in dropped:
                continue
            region, one = self.inside(codes, k, rows)
            matching[side] = matching[side] & region
            sound &= one
        counts = np.stack([mask.sum(axis=1) for mask in matching], axis=1).astype(np.int64)
        counts[~sound] = NO_ANSWER
        return counts

    def execute(self, codes: Codes, rows: Any = slice(None), dropped: frozenset[int] = frozenset()) -> Places:
        """(m,) answers of scenes (m, P) to the questions `rows`, with some constraints ignored if asked."""
        if self.kind == "where":
            return self._where(codes, rows)
        counts = self.counts(codes, rows, dropped)
        if self.kind == "how many":
            return counts[:, 0]
        yes = counts[:, 0] > 0 if self.kind == "is there" else counts[:, 0] > counts[:, 1]
        return np.where(counts[:, 0] == NO_ANSWER, NO_ANSWER, np.where(yes, YES, NO))

    def _where(self, codes: Codes, rows: Any) -> Places:
        target = self.matches(codes, self.targets[0], rows)
        anchor = self.matches(codes, self.anchors[0], rows)
        sound = (target.sum(axis=1) == 1) & (anchor.sum(axis=1) == 1)
        t, a = target.argmax(axis=1), anchor.argmax(axis=1)
        dx, dy = self._x[t] - self._x[a], self._y[t] - self._y[a]
        sideways = np.where(dx < 0, LEFT, RIGHT)
        upright = np.where(dy < 0, ABOVE, BELOW)
        answer = np.where(abs(dx) > abs(dy), sideways, np.where(abs(dy) > abs(dx), upright, NO_ANSWER))
        return np.where(sound, answer, NO_ANSWER).astype(np.int64)

    def lead(self, codes: Codes) -> Places:
        """(m,) in "where" questions, by how many cells one axis dominates the other."""
        rows = slice(None)
        t = self.matches(codes, self.targets[0], rows).argmax(axis=1)
        a = self.matches(codes, self.anchors[0], rows).argmax(axis=1)
        gap = abs(self._x[t].astype(np.int64) - self._x[a]) - abs(self._y[t].astype(np.int64) - self._y[a])
        lead: Places = abs(gap)
        return lead


def execute(text: str, cells: npt.NDArray[Any], world: World) -> str:
    """The answer to one question about one scene (S, S) of object codes.

    >>> import numpy as np
    >>> execute("How many red circles are left of blue square?", np.array([[1, 0], [0, 10]]), World(size=2))
    '1'
    """
    number = int(Asked([parse(text, world)], world).execute(cells.reshape(1, -1).astype(np.uint8))[0])
    return WORDS.get(number, str(number))

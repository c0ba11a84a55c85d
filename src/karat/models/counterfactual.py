"""Changed questions and changed scenes, with their new truths: the interventions that `verify` makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.compass import position_answer
from karat.datasets.grid.executor import WORDS, Asked, parse
from karat.datasets.grid.scenes import (
    ADVERSARIAL,
    ADVERSARIAL_2,
    DISTRACTOR,
    EMPTY,
    LEFT,
    TARGET,
    TARGET_2,
    SceneBatch,
    answers,
)
from karat.datasets.grid.widened import KINDS, widen

Texts = np.ndarray[tuple[int], np.dtype[np.str_]]
Rows = npt.NDArray[np.int64]
UNDEFINED = "(none)"


@dataclass(frozen=True, eq=False)
class Verdicts:
    """(n,) what a model that reasons must say, and what one that matches words must say."""

    truth: Texts
    shortcut: Texts


def verdicts(batch: SceneBatch) -> Verdicts:
    """By the grid world's independent executor, from the text and the scene; the shortcut drops every relation."""
    questions = Asked([parse(text, batch.world) for text in batch.questions], batch.world)
    truth = _texts(questions.execute(batch.cells))
    if batch.bucket.qtype == "REL":
        at = questions.matches(batch.cells, questions.targets[0], slice(None)).argmax(axis=1)
        shortcut = np.array(answers(batch.world))[LEFT + position_answer(batch.world, at)]
    else:
        shortcut = _texts(questions.execute(batch.cells, dropped=frozenset(range(len(questions.side_of)))))
    return Verdicts(truth, shortcut)


def _texts(numbers: npt.NDArray[np.int64]) -> Texts:
    return np.array([WORDS.get(number, str(number)) for number in numbers.tolist()])


def changed(batch: SceneBatch, change: str, seed: int) -> tuple[Rows, SceneBatch]:
    """The rows on which the change tells something, and the batch of those rows after it.

    A row tells something if something did change, if the new question has an answer and, for all but the removal of
    filler and scenes beyond the certified laws, if that answer is a new one for the mechanism that must notice: a model
    that does not move is then wrong on every row.
    """
    notices, make = CHANGES[change]
    after = make(batch, seed)
    if after is None:
        return np.zeros(0, dtype=np.int64), batch.take([])
    old, new = verdicts(batch), verdicts(after)
    same_scene = (batch.cells == after.cells).all(axis=1)
    same_text = np.array(batch.questions) == np.array(after.questions)
    telling = (new.truth != UNDEFINED) & ~(same_scene & same_text)
    for name in notices:
        telling &= getattr(old, name) != getattr(new, name)
    rows = np.flatnonzero(telling)
    return rows, after.take(rows)


def _turn_relations(batch: SceneBatch, seed: int) -> SceneBatch | None:
    """ "left of" for "right of", "above" for "below", and back."""
    if not batch.bucket.relational or batch.bucket.qtype == "REL":
        return None
    return replace(batch, directions=batch.directions ^ 1)


def _swap_header(batch: SceneBatch, seed: int) -> SceneBatch | None:
    """ "How many" for "Is there any", and back."""
    if batch.bucket.task not in ("count", "exist"):
        return None
    return replace(batch, bucket=replace(batch.bucket, form=1 - batch.bucket.form))


def _swap_target(batch: SceneBatch, seed: int) -> SceneBatch | None:
    """Another target noun. A comparison changes sides; REL exchanges target and anchor, whose places stay unique.

    Elsewhere: of the nouns of that kind that the question does not use, the first in random order that changes truth
    and shortcut both, or else the last one tried.
    """
    if batch.bucket.qtype == "CMP":
        return replace(batch, target_nouns=batch.target_nouns[:, ::-1])
    if batch.bucket.qtype == "REL":
        cells = (batch.roles == TARGET).argmax(axis=1)[:, None]
        return replace(batch, target_nouns=batch.anchor_nouns, anchor_nouns=batch.target_nouns, anchor_cells=cells)
    old = verdicts(batch)
    nouns = _nouns_like(batch.target_nouns[0, 0], batch)
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(len(nouns)), (len(batch), 1)), axis=1)
    target, settled = batch.target_nouns.copy(), np.zeros(len(batch), dtype=np.bool_)
    for turn in range(len(nouns)):
        offer = nouns[order[:, turn]]
        named = np.concatenate([batch.target_nouns, batch.anchor_nouns], axis=1)
        usable = ~settled & ~(named == offer[:, None]).all(axis=2).any(axis=1)
        target[usable, 0] = offer[usable]
        new = verdicts(replace(batch, target_nouns=target))
        settled |= usable & (new.truth != old.truth) & (new.shortcut != old.shortcut)
    return replace(batch, target_nouns=target)


def _nouns_like(noun: npt.NDArray[np.int64], batch: SceneBatch) -> npt.NDArray[np.int64]:
    """(m, 2) all nouns of the same kind: a shape, a colour, or both."""
    colours = range(batch.world.n_colours) if noun[0] >= 0 else [-1]
    shapes = range(batch.world.n_shapes) if noun[1] >= 0 else [-1]
    return np.array([(colour, shape) for colour in colours for shape in shapes])


def _without(*roles: int) -> Callable[[SceneBatch, int], SceneBatch | None]:
    def make(batch: SceneBatch, seed: int) -> SceneBatch | None:
        gone = np.isin(batch.roles, roles)
        if not gone.any():
            return None
        return replace(batch, cells=np.where(gone, 0, batch.cells), roles=np.where(gone, EMPTY, batch.roles))

    return make


def _widened(kind: str) -> Callable[[SceneBatch, int], SceneBatch | None]:
    """A scene beyond the certified laws (`karat.datasets.grid.widened`)."""

    def make(batch: SceneBatch, seed: int) -> SceneBatch | None:
        return widen(batch, kind, np.random.default_rng(seed))

    return make


CHANGES: dict[str, tuple[tuple[str, ...], Callable[[SceneBatch, int], SceneBatch | None]]] = {
    "relations turned": (("truth",), _turn_relations),
    "header swapped": (("truth", "shortcut"), _swap_header),
    "target swapped": (("truth", "shortcut"), _swap_target),
    "adversarial removed": (("shortcut",), _without(ADVERSARIAL, ADVERSARIAL_2)),
    "targets removed": (("truth",), _without(TARGET, TARGET_2)),
    "filler removed": ((), _without(DISTRACTOR)),
    **{kind: ((), _widened(kind)) for kind in KINDS},
}

"""Every image of a batch with every question of it: the matrix that DIME, EMAP and InterSHAP are made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from karat.explainers.coalitional import Coalitional, game_of
from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike
from karat.probe.session import Session

Matrix = npt.NDArray[np.float64]  # (N, N): image, question
BLOCK = "block"  # the note in which the first sample of a block carries the block's score


def cross_values(
    session: Session, parameters: Coalitional, triples: Sequence[tuple[TargetLike, int, int]]
) -> npt.NDArray[np.float64]:
    """Values of (answer, image, question) triples, in full batches; known ones come out of memory."""
    requests = []
    for target, image, question in triples:
        game = game_of(session, image, parameters, visual=(1, 1), target=target, question=question)
        requests.append((game, np.ones((1, game.n), dtype=np.bool_)))
    return np.concatenate(session.evaluate(requests)) if requests else np.empty(0)


def cross_matrices(
    session: Session, parameters: Coalitional, answers: Sequence[tuple[TargetLike, Sequence[int]]]
) -> list[Matrix]:
    """For each (answer, samples) its values (N, N) on the image of one with the question of another."""
    triples = [(target, j, k) for target, members in answers for j in members for k in members]
    values = cross_values(session, parameters, triples)
    ends = np.cumsum([len(members) ** 2 for _, members in answers])
    parts = np.split(values, ends[:-1])
    return [part.reshape(len(members), -1) for part, (_, members) in zip(parts, answers, strict=True)]


def references(session: Session, i: int, count: int, name: str) -> list[int]:
    """Sample i and the samples after it in the batch, around its end: at most `count`."""
    n = _at_least_two(len(session.samples), name)
    return [(i + step) % n for step in range(min(n, count))]


def blocks(session: Session, size: int, name: str) -> list[range]:
    """The samples of a session in even runs of at most `size` (never of one): each the population of its members.

    Scores of a dataset are made of such a block; blocks share no samples, so their scores are independent.
    """
    n = _at_least_two(len(session.samples), name)
    ends = np.linspace(0, n, min(-(-n // size), n // 2) + 1).round().astype(int).tolist()
    return [range(start, stop) for start, stop in pairwise(ends)]


def _at_least_two(n: int, name: str) -> int:
    if n < 2:
        raise BadInput(f"{name} compares samples of a batch with one another; it needs two or more, got {n}.")
    return n

"""Every image of a batch with every question of it: the matrix that DIME, EMAP and InterSHAP are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from assay.explainers.asking import Asking, game_of
from assay.kernel.errors import BadInput
from assay.probe.session import Session

Matrix = npt.NDArray[np.float64]  # (N, N): image, question


def crossed(
    session: Session, asking: Asking, target: str, pairs: Sequence[tuple[int, int]], visual: tuple[int, int] = (1, 1)
) -> npt.NDArray[np.float64]:
    """Values (pairs,) of one answer on image j with question k, in full batches; known ones come out of memory."""
    requests = []
    for j, k in pairs:
        game = game_of(session, j, asking, visual=visual, target=target, question=k)
        requests.append((game, np.ones((1, game.n), dtype=np.bool_)))
    return np.concatenate(session.evaluate(requests)) if requests else np.empty(0)


def crossed_matrix(session: Session, asking: Asking, target: str, members: Sequence[int] | None = None) -> Matrix:
    """(N, N) values of `target` for the samples `members` (default: all of the session)."""
    members = range(len(session.samples)) if members is None else members
    pairs = [(j, k) for j in members for k in members]
    return crossed(session, asking, target, pairs).reshape(len(members), len(members))


def references(session: Session, i: int, count: int, name: str) -> list[int]:
    """Sample i and the samples after it in the batch, around its end: at most `count`."""
    n = len(session.samples)
    if min(n, count) < 2:
        raise BadInput(
            f"{name} compares samples of a batch with one another; it needs two or more, got {min(n, count)}."
        )
    return [(i + step) % n for step in range(min(n, count))]

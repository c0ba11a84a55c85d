"""Partial inputs: cells hidden in an empty state, and what is to be said of what is left.

Hidden means empty: a target that is hidden does not count, and an anchor that is hidden binds nothing, as in
`gridprog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.recount import recount
from karat.datasets.grid.sample import assemble
from karat.datasets.grid.scenes import ADVERSARIAL, ADVERSARIAL_2, ANCHOR, TARGET, TARGET_2, SceneBatch
from karat.kernel.empty import empty_image
from karat.kernel.sample import Sample
from karat.kernel.typing import Image

Bools = npt.NDArray[np.bool_]
Texts = np.ndarray[tuple[int], np.dtype[np.str_]]


@dataclass(frozen=True, eq=False)
class Partial:
    """Rows of a batch with cells `gone` (n, P), and the two answers to what is left."""

    test: str
    rows: npt.NDArray[np.int64]
    gone: Bools
    truth: Texts
    shortcut: Texts


def matters(batch: SceneBatch, mechanism: str) -> Bools:
    """(n, P) cells that a mechanism must use: targets and anchors, or whatever the words match."""
    matched = (TARGET, TARGET_2) if mechanism == "reasons" else (TARGET, TARGET_2, ADVERSARIAL, ADVERSARIAL_2)
    used = np.isin(batch.roles, matched)
    return used | (batch.roles >= ANCHOR) if mechanism == "reasons" else used


def partials(batch: SceneBatch, mechanism: str, seed: int) -> Iterator[Partial]:
    """What is hidden of a batch: half or all of what does not matter; all that matters of one kind. Where a direction
    is asked for there is no answer without both objects, so there the second is left out."""
    random, used = np.random.default_rng(seed), matters(batch, mechanism)
    yield _partial("half hidden", batch, ~used & (random.random(used.shape) < 0.5))
    yield _partial("all hidden", batch, ~used)
    if batch.bucket.task != "direction":
        yield _partial("targets hidden", batch, used & (batch.roles < ANCHOR))
        if mechanism == "reasons":
            yield _partial("anchors hidden", batch, batch.roles >= ANCHOR)


def _partial(test: str, batch: SceneBatch, gone: Bools) -> Partial:
    rows = np.flatnonzero(gone.any(axis=1))
    some = batch.take(rows)
    left = replace(some, cells=np.where(gone[rows], 0, some.cells).astype(np.uint8))
    truth, shortcut = (np.array(recount(left, relations).answers) for relations in (True, False))
    return Partial(test, rows, gone[rows], truth, shortcut)


def hidden_samples(batch: SceneBatch, partial: Partial, state: str) -> list[Sample]:
    """The samples of a partial with its cells hidden in an empty state."""
    size, cell = batch.world.size, batch.world.cell
    samples: Sequence[Sample] = assemble(batch.take(partial.rows))
    masks = partial.gone.reshape(-1, size, size).repeat(cell, axis=1).repeat(cell, axis=2)
    return [
        replace(sample, image=_hide(sample.image, mask, state)) for sample, mask in zip(samples, masks, strict=True)
    ]


def _hide(image: Image, mask: Bools, state: str) -> Image:
    return np.where(mask[..., None], empty_image(image, state), image)

"""`verify`: behavioural proof of what a model does on the grid, for any architecture.

A mechanism is a claim about what changes an answer. So change things, one at a time, and watch: turn every relation
round, ask for another object, take away the adversarial objects, the targets, the filler. Truth comes from the grid
world's independent executor, which reads the new question and the new scene.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from karat.datasets.grid import World, buckets, generate_batch, make_world, parse_bucket
from karat.datasets.grid.sample import assemble
from karat.datasets.grid.scenes import SceneBatch
from karat.kernel.errors import BadInput
from karat.kernel.roles import Model
from karat.models.claims import CLAIMS, Bar, Check, Row, bar_for
from karat.models.counterfactual import CHANGES, Verdicts, changed, verdicts

FRESH_SEED = 900_001  # training draws from other seeds
ASKED = 64  # samples put to the model at a time


@dataclass(frozen=True)
class Verification:
    """What was seen (`rows`) and what was claimed (`checks`). `ok` is the verdict."""

    model: str
    claim: str
    rows: tuple[Row, ...]
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        failed = [check for check in self.checks if not check.ok]
        if not failed:
            return f"{self.model}: {self.claim} holds ({len(self.checks)} checks)"
        first = f"{failed[0].says}: {failed[0].seen}"
        return f"{self.model}: {self.claim} fails {len(failed)} of {len(self.checks)} checks; first: {first}"


def verify(
    model: Model,
    n_per_bucket: int = 200,
    seed: int = FRESH_SEED,
    *,
    claim: str | None = None,
    n_changed: int = 50,
    names: Sequence[str] | None = None,
    bar: Bar | None = None,
    world: World | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Test the claim that `model` makes (its `mechanism`, unless another is given) on fresh certified samples.

    `n_per_bucket` samples of each bucket and mode for accuracy, `n_changed` of each pure bucket for every change. `bar`
    says how good is good enough; by default that of the model's family (gridprog exact, trained twins as required of
    them). `progress(done, of)` is called after each bucket.
    """
    what = claim if claim is not None else model.mechanism
    if what not in CLAIMS:
        raise BadInput(
            f"{model.name} claims {what!r}, which has no behavioural test; claims with one: {', '.join(CLAIMS)}. "
            "Give `claim`."
        )
    if n_per_bucket < 1 or n_changed < 1:
        raise BadInput(f"verification needs samples; got n_per_bucket={n_per_bucket}, n_changed={n_changed}.")
    asked = buckets() if names is None else tuple(parse_bucket(name).name for name in names)
    where = make_world() if world is None else world
    rows: list[Row] = []
    for done, name in enumerate(asked, start=1):
        rows += _bucket_rows(model, name, n_per_bucket, n_changed, seed, where)
        if progress is not None:
            progress(done, len(asked))
    checks = CLAIMS[what](rows, bar if bar is not None else bar_for(model.name))
    return Verification(model.name, what, tuple(rows), checks)


def _bucket_rows(model: Model, name: str, n: int, n_changed: int, seed: int, world: World) -> Iterator[Row]:
    for mode in ("pure", "spur"):
        batch = generate_batch(name, range(n), seed, "certified", mode, world=world)
        said = _answers(model, batch)
        yield _row("as asked", mode, batch, said, verdicts(batch), said)
        if mode == "pure":
            few = batch.take(range(min(n, n_changed)))
            before = said[: len(few)]
            for change in CHANGES:
                rows, after = changed(few, change, seed)
                if len(rows):
                    yield _row(change, mode, after, _answers(model, after), verdicts(after), before[rows])


def _answers(model: Model, batch: SceneBatch) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    said: list[str] = []
    for first in range(0, len(batch), ASKED):
        said += model.answer(assemble(batch.take(range(first, min(first + ASKED, len(batch))))))
    return np.array(said)


def _row(
    test: str,
    mode: str,
    batch: SceneBatch,
    said: np.ndarray[tuple[int], np.dtype[np.str_]],
    right: Verdicts,
    before: np.ndarray[tuple[int], np.dtype[np.str_]],
) -> Row:
    return Row(
        test, mode, batch.bucket.name, len(batch), float(np.mean(said == right.truth)),
        float(np.mean(said == right.shortcut)), float(np.mean(said == before)),
    )  # fmt: skip

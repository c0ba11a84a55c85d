"""`verify`: behavioural proof of what a model does on the grid, for any architecture.

A mechanism is a claim about what changes an answer. So change things, one at a time, and watch: turn every relation
round, ask for another object, take away the adversarial objects, the targets, the filler. Truth comes from the grid
world's independent executor, which reads the new question and the new scene. Scenes beyond the certified laws are put
to it too, and cells hidden in every empty state: an explanation by perturbation is made of such answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from karat.datasets.grid import World, buckets, generate_batch, make_world, parse_bucket
from karat.datasets.grid.sample import assemble
from karat.datasets.grid.scenes import SceneBatch
from karat.kernel.empty import EMPTY
from karat.kernel.errors import BadInput
from karat.kernel.proportion import Share
from karat.kernel.roles import Model
from karat.models.claims import CLAIMS, HIDDEN, Bar, Check, Row, bar_for, pooled
from karat.models.counterfactual import CHANGES, Verdicts, changed, verdicts
from karat.models.partial import hidden_samples, partials

FRESH_SEED = 900_001  # training draws from other seeds
ASKED = 64  # samples put to the model at a time
PARTIAL = ("reasons", "matches_words")  # mechanisms to which some cells do not matter


@dataclass(frozen=True)
class Verification:
    """What was seen (`rows`) and what was claimed (`checks`). `ok` is the verdict."""

    model: str
    claim: str
    rows: tuple[Row, ...]
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Nothing that was claimed is refuted."""
        return not any(check.refuted for check in self.checks)

    @property
    def proved(self) -> bool:
        """Everything that was claimed holds, with 95 % confidence each."""
        return all(check.holds for check in self.checks)

    @property
    def verdict(self) -> str:
        refuted = [check for check in self.checks if check.refuted]
        left = [check for check in self.checks if not check.refuted and not check.holds]
        if refuted:
            first = f"{refuted[0].says} ({refuted[0].bar}): {refuted[0].seen}"
            return f"{self.model}: {self.claim} fails {len(refuted)} of {len(self.checks)} checks; first: {first}"
        if left:
            first = f"{left[0].says} ({left[0].bar}): {left[0].seen}"
            held = len(self.checks) - len(left)
            return f"{self.model}: {self.claim} holds in {held} of {len(self.checks)} checks, none fails; open: {first}"
        return f"{self.model}: {self.claim} holds ({len(self.checks)} checks)"

    def kept(self) -> dict[str, Share]:
        """By empty state, the share of answers that stay when what does not matter is hidden: the lower of two."""
        shares: dict[str, Share] = {}
        for state in EMPTY:
            tests = [[row for row in self.rows if (row.state, row.test) == (state, test)] for test in HIDDEN]
            if measured := [pooled(rows, "unchanged") for rows in tests if rows]:
                shares[state] = min(measured, key=lambda one: one.value)
        return shares


def verify(
    model: Model,
    n_per_bucket: int = 200,
    seed: int = FRESH_SEED,
    *,
    claim: str | None = None,
    n_changed: int = 50,
    n_hidden: int = 12,
    names: Sequence[str] | None = None,
    bar: Bar | None = None,
    world: World | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Test the claim that `model` makes (its `mechanism`, unless another is given) on fresh certified samples.

    `n_per_bucket` samples of each bucket and mode for accuracy, `n_changed` of each pure bucket for every change,
    `n_hidden` for hidden cells in each empty state (models that match words or reason; 12 of 40 buckets are 480). `bar`
    says how good is good enough; by default that of the model's family (gridprog exact, trained twins as required of
    them). `progress(done, of)` is called after each bucket.
    """
    what = claim if claim is not None else model.mechanism
    if what not in CLAIMS:
        raise BadInput(
            f"{model.name} claims {what!r}, which has no behavioural test; claims with one: {', '.join(CLAIMS)}. "
            "Give `claim`."
        )
    if min(n_per_bucket, n_changed, n_hidden) < 1:
        raise BadInput(
            f"verification needs samples; got n_per_bucket={n_per_bucket}, n_changed={n_changed}, {n_hidden=}."
        )
    tested = buckets() if names is None else tuple(parse_bucket(name).name for name in names)
    where = make_world() if world is None else world
    rows: list[Row] = []
    for done, name in enumerate(tested, start=1):
        rows += _bucket_rows(model, name, n_per_bucket, n_changed, seed, where)
        if what in PARTIAL:
            rows += _hidden_rows(model, name, n_hidden, seed, where, what)
        if progress is not None:
            progress(done, len(tested))
    checks = CLAIMS[what](rows, bar if bar is not None else bar_for(model.name))
    return Verification(model.name, what, tuple(rows), checks)


def _bucket_rows(model: Model, name: str, n: int, n_changed: int, seed: int, world: World) -> Iterator[Row]:
    for mode in ("pure", "spur"):
        batch = generate_batch(name, range(n), seed, "certified", mode, world=world)
        answers = _answers(model, batch)
        yield _row("as asked", mode, batch, answers, verdicts(batch), answers)
        if mode == "pure":
            few = batch.take(range(min(n, n_changed)))
            before = answers[: len(few)]
            for change in CHANGES:
                rows, after = changed(few, change, seed)
                if len(rows):
                    yield _row(change, mode, after, _answers(model, after), verdicts(after), before[rows])


def _hidden_rows(model: Model, name: str, n: int, seed: int, world: World, claim: str) -> Iterator[Row]:
    """Cells hidden in every empty state. `truth` and `shortcut` answer to what is left: hidden cells are empty."""
    batch = generate_batch(name, range(n), seed, "certified", "pure", world=world)
    before = _answers(model, batch)
    for partial in partials(batch, claim, seed):
        if not len(partial.rows):
            continue
        for state in EMPTY:
            answers = np.array(model.answer(hidden_samples(batch, partial, state)))
            right = Verdicts(partial.truth, partial.shortcut)
            yield _row(partial.test, "pure", batch.take(partial.rows), answers, right, before[partial.rows], state)


def _answers(model: Model, batch: SceneBatch) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    answers: list[str] = []
    for first in range(0, len(batch), ASKED):
        answers += model.answer(assemble(batch.take(range(first, min(first + ASKED, len(batch))))))
    return np.array(answers)


def _row(
    test: str,
    mode: str,
    batch: SceneBatch,
    answers: np.ndarray[tuple[int], np.dtype[np.str_]],
    right: Verdicts,
    before: np.ndarray[tuple[int], np.dtype[np.str_]],
    state: str | None = None,
) -> Row:
    return Row(
        test, mode, batch.bucket.name, len(batch), float(np.mean(answers == right.truth)),
        float(np.mean(answers == right.shortcut)), float(np.mean(answers == before)), state,
    )  # fmt: skip

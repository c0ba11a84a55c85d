"""Questions about a planted shortcut: the pixels of the patch play, and a pixel that is absent is the clean one.

`planted(session)` is what a session has learnt about the shortcuts of its samples. Explainers and protocols share it,
so that the truth about an image is asked for once, however many explanations are held against it. Patches are small and
their absent state is a real image, so nothing the model has never seen is shown to it (pixelrules2024 section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt

from karat.datasets.shortcut.sample import ROLE, ShortcutSample
from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Map, Mask, Values
from karat.models.pixelnet.dominance import Answers, answers
from karat.probe import estimators, exact
from karat.probe.absence import Absence
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.games import Estimate
from karat.probe.session import Session

Method = Literal["regression", "permutation", "stratified", "kernelshap"]
_BATCH = 256


@dataclass(frozen=True)
class Effort:
    """How the Shapley values of a patch are found: exactly where 2^D <= `budget`, else by independent trials, at least
    two, until the error of their mean is at most `error` or `trials` times `budget` passes are spent. The first has
    `budget` passes, each next what seems missing.

    The paper takes the mean of 5 trials of Monte Carlo sampling (Mitchell et al. 2022): method "permutation", error 0.
    """

    method: Method = "regression"
    budget: int = 512
    trials: int = 5
    error: float = 0.01


@dataclass(frozen=True, eq=False)
class Truth:
    """Shapley values of the D pixels of a patch, row by row; `trials` (T, D) are the estimates they are the mean of,
    each with its weight (T,): trials differ in size, and the error of a trial decides what it counts."""

    values: Values
    standard_error: Values
    trials: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    passes: int
    method: str

    @staticmethod
    def mean(found: Sequence[Estimate]) -> Truth:
        values = np.array([estimate.values for estimate in found])
        errors = np.array([estimate.standard_error for estimate in found])
        size = (errors**2).mean(axis=1)  # one number a trial: weights of single pixels would chase their own noise
        weights = np.array([1.0]) if not size.all() else (1 / size) / (1 / size).sum()
        values, errors = values[: len(weights)], errors[: len(weights)]  # an exact trial is all there is to know
        error = np.sqrt((weights[:, None] ** 2 * errors**2).sum(axis=0))
        return Truth(weights @ values, error, values, weights, sum(e.passes for e in found), found[0].method)

    @property
    def error(self) -> float:
        """Root mean square of the pixels' standard errors."""
        return float(np.sqrt((self.standard_error**2).mean()))

    @property
    def spread(self) -> float:
        """The same error, seen from outside: how far trials lie apart. 0 where the values are exact."""
        count = len(self.trials)
        if count < 2:
            return 0.0
        return float(np.sqrt((self.weights @ (self.trials - self.values) ** 2 / (count - 1)).mean()))


@dataclass(eq=False)
class Planted:
    """What a session learns about the shortcuts of its samples. Made by `planted`."""

    _session: ref[Session]  # weak: it is remembered by its session, and must not keep it alive
    _truths: dict[tuple[int, Effort], Truth] = field(default_factory=dict)
    _right: dict[tuple[int, bytes], bool] = field(default_factory=dict)

    @property
    def session(self) -> Session:
        session = self._session()
        if session is None:
            raise BadInput("the session that was asked about its shortcuts is gone; keep it while you ask.")
        return session

    @cached_property
    def samples(self) -> tuple[ShortcutSample, ...]:
        found = [sample for sample in self.session.samples if isinstance(sample, ShortcutSample)]
        if len(found) != len(self.session.samples):
            raise BadInput("these samples have no clean twins; use dataset `shortcut`, or samples made by `planted`.")
        return tuple(found)

    @cached_property
    def answers(self) -> Answers:
        return answers(self.session.model, self.samples)

    def mask(self, i: int) -> Mask:
        return self.samples[i].mask(ROLE)

    def game(self, i: int) -> ModelGame:
        """Players are the D pixels of the patch, row by row; the value is the probability of the sample's class."""
        mask = self.mask(i)
        labels = np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)
        absence = Absence(visual="given", image=self.samples[i].twin)
        return self.session.game(i, visual=labels, text=None, absence=absence, target=str(self.samples[i].answer))

    def on_image(self, i: int, values: npt.NDArray[Any]) -> Map:
        """Values of the patch's pixels as a map (H, W), zero elsewhere: those pixels play no part."""
        found = np.zeros(self.mask(i).shape)
        found[self.mask(i)] = values
        return found

    def shapley(self, positions: Sequence[int], effort: Effort) -> dict[int, Truth]:
        """The truth about some of the samples, all asked for together, trial by trial."""
        missing = [i for i in positions if (i, effort) not in self._truths]
        found: dict[int, list[Estimate]] = {i: [] for i in missing}
        open_ = list(missing)
        for trial in range(max(effort.trials, 2)):
            questions = [(self.game(i), self._question(i, trial, effort, _next(found[i], effort))) for i in open_]
            for i, estimate in zip(open_, self.session.ask(questions), strict=True):
                found[i].append(estimate)
            open_ = [i for i in open_ if not _enough(found[i], effort)]
            if not open_:
                break
        self._truths |= {(i, effort): Truth.mean(found[i]) for i in missing}
        return {i: self._truths[i, effort] for i in positions}

    def single_deletion(self, positions: Sequence[int]) -> dict[int, Values]:
        """What goes when a pixel goes alone: v(all) - v(all but it). Blind to pixels that stand in for each other."""
        requests = []
        for i in positions:
            game = self.game(i)
            requests.append((game, np.concatenate([np.ones((1, game.n), dtype=np.bool_), ~np.eye(game.n, dtype=bool)])))
        values = self.session.evaluate(requests)
        return {i: found[0] - found[1:] for i, found in zip(positions, values, strict=True)}

    def right(self, requests: Sequence[tuple[int, Keep]]) -> list[npt.NDArray[np.bool_]]:
        """For coalitions (m, D) of each sample's patch: does the model still give its class? Each is asked for once."""
        keys = [(i, [row.tobytes() for row in keep]) for i, keep in requests]
        missing = {
            (i, key): keep[k]
            for (i, keep), (_, rows) in zip(requests, keys, strict=True)
            for k, key in enumerate(rows)
            if (i, key) not in self._right
        }
        wanted = list(missing)
        for at in range(0, len(wanted), _BATCH):
            part = wanted[at : at + _BATCH]
            shown = [self._altered(i, missing[i, key]) for i, key in part]
            for name, said, sample in zip(part, self.session.model.answer(shown), shown, strict=True):
                self._right[name] = said == sample.answer
        return [np.array([self._right[i, key] for key in rows], dtype=np.bool_) for i, rows in keys]

    def _altered(self, i: int, kept: npt.NDArray[np.bool_]) -> ShortcutSample:
        sample, mask = self.samples[i], self.mask(i)
        image = sample.twin.copy()
        inside = np.flatnonzero(mask)[kept]
        image.reshape(-1, 3)[inside] = sample.image.reshape(-1, 3)[inside]
        return replace(sample, image=image)

    def _question(self, i: int, trial: int, effort: Effort, budget: int) -> Question[Estimate]:
        n = self.game(i).n
        if n <= exact.MOST_PLAYERS and 2**n <= effort.budget:
            return _exactly(n)
        rng = self.session.rng(i, f"planted/{effort.method}/{trial}")
        return _METHODS[effort.method](n, max(budget, _LEAST[effort.method](n)), rng)


_METHODS = {
    "regression": estimators.regression,
    "permutation": estimators.permutation,
    "stratified": estimators.stratified,
    "kernelshap": estimators.kernelshap,
}
_LEAST = {
    "regression": estimators.least_regression,
    "permutation": estimators.least_permutation,
    "stratified": estimators.least_regression,
    "kernelshap": estimators.least_regression,
}
_KNOWN: WeakKeyDictionary[Session, Planted] = WeakKeyDictionary()


def planted(session: Session) -> Planted:
    """What this session knows about its shortcuts; lives as long as the session."""
    known = _KNOWN.get(session)
    if known is None:
        known = _KNOWN[session] = Planted(ref(session))
    return known


def _exactly(n: int) -> Question[Estimate]:
    values = yield from exact.table(n)
    return Estimate(exact.shapley_values(values), np.zeros(n), 2**n, "exact")


def _enough(found: list[Estimate], effort: Effort) -> bool:
    if not found[-1].standard_error.any():
        return True  # exact
    return len(found) >= 2 and (Truth.mean(found).error <= effort.error or _left(found, effort) < effort.budget // 2)


def _left(found: list[Estimate], effort: Effort) -> int:
    return effort.budget * max(effort.trials, 2) - sum(estimate.passes for estimate in found)


def _next(found: list[Estimate], effort: Effort) -> int:
    """Passes of the next trial: what is missing to `error` if errors fall as one over the root of the passes. Half the
    budget at least, since small trials know little for what they cost; four at most, since that guess is rough."""
    if not found or effort.error <= 0:
        return effort.budget
    known = Truth.mean(found)
    missing = known.passes * ((known.error / effort.error) ** 2 - 1)
    return int(np.clip(missing, effort.budget // 2, min(4 * effort.budget, _left(found, effort))))

"""`Care`: how to go about a job that has killed its process, so that only the sample to blame is lost.

A step (a batch, or one sample, under one explainer) that has killed its process `TRIES` times is taken apart; a single
sample that has is never touched again: its row is a Failure that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from karat.kernel.cell import Job

TRIES = 2


@dataclass(frozen=True)
class Step:
    """What a worker was about to do: read or explain samples [start, stop) of its job; `cell` where it is one's own."""

    what: str  # read | explain
    start: int
    stop: int
    cell: str = ""


Watch = Callable[[Step], None]  # told before every step, so that a death can be placed


@dataclass(frozen=True)
class Care:
    """Positions are counted from the start of the job. Without a death, nothing is out of the ordinary."""

    read_alone: bool = False
    alone: frozenset[int] = frozenset()  # batches (by their first position) that are explained sample by sample
    unreadable: Mapping[int, str] = field(default_factory=dict)
    fatal: Mapping[int, str] = field(default_factory=dict)

    def pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        """A batch in the pieces that may be explained together; what is lost stands alone."""
        if start in self.alone:
            return [(at, at + 1) for at in range(start, stop)]
        lost = {*self.unreadable, *self.fatal}
        edges = sorted({start, stop, *(e for at in lost if start <= at < stop for e in (at, at + 1))})
        return list(pairwise(edges))

    def lost(self, at: int) -> str:
        """Why a sample is not touched, or nothing."""
        return self.unreadable.get(at) or self.fatal.get(at) or ""

    def after(self, step: Step, reason: str) -> Care:
        """The care to take once a step has killed its process too often."""
        cause = f"{reason}, each of {TRIES} times this sample was tried alone"
        if step.what == "read":
            if step.stop - step.start > 1:
                return replace(self, read_alone=True)
            return replace(self, unreadable={**self.unreadable, step.start: cause})
        if step.stop - step.start > 1:
            return replace(self, alone=self.alone | {step.start})
        return replace(self, fatal={**self.fatal, step.start: cause})


@dataclass(frozen=True)
class Trial:
    """A job, how carefully to go about it, and how often each step of it has killed its process."""

    job: Job
    care: Care = Care()
    deaths: Mapping[Step | None, int] = field(default_factory=dict)
    errors: int = 0

    def raised(self, retries: int) -> list[Trial]:
        """What to try after an error that stopped the whole job (weights that cannot be loaded): the same again."""
        return [replace(self, errors=self.errors + 1)] if self.errors < retries else []

    def died(self, step: Step | None, reason: str, unplaced: int = TRIES) -> list[Trial]:
        """What to try next; nothing where `unplaced` workers never got as far as a sample (or nobody knows how far):
        there is nothing to take apart.

        Where one of several cells is to blame, the job falls apart into one for each, so that those that are well
        finish undisturbed. Reading a sample and asking the model about it is done for all of them together.
        """
        deaths = {**self.deaths, step: self.deaths.get(step, 0) + 1}
        if deaths[step] < (unplaced if step is None else TRIES):
            return [replace(self, deaths=deaths)]
        if step is None:
            return []
        careful = self.care.after(step, reason)
        if len(self.job.cells) == 1 or not step.cell:
            return [Trial(self.job, careful, deaths)]
        singles = []
        for explainer, cell in zip(self.job.explainers, self.job.cells, strict=True):
            alone = replace(self.job, explainers=(explainer,), cells=(cell,))
            guilty = step.cell == cell.id
            singles.append(Trial(alone, careful if guilty else self.care, deaths if guilty else {}))
        return singles

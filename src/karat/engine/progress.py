"""How far a run is, and in how many seconds its last explanation will be there: said only when it is known.

Every explainer that is still to run has a lowest and a highest rate on its model (see `karat.engine.rates`). Both are
added up for each job that is left, and the jobs dealt out to the workers. The time is said when the two ends agree
within a factor of `AGREE`; it is their geometric mean. What follows the last explanation, such as the findings of the
protocol, is not in it: nothing of the kind was timed yet.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from math import sqrt

from karat.engine.executors.job import Done
from karat.engine.rates import Rates
from karat.kernel.cell import Cell, Job

AGREE = 2.0


class Progress:
    """Explanations done of those asked for, and the seconds left. Durations are monotonic: clocks may jump.

    Without `workers` there are as many as there are jobs on the way. With `open_end` (a race), how much there is to
    do is found out only by doing it: no time is said.
    """

    def __init__(
        self, cells: Sequence[Cell], jobs: Sequence[Job], workers: int | None = None, open_end: bool = False
    ) -> None:
        self.rates = Rates()
        self.jobs, self.workers, self.open_end = jobs, workers, open_end
        self.job_of = {cell.id: k for k, job in enumerate(jobs) for cell in job.cells}  # position in `jobs`
        self.whole = {cell.id: cell.stop - cell.start for job in jobs for cell in job.cells}
        self.left = dict(self.whole)
        self.pairs = sum(cell.stop - cell.start for cell in cells)
        self.pairs_done = self.pairs - sum(self.left.values())
        self.heard: dict[int, float] = {}  # when the last batch of a job on the way was done
        self.first = min(workers or 0, len(jobs))  # jobs that are taken at once
        self.taken = dict.fromkeys(range(self.first), time.monotonic())  # when, of jobs of which nothing was heard yet
        self.waiting = deque(range(self.first, len(jobs)))  # workers take them in this order
        self.warm = Counter[str]()  # idle workers by the model they have run
        self.cold: set[str] = set()  # cells whose next batch is the first of its explainer in its process

    def tick(self, job: Job, done: Done) -> None:
        explainer, samples, seconds = done
        cell = job.cells[job.explainers.index(explainer)]
        if self.job_of[cell.id] not in self.heard:
            self._begin(job)
        self.heard[self.job_of[cell.id]] = time.monotonic()
        self.rates.add(cell.model, cell.explainer, samples, seconds, cold=cell.id in self.cold)
        self.cold.discard(cell.id)
        self._leave(cell, max(0, self.left[cell.id] - samples))

    def again(self, job: Job) -> None:
        """A job starts anew: what it had done does not count."""
        for cell in job.cells:
            self._leave(cell, self.whole[cell.id])
        self.waiting.append(self.job_of[job.cells[0].id])
        self._hand_over(job)

    def done(self, job: Job) -> None:
        for cell in job.cells:
            self._leave(cell, 0)
        self._hand_over(job)

    def lost(self, job: Job) -> None:
        """A job is given up: it is not done, and nothing more is to do for it."""
        for cell in job.cells:
            self.left[cell.id] = 0
        self._hand_over(job)

    def seconds_left(self) -> float | None:
        """Until the last explanation; None as long as that is not known."""
        if self.open_end:
            return None
        left = Counter[tuple[str, str]]()
        for job in self.jobs:
            for cell in job.cells:
                left[cell.model, cell.explainer] += self.left[cell.id]
        lows, highs = {}, {}
        for pair, samples in left.items():
            if samples:
                bounds = self.rates.bounds(*pair, samples)
                if bounds is None:
                    return None
                lows[pair], highs[pair] = bounds
        low, high = self._schedule(lows), self._schedule(highs)
        return sqrt(low * high) if high <= AGREE * low else None

    def _schedule(self, rates: Mapping[tuple[str, str], float]) -> float:
        """Seconds until the last job is done, if an idle worker always takes the next; those on the way come first."""
        now = time.monotonic()
        begun, waiting = [], []
        for k, job in enumerate(self.jobs):
            cells = [cell for cell in job.cells if self.left[cell.id]]
            seconds = sum(self.left[cell.id] * rates[cell.model, cell.explainer] for cell in cells)
            since = self.heard.get(k, self.taken.get(k))
            if cells and since is not None:
                begun.append(max(0.0, seconds - (now - since)))  # part of its next batch is done too
            elif cells:
                waiting.append(seconds)
        lanes = [0.0] * max(1, len(begun) if self.workers is None else self.workers)
        for seconds in [*begun, *waiting]:
            heapq.heapreplace(lanes, lanes[0] + seconds)
        return max(lanes)

    def _leave(self, cell: Cell, samples: int) -> None:
        self.pairs_done += self.left[cell.id] - samples
        self.left[cell.id] = samples

    def _begin(self, job: Job) -> None:
        """Workers keep to their model: a job goes to one that has run it, or else it is the first of its process, as
        the jobs are that all workers take at the start.
        """
        model = job.cells[0].model
        if self.warm[model] and self.job_of[job.cells[0].id] >= self.first:
            self.warm[model] -= 1
        else:
            self.cold.update(cell.id for cell in job.cells)
        self.taken.pop(self.job_of[job.cells[0].id], None)

    def _hand_over(self, job: Job) -> None:
        """Its worker takes another."""
        if self.heard.pop(self.job_of[job.cells[0].id], None) is not None:
            if self.waiting:
                self.taken[self.waiting.popleft()] = time.monotonic()
            self.warm[job.cells[0].model] += 1

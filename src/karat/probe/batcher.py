"""`Batcher`: one place where rows become forward passes, whatever a row is.

Whoever wants to know something writes a *question*: a generator that yields `Rows`, is sent their values (m,), and
returns its result. `Batcher.run` carries out any number of questions at once: it drops repeats, answers from memory
what it has answered before, and puts the rest of all questions together into full batches. A question never knows in
whose company it was answered, and may hand over to others with `yield from`.

A row is a key that only its *source* understands: a coalition (`karat.probe.evaluator`) or the number of a soft mask
(`karat.probe.soft_masks`). Rows of one source share batches; rows of different sources never do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from sys import getsizeof
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput, KaratError
from karat.kernel.typing import Values
from karat.models.batching import is_out_of_memory
from karat.probe.games import checked_values

T = TypeVar("T")
Key = Any  # hashable and sortable: bytes, a number

_SLOT = 168  # bytes per remembered answer besides its key: a float and its dict slot right after the dict has grown


class BudgetExceeded(KaratError):
    """A question asked for more forward passes than may be made."""


class Run(NamedTuple):
    """Consecutive rows of a batch that belong to one group of their source."""

    group: int
    keys: list[Key]


Source = Callable[[Sequence[Run]], npt.ArrayLike]  # runs of m rows in all -> (m,) values in that order


class Rows(NamedTuple):
    """What a question asks for: a value for each key, repeats allowed. Keys mean something within their group only."""

    source: Source
    group: int
    keys: Sequence[Key]
    remember: bool = True  # False for rows that nobody can ask for again


RowQuestion = Generator[Rows, Values, T]


@dataclass
class Passes:
    """Forward passes, counted. `requested` are the rows of all questions, repeats included."""

    requested: int = 0
    made: int = 0
    batches: int = 0
    halvings: int = 0  # how often a batch did not fit into memory

    @property
    def saved(self) -> int:
        return self.requested - self.made


@dataclass(eq=False)
class _Group:
    """One group of a source, with the answers that are remembered of it."""

    source: Source
    number: int
    remembers: bool
    memory: dict[Key, float] = field(default_factory=dict)


@dataclass(eq=False)
class _Pending:
    """What one question waits for."""

    question: int
    keys: Sequence[Key]
    known: dict[Key, float | None]
    missing: int


_Row = tuple[_Group, Key]


@dataclass(eq=False)
class Batcher:
    """Answers rows of any source in full batches.

    - Batches have `batch_size` rows until nothing is left to fill one with. Rows of a request are run in the order of
      their keys; batches depend on the questions only, so results are reproducible.
    - Answers are remembered in at most `memory_bytes`. When it is full, no more is stored; `forget` frees a group.
    - With a `budget`, `BudgetExceeded` is raised before the first pass of a request that would overrun it.
    - A batch that does not fit into the memory of the machine is halved, and the batches after it stay that small.
    """

    batch_size: int = 64
    memory_bytes: int = 64 * 2**20
    budget: int | None = None
    passes: Passes = field(default_factory=Passes)
    used_bytes: int = field(default=0, init=False)
    _groups: dict[tuple[Source, int], _Group] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadInput(f"batch_size must be at least 1; got {self.batch_size}.")

    def run(self, questions: Sequence[RowQuestion[T]]) -> list[T]:
        """The results of the questions, in their order."""
        results: dict[int, T] = {}
        waiting: dict[_Row, list[_Pending]] = {}
        queues: dict[Source, deque[_Row]] = {}  # none is empty; the one that has waited longest comes first
        ready: deque[tuple[int, Values | None]] = deque((number, None) for number in range(len(questions)))
        while ready or queues:
            while ready:
                number, values = ready.popleft()
                try:
                    rows = questions[number].send(values)  # type: ignore[arg-type]  # the first send is of None
                except StopIteration as stop:
                    results[number] = stop.value
                    continue
                group, pending = self._look_up(number, rows)
                fresh = []
                for key in sorted(key for key, value in pending.known.items() if value is None):
                    takers = waiting.get((group, key))
                    if takers is None:
                        waiting[group, key] = [pending]
                        fresh.append((group, key))
                    else:
                        takers.append(pending)
                self._check_budget(len(waiting))
                if fresh:
                    queues.setdefault(rows.source, deque()).extend(fresh)
                if not pending.missing:
                    ready.append((number, _collected(pending)))
            if queues:
                source, queue = next(iter(queues.items()))
                for value in self._answered(source, list(islice(queue, self.batch_size))):
                    row = queue.popleft()
                    self._remember(*row, value)
                    for pending in waiting.pop(row):
                        pending.known[row[1]] = value
                        pending.missing -= 1
                        if not pending.missing:
                            ready.append((pending.question, _collected(pending)))
                if not queue:
                    del queues[source]
        return [results[number] for number in range(len(questions))]

    def forget(self, source: Source, group: int) -> None:
        """Drop all answers of one group."""
        held = self._groups.pop((source, group), None)
        self.used_bytes -= 0 if held is None else sum(map(_bytes, held.memory))

    def _look_up(self, number: int, rows: Rows) -> tuple[_Group, _Pending]:
        name = rows.source, rows.group
        group = self._groups.get(name) or _Group(*name, rows.remember)
        if rows.remember:
            self._groups[name] = group
        known = {key: group.memory.get(key) for key in rows.keys}
        self.passes.requested += len(rows.keys)
        return group, _Pending(number, rows.keys, known, list(known.values()).count(None))

    def _check_budget(self, planned: int) -> None:
        if self.budget is not None and self.passes.made + planned > self.budget:
            raise BudgetExceeded(
                f"{self.passes.made} passes made and {planned} more asked for; the budget is {self.budget}. "
                "Raise the budget, or ask for fewer coalitions."
            )

    def _answered(self, source: Source, rows: list[_Row]) -> list[float]:
        """Values of the leading rows, as many as fit."""
        while True:
            size = min(self.batch_size, len(rows))
            runs = [Run(group.number, [key for _, key in run]) for group, run in groupby(rows[:size], itemgetter(0))]
            try:
                values = checked_values(source(runs), size)
            except (MemoryError, RuntimeError) as error:
                if size == 1 or not is_out_of_memory(error):
                    raise
            else:
                self.passes.made += size
                self.passes.batches += 1
                return values.tolist()
            # outside of `except`, so that the failed frames and the tensors they hold are gone before the next try
            self.batch_size = max(1, size // 2)
            self.passes.halvings += 1

    def _remember(self, group: _Group, key: Key, value: float) -> None:
        cost = _bytes(key)
        if group.remembers and self.used_bytes + cost <= self.memory_bytes:
            group.memory[key] = value
            self.used_bytes += cost


def _bytes(key: Key) -> int:
    return getsizeof(key) + _SLOT


def _collected(pending: _Pending) -> Values:
    known: dict[Key, Any] = pending.known
    return np.fromiter(map(known.__getitem__, pending.keys), dtype=np.float64, count=len(pending.keys))

"""`Evaluator`: one place where coalitions become forward passes.

Whoever wants to know something about a game writes a *question*: a generator that yields masks (m, n), is sent their
values (m,), and returns its result. `Evaluator.run` carries out any number of questions about any number of games
(samples) at once: it drops repeats, answers from memory what it has seen, and puts the rest of all questions together
into full batches. A question never knows in whose company it was answered.

    def leave_one_out(n):
        values = yield np.concatenate([np.ones((1, n), bool), ~np.eye(n, dtype=bool)])
        return values[0] - values[1:]

    evaluator = Evaluator.of(game_a, game_b)
    a, b = evaluator.run([(0, leave_one_out(game_a.n)), (1, leave_one_out(game_b.n))])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from sys import getsizeof
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput, KaratError
from karat.kernel.typing import Keep, Values
from karat.models.batching import is_out_of_memory
from karat.probe.games import Game, checked_keep, checked_values

T = TypeVar("T")
Question = Generator[Keep, Values, T]

_SLOT = 168  # bytes per remembered answer besides its key: a float and its dict slot right after the dict has grown


class BudgetExceeded(KaratError):
    """A question asked for more forward passes than the evaluator may make."""


class Block(NamedTuple):
    """Consecutive rows of a batch that belong to one game."""

    game: int  # index of the game (sample)
    visual_keep: Keep  # (m, n_visual)
    text_keep: Keep  # (m, n_text)


Answer = Callable[[Sequence[Block]], npt.ArrayLike]  # blocks of m rows in all -> (m,) values in that order


@dataclass
class Passes:
    """Forward passes, counted. `asked` are the coalitions of all questions, repeats included."""

    asked: int = 0
    made: int = 0
    batches: int = 0
    halvings: int = 0  # how often a batch did not fit into memory

    @property
    def saved(self) -> int:
        return self.asked - self.made


@dataclass(eq=False)
class _Pending:
    """What one question waits for."""

    question: int
    keys: list[bytes]
    known: dict[bytes, float | None]
    missing: int


@dataclass
class Evaluator:
    """Answers coalitions of the games whose sizes `shapes` lists as (n_visual, n_text).

    - Batches have `batch_size` rows until nothing is left to fill one with. Rows of a question are sorted, which puts
      coalitions of equal visual part side by side; batches depend on the questions only, so results are reproducible.
    - Answers are remembered in at most `memory_bytes`. When it is full, no more is stored; `forget` frees a game.
    - With a `budget`, `BudgetExceeded` is raised before the first pass of a request that would overrun it.
    - A batch that does not fit into the memory of the machine is halved, and the batches after it stay that small.
    """

    answer: Answer
    shapes: Sequence[tuple[int, int]]
    batch_size: int = 64
    memory_bytes: int = 64 * 2**20
    budget: int | None = None
    passes: Passes = field(default_factory=Passes)
    _memory: dict[int, dict[bytes, float]] = field(default_factory=dict, repr=False)
    _used: int = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadInput(f"batch_size must be at least 1; got {self.batch_size}.")

    @classmethod
    def of(cls, *games: Game, batch_size: int = 64, budget: int | None = None) -> Evaluator:
        """An evaluator of plain games; game k has index k."""

        def answer(blocks: Sequence[Block]) -> Values:
            return np.concatenate([games[block.game].value(block.visual_keep, block.text_keep) for block in blocks])

        return cls(answer, [(game.n_visual, game.n_text) for game in games], batch_size=batch_size, budget=budget)

    def game(self, index: int = 0) -> Game:
        """A game of the evaluator as a `Game`: every value comes out of memory, batches and budget."""

        def value(visual_keep: Keep, text_keep: Keep) -> Values:
            return self.run([(index, ask(np.concatenate([visual_keep, text_keep], axis=1)))])[0]

        return Game(value, *self.shapes[index])

    def forget(self, index: int) -> None:
        """Drop all answers of one game."""
        self._used -= sum(getsizeof(key) + _SLOT for key in self._memory.pop(index, {}))

    def run(self, questions: Sequence[tuple[int, Question[T]]]) -> list[T]:
        """The results of (game index, question) pairs, in their order."""
        results: dict[int, T] = {}
        waiting: dict[tuple[int, bytes], list[_Pending]] = {}  # insertion order is the order of the passes
        queue: deque[tuple[int, bytes]] = deque()
        ready: deque[tuple[int, Values | None]] = deque((number, None) for number in range(len(questions)))
        while ready or queue:
            while ready:
                number, values = ready.popleft()
                index, question = questions[number]
                try:
                    keep = question.send(values)  # type: ignore[arg-type]  # the first send of a generator is None
                except StopIteration as stop:
                    results[number] = stop.value
                    continue
                pending = self._look_up(index, number, keep)
                fresh = []
                for key in sorted(key for key, known in pending.known.items() if known is None):
                    takers = waiting.get((index, key))
                    if takers is None:
                        waiting[index, key] = [pending]
                        fresh.append((index, key))
                    else:
                        takers.append(pending)
                self._check_budget(len(queue) + len(fresh))
                queue.extend(fresh)
                if not pending.missing:
                    ready.append((number, _collect(pending)))
            if queue:
                rows = [queue.popleft() for _ in range(min(self.batch_size, len(queue)))]
                answered, left = self._answer(rows)
                queue.extendleft(reversed(left))
                for row, value in zip(rows, answered, strict=False):  # rows beyond the answered went back
                    self._store(*row, value)
                    for pending in waiting.pop(row):
                        pending.known[row[1]] = value
                        pending.missing -= 1
                        if not pending.missing:
                            ready.append((pending.question, _collect(pending)))
        return [results[number] for number in range(len(questions))]

    def _look_up(self, index: int, number: int, keep: Keep) -> _Pending:
        n_visual, n_text = self.shapes[index]
        keep = checked_keep(keep, n_visual + n_text)
        packed = np.ascontiguousarray(np.packbits(keep, axis=1))  # masks may come in any memory order
        keys = packed.view(f"V{packed.shape[1]}").ravel().tolist() if len(keep) else []
        memory = self._memory.get(index, {})
        known = {key: memory.get(key) for key in keys}
        self.passes.asked += len(keys)
        return _Pending(number, keys, known, sum(value is None for value in known.values()))

    def _check_budget(self, planned: int) -> None:
        if self.budget is not None and self.passes.made + planned > self.budget:
            raise BudgetExceeded(
                f"{self.passes.made} passes made and {planned} more asked for; the budget is {self.budget}. "
                "Raise the budget, or ask for fewer coalitions."
            )

    def _answer(self, rows: list[tuple[int, bytes]]) -> tuple[list[float], list[tuple[int, bytes]]]:
        """Values of the leading rows, as many as fit, and the rows that did not."""
        while True:
            size = min(self.batch_size, len(rows))
            try:
                values = checked_values(self.answer(self._blocks(rows[:size])), size)
            except (MemoryError, RuntimeError) as error:
                if size == 1 or not is_out_of_memory(error):
                    raise
            else:
                self.passes.made += size
                self.passes.batches += 1
                return values.tolist(), rows[size:]
            # outside of `except`, so that the failed frames and the tensors they hold are gone before the next try
            self.batch_size = max(1, size // 2)
            self.passes.halvings += 1

    def _blocks(self, rows: list[tuple[int, bytes]]) -> list[Block]:
        blocks = []
        for index, run in groupby(rows, key=itemgetter(0)):
            n_visual, n_text = self.shapes[index]
            packed = np.frombuffer(b"".join(key for _, key in run), dtype=np.uint8)
            bits = np.unpackbits(packed.reshape(-1, (n_visual + n_text + 7) // 8), axis=1, count=n_visual + n_text)
            keep = bits.view(np.bool_)
            blocks.append(Block(index, keep[:, :n_visual], keep[:, n_visual:]))
        return blocks

    def _store(self, index: int, key: bytes, value: float) -> None:
        cost = getsizeof(key) + _SLOT
        if self._used + cost <= self.memory_bytes:
            self._memory.setdefault(index, {})[key] = value
            self._used += cost


def ask(keep: Keep) -> Question[Values]:
    """The simplest question: the values of these coalitions."""
    return (yield keep)


def _collect(pending: _Pending) -> Values:
    known: dict[bytes, Any] = pending.known
    return np.fromiter(map(known.__getitem__, pending.keys), dtype=np.float64, count=len(pending.keys))

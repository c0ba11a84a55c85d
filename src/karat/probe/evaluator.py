"""`Evaluator`: coalitions of games as rows of a `Batcher`.

A *question* about one game is a generator that yields masks (m, n), is sent their values (m,), and returns its result.
`Evaluator.run` carries out any number of questions about any number of games (samples) at once, in full batches.

    def leave_one_out(n):
        values = yield np.concatenate([np.ones((1, n), bool), ~np.eye(n, dtype=bool)])
        return values[0] - values[1:]

    evaluator = Evaluator.of(game_a, game_b)
    a, b = evaluator.run([(0, leave_one_out(game_a.n)), (1, leave_one_out(game_b.n))])

Questions compose with `yield from`; `Evaluator.about` makes of one about coalitions one about rows, so that it can be
part of a question that asks about other rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from karat.kernel.typing import Keep, Values
from karat.probe.batcher import Batcher, Passes, RowQuestion, Rows, Run
from karat.probe.games import Game, checked_keep

T = TypeVar("T")
Question = Generator[Keep, Values, T]


class Block(NamedTuple):
    """Consecutive rows of a batch that belong to one game."""

    game: int  # index of the game (sample)
    visual_keep: Keep  # (m, n_visual)
    text_keep: Keep  # (m, n_text)

    @property
    def rows(self) -> int:
        return len(self.visual_keep)


Answer = Callable[[Sequence[Block]], npt.ArrayLike]  # blocks of m rows in all -> (m,) values in that order


@dataclass(eq=False)
class Evaluator:
    """Answers coalitions of the games whose sizes `shapes` lists as (n_visual, n_text).

    The key of a coalition is its mask, packed into bytes, visual players first: in the order of the keys, coalitions of
    equal visual part stand side by side.
    """

    answer: Answer
    shapes: Sequence[tuple[int, int]]
    batcher: Batcher = field(default_factory=Batcher)

    @classmethod
    def of(cls, *games: Game, batch_size: int = 64, budget: int | None = None) -> Evaluator:
        """An evaluator of plain games; game k has index k.

        >>> game = Game(lambda visual, text: visual.sum(1), n_visual=2)
        >>> evaluator = Evaluator.of(game, budget=4)
        >>> evaluator.run([(0, ask(np.array([[True, False], [True, True], [True, False]])))])
        [array([1., 2., 1.])]
        >>> evaluator.passes.made
        2
        """

        def answer(blocks: Sequence[Block]) -> Values:
            return np.concatenate([games[block.game].value(block.visual_keep, block.text_keep) for block in blocks])

        return cls(answer, [(game.n_visual, game.n_text) for game in games], Batcher(batch_size, budget=budget))

    @property
    def passes(self) -> Passes:
        return self.batcher.passes

    def game(self, index: int = 0) -> Game:
        """A game of the evaluator as a `Game`: every value comes out of memory, batches and budget."""

        def value(visual_keep: Keep, text_keep: Keep) -> Values:
            return self.run([(index, ask(np.concatenate([visual_keep, text_keep], axis=1)))])[0]

        return Game(value, *self.shapes[index])

    def run(self, questions: Sequence[tuple[int, Question[T]]]) -> list[T]:
        """The results of (game index, question) pairs, in their order."""
        return self.batcher.run([self.about(index, question) for index, question in questions])

    def about(self, index: int, question: Question[T]) -> RowQuestion[T]:
        """A question about coalitions of one game as a question about rows."""
        n = sum(self.shapes[index])
        values: Values | None = None
        while True:
            try:
                keep = question.send(values)  # type: ignore[arg-type]  # the first send of a generator is of None
            except StopIteration as stop:
                return stop.value
            values = yield Rows(self._values, index, _packed(checked_keep(keep, n)))

    def forget(self, index: int) -> None:
        """Drop all answers of one game."""
        self.batcher.forget(self._values, index)

    def _values(self, runs: Sequence[Run]) -> npt.ArrayLike:
        blocks = []
        for index, keys in runs:
            n_visual, n_text = self.shapes[index]
            keep = _unpacked(keys, n_visual + n_text)
            blocks.append(Block(index, keep[:, :n_visual], keep[:, n_visual:]))
        return self.answer(blocks)


def ask(keep: Keep) -> Question[Values]:
    """The simplest question: the values of these coalitions.

    >>> question = ask(np.array([[True, False]]))
    >>> next(question)
    array([[ True, False]])
    """
    return (yield keep)


def _packed(keep: Keep) -> list[bytes]:
    packed = np.ascontiguousarray(np.packbits(keep, axis=1))  # masks may come in any memory order
    return packed.view(f"V{packed.shape[1]}").ravel().tolist() if len(keep) else []


def _unpacked(keys: Sequence[bytes], n: int) -> Keep:
    packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, (n + 7) // 8)
    return np.unpackbits(packed, axis=1, count=n).view(np.bool_)

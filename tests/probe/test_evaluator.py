"""The evaluator: every pass counted, none made twice, full batches, bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.probe import Batcher, Block, BudgetExceeded, Evaluator, Game, Question, ask
from karat.probe.estimators import permutation, regression
from karat.probe.exact import coalitions, table


class Recorder:
    """Answers with the number of kept players plus 100 per game, and remembers every batch it was handed."""

    def __init__(self, fits: int | None = None, error: type[Exception] = MemoryError, text: str = "") -> None:
        self.batches: list[list[Block]] = []
        self.tried: list[int] = []
        self.fits, self.error, self.text = fits, error, text

    def __call__(self, blocks: Sequence[Block]) -> np.ndarray:
        rows = sum(len(block.visual_keep) for block in blocks)
        self.tried.append(rows)
        if self.fits is not None and rows > self.fits:
            raise self.error(self.text)
        self.batches.append(list(blocks))
        return np.concatenate([100 * b.game + b.visual_keep.sum(1) + b.text_keep.sum(1) for b in blocks])

    @property
    def sizes(self) -> list[int]:
        return [sum(len(block.visual_keep) for block in batch) for batch in self.batches]

    @property
    def rows(self) -> list[tuple[int, bytes]]:
        return [
            (block.game, np.concatenate([v, t]).tobytes())
            for batch in self.batches
            for block in batch
            for v, t in zip(block.visual_keep, block.text_keep, strict=True)
        ]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 2**9 - 1), max_size=40)), min_size=1, max_size=6),
    st.integers(1, 17),
)
@settings(max_examples=60, deadline=None)
def test_answers_are_right_and_no_pass_is_made_twice(requests: list[tuple[int, list[int]]], batch_size: int) -> None:
    recorder = Recorder()
    evaluator = Evaluator(recorder, [(7, 2), (4, 5)], Batcher(batch_size=batch_size))
    masks = [coalitions(9)[np.array(rows, dtype=np.intp)] for _, rows in requests]
    results = evaluator.run([(index, ask(keep)) for (index, _), keep in zip(requests, masks, strict=True)])
    for (index, _), keep, values in zip(requests, masks, results, strict=True):
        assert np.array_equal(values, 100 * index + keep.sum(1))
    distinct = {(index, row) for index, rows in requests for row in rows}
    assert len(recorder.rows) == len(set(recorder.rows)) == len(distinct) == evaluator.passes.made
    assert evaluator.passes.requested == sum(len(rows) for _, rows in requests)
    assert evaluator.passes.saved == evaluator.passes.requested - len(distinct)
    assert all(size == batch_size for size in recorder.sizes[:-1])  # one-shot questions: all but the last are full
    before = len(recorder.batches)
    evaluator.run([(index, ask(keep)) for (index, _), keep in zip(requests, masks, strict=True)])
    assert len(recorder.batches) == before  # all from memory


def steps(n: int, m: int) -> Question[float]:
    """m requests in a row, each of three coalitions that nobody asked for before."""
    total = 0.0
    for k in range(m):
        total += float((yield coalitions(n, 3 * k, 3 * k + 3)).sum())
    return total


def test_questions_about_several_samples_share_batches() -> None:
    recorder = Recorder()
    evaluator = Evaluator(recorder, [(6, 0)] * 8, Batcher(batch_size=12))
    results = evaluator.run([(k, steps(6, 5)) for k in range(8)])
    alone = Evaluator(Recorder(), [(6, 0)] * 8, Batcher(batch_size=12))
    assert results == [alone.run([(k, steps(6, 5))])[0] for k in range(8)]
    assert evaluator.passes.made == 8 * 15
    assert evaluator.passes.batches == 10  # 120 rows in tens of 12: not one batch is short
    assert alone.passes.batches == 40
    assert all(len({block.game for block in batch}) > 1 for batch in recorder.batches)


def test_rows_of_one_visual_coalition_lie_side_by_side() -> None:
    recorder = Recorder()
    keep = coalitions(7)[np.random.default_rng(0).permutation(128)]
    Evaluator(recorder, [(4, 3)], Batcher(batch_size=16)).run([(0, ask(keep))])
    visual = [row[1][:4] for row in recorder.rows]
    assert sum(a != b for a, b in pairwise(visual)) == 2**4 - 1


def test_the_order_of_rows_does_not_change_the_batches() -> None:
    keep = coalitions(7)
    first, second = Recorder(), Recorder()
    Evaluator(first, [(4, 3)], Batcher(batch_size=16)).run([(0, ask(keep))])
    Evaluator(second, [(4, 3)], Batcher(batch_size=16)).run([(0, ask(keep[::-1]))])
    assert first.rows == second.rows


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError, ""),
        (RuntimeError, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        (RuntimeError, "DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_batches_are_halved_until_they_fit(error: type[Exception], text: str) -> None:
    recorder = Recorder(fits=5, error=error, text=text)
    evaluator = Evaluator(recorder, [(5, 0)], Batcher(batch_size=16))
    [values] = evaluator.run([(0, ask(coalitions(5)))])
    assert np.array_equal(values, coalitions(5).sum(1))
    assert recorder.tried == [16, 8, 4] + [4] * 7
    assert (evaluator.passes.made, evaluator.passes.halvings) == (32, 2)


def test_other_errors_and_a_batch_of_one_are_not_swallowed() -> None:
    with pytest.raises(RuntimeError, match="shape mismatch"):
        Evaluator(Recorder(0, RuntimeError, "shape mismatch"), [(3, 0)]).run([(0, ask(coalitions(3)))])
    recorder = Recorder(fits=0)
    with pytest.raises(MemoryError):
        Evaluator(recorder, [(3, 0)], Batcher(batch_size=8)).run([(0, ask(coalitions(3)))])
    assert recorder.tried == [8, 4, 2, 1]


def test_budget_is_never_overrun_by_one() -> None:
    recorder = Recorder()
    evaluator = Evaluator(recorder, [(5, 0)], Batcher(budget=20, batch_size=7))
    evaluator.run([(0, ask(coalitions(5)[:15]))])
    evaluator.run([(0, ask(coalitions(5)[:15]))])  # repeats are free
    with pytest.raises(BudgetExceeded, match="15 passes made and 6 more asked for; the budget is 20"):
        evaluator.run([(0, ask(coalitions(5)[:21]))])
    assert sum(recorder.sizes) == 15
    evaluator.run([(0, ask(coalitions(5)[:20]))])
    assert sum(recorder.sizes) == 20


def test_budget_counts_what_waits_in_the_queue() -> None:
    recorder = Recorder()
    with pytest.raises(BudgetExceeded):
        Evaluator(recorder, [(5, 0)] * 2, Batcher(budget=20)).run(
            [(0, ask(coalitions(5)[:12])), (1, ask(coalitions(5)[:12]))]
        )
    assert recorder.sizes == []


def test_memory_stays_within_its_bytes_and_repeats_what_it_could_not_keep() -> None:
    bound = 300_000

    def answer(blocks: Sequence[Block]) -> np.ndarray:
        return np.concatenate([block.visual_keep.sum(1) for block in blocks])

    evaluator = Evaluator(answer, [(16, 0)], Batcher(batch_size=512, memory_bytes=bound))
    tracemalloc.start()
    for start in range(0, 2**14, 512):
        evaluator.run([(0, ask(coalitions(16, start, start + 512)))])
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    stored = len(evaluator.batcher._groups[evaluator._values, 0].memory)
    assert bound * 0.9 < evaluator.batcher.used_bytes <= bound
    assert used <= bound * 1.05
    [again] = evaluator.run([(0, ask(coalitions(16, 0, 2**14)))])
    assert np.array_equal(again, coalitions(16, 0, 2**14).sum(1))
    assert evaluator.passes.saved == stored
    evaluator.forget(0)
    assert evaluator.batcher.used_bytes == 0


def test_a_game_behind_the_evaluator_is_still_a_game() -> None:
    evaluator = Evaluator.of(Game(lambda v, t: v.sum(1) + 2.0 * t.sum(1), 2, 1), batch_size=4)
    game = evaluator.game()
    assert np.array_equal(game.value(coalitions(3)), coalitions(3) @ [1.0, 1.0, 2.0])
    game.value(coalitions(3))
    assert evaluator.passes.made == 8


def test_estimates_do_not_depend_on_their_company() -> None:
    games = [Game(lambda v, t, k=k: np.tanh(v @ np.arange(k, k + 13.0) / 20), 13) for k in range(3)]
    evaluator = Evaluator.of(*games, batch_size=32)
    kinds = [permutation, regression, permutation]
    pooled = evaluator.run([(k, kinds[k](13, 300, np.random.default_rng(k))) for k in range(3)])
    for k in range(3):
        [alone] = Evaluator.of(games[k], batch_size=32).run([(0, kinds[k](13, 300, np.random.default_rng(k)))])
        assert np.array_equal(alone.values, pooled[k].values)
        assert np.array_equal(alone.standard_error, pooled[k].standard_error)


def test_no_answer_stays_no_answer_and_harms_no_neighbour() -> None:
    broken = Game(lambda v, t: np.full(len(v), np.nan), 4)
    fine = Game(lambda v, t: v.sum(1), 4)
    first, second = Evaluator.of(broken, fine).run([(0, table(4)), (1, table(4))])
    assert np.isnan(first).all()
    assert np.array_equal(second, coalitions(4).sum(1))


def test_batch_size_must_be_positive() -> None:
    with pytest.raises(BadInput, match="batch_size"):
        Evaluator(Recorder(), [(3, 0)], Batcher(batch_size=0))


def test_masks_may_come_in_any_memory_order() -> None:
    keep = coalitions(4)
    game = Evaluator.of(Game(lambda visual, text: visual.sum(1) * 2.0 + text.sum(1), 2, 2)).game()
    assert np.array_equal(game.value(np.asfortranarray(keep)), game.value(np.ascontiguousarray(keep)))

"""Rows of any kind: every pass counted, none made twice, full batches of each kind, questions that hand over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.kernel.typing import Values
from karat.probe.batcher import Batcher, BudgetExceeded, RowQuestion, Rows, Run


class Source:
    """Answers a number with its square plus 1000 per group, and remembers every batch it was handed."""

    def __init__(self, fits: int | None = None) -> None:
        self.batches: list[list[Run]] = []
        self.fits = fits

    def __call__(self, runs: Sequence[Run]) -> np.ndarray:
        keys = [(group, key) for group, keys in runs for key in keys]
        if self.fits is not None and len(keys) > self.fits:
            raise MemoryError
        self.batches.append(list(runs))
        return np.array([1000.0 * group + key**2 for group, key in keys])

    @property
    def keys(self) -> list[list[int]]:
        return [[key for run in batch for key in run.keys] for batch in self.batches]


def values_of(source: Source, keys: Sequence[int], group: int = 0, remember: bool = True) -> RowQuestion[Values]:
    return (yield Rows(source, group, keys, remember))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 30), max_size=25)), min_size=1, max_size=6),
    st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_answers_are_right_and_no_pass_is_made_twice(requests: list[tuple[int, list[int]]], batch_size: int) -> None:
    source, batcher = Source(), Batcher(batch_size)
    results = batcher.run([values_of(source, keys, group) for group, keys in requests])
    for (group, keys), values in zip(requests, results, strict=True):
        assert values.tolist() == [1000 * group + key**2 for key in keys]
    distinct = {(group, key) for group, keys in requests for key in keys}
    made = [(run.group, key) for batch in source.batches for run in batch for key in run.keys]
    assert len(made) == len(set(made)) == len(distinct) == batcher.passes.made
    assert batcher.passes.requested == sum(len(keys) for _, keys in requests)
    assert all(len(batch) == batch_size for batch in source.keys[:-1])
    before = len(source.batches)
    batcher.run([values_of(source, keys, group) for group, keys in requests])
    assert len(source.batches) == before  # all from memory


def test_rows_of_a_request_run_in_the_order_of_their_keys() -> None:
    source = Source()
    [values] = Batcher(4).run([values_of(source, [5, 1, 4, 1, 3, 2])])
    assert source.keys == [[1, 2, 3, 4], [5]]
    assert values.tolist() == [25, 1, 16, 1, 9, 4]


def test_kinds_have_batches_of_their_own_and_each_is_full() -> None:
    """Two questions ask one kind, then the other: what comes second waits until the first kind is done with."""
    squares, others = Source(), Source()

    def both(first: int) -> RowQuestion[float]:
        values = yield from values_of(squares, range(first, first + 6), first)
        more = yield from values_of(others, range(first, first + 3), first)
        return float(values.sum() + more.sum())

    batcher = Batcher(4)
    results = batcher.run([both(0), both(10)])
    assert squares.keys == [[0, 1, 2, 3], [4, 5, 10, 11], [12, 13, 14, 15]]
    assert others.keys == [[0, 1, 2, 10], [11, 12]]
    assert results == [Batcher(4).run([both(first)])[0] for first in (0, 10)]
    assert batcher.passes.batches == 5


def test_a_question_may_hand_over_depending_on_the_answers() -> None:
    source = Source()

    def bisected(low: int, high: int) -> RowQuestion[int]:
        """The least number whose square is at least 50."""
        if low == high:
            return low
        middle = (low + high) // 2
        [value] = yield from values_of(source, [middle])
        return (yield from bisected(low, middle) if value >= 50 else bisected(middle + 1, high))

    batcher = Batcher()
    assert batcher.run([bisected(0, 31), bisected(0, 15)]) == [8, 8]
    assert batcher.passes.made < batcher.passes.requested  # both came by 7


def test_rows_that_nobody_can_ask_for_again_are_not_remembered() -> None:
    source, batcher = Source(), Batcher()
    batcher.run([values_of(source, range(10), remember=False)])
    assert batcher.used_bytes == 0
    assert not batcher._groups  # nor is their source kept alive
    batcher.run([values_of(source, range(10))])
    assert batcher.passes.made == 20
    assert batcher.used_bytes > 0
    batcher.forget(source, 0)
    assert batcher.used_bytes == 0


def test_halved_batches_stay_small_for_every_kind_and_lose_no_row() -> None:
    tight, roomy = Source(fits=3), Source()
    batcher = Batcher(8)
    first, second = batcher.run([values_of(tight, range(10)), values_of(roomy, range(4))])
    assert first.tolist() == [key**2 for key in range(10)]
    assert second.tolist() == [0, 1, 4, 9]
    assert [len(keys) for keys in tight.keys] == [2] * 5
    assert [len(keys) for keys in roomy.keys] == [2, 2]
    assert (batcher.passes.made, batcher.passes.halvings) == (14, 2)


def test_the_budget_is_for_all_kinds_together() -> None:
    one, two = Source(), Source()
    batcher = Batcher(budget=10)
    with pytest.raises(BudgetExceeded, match="0 passes made and 12 more"):
        batcher.run([values_of(one, range(6)), values_of(two, range(6))])
    assert one.batches == two.batches == []
    batcher.run([values_of(one, range(6)), values_of(two, range(4))])
    assert batcher.passes.made == 10


def test_what_is_refused() -> None:
    with pytest.raises(BadInput, match="batch_size must be at least 1; got 0"):
        Batcher(0)
    with pytest.raises(BadInput, match=r"shape \(2,\); got \(3,\)"):
        Batcher().run([values_of(lambda runs: [1.0] * 3, [1, 2])])  # type: ignore[arg-type]

"""Which step follows which death."""

from __future__ import annotations

import pytest
import toys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karat.engine.crash_isolation import TRIES, Care, Step, Trial
from karat.engine.plan import plan
from karat.kernel.spec import Spec

JOB = plan(Spec.parse(toys.spec(datasets=[{"name": "toys:Squares", "n": 8}], shard_size=8))).grid[0]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # no time is asserted
@given(st.integers(0, 20), st.integers(1, 12), st.sets(st.integers(0, 40)), st.booleans())
def test_pieces_cover_a_batch_in_order_and_the_lost_stand_alone(
    start: int, size: int, lost: set[int], apart: bool
) -> None:
    care = Care(alone=frozenset({start} if apart else ()), fatal=dict.fromkeys(lost, "dead"))
    pieces = care.pieces(start, start + size)
    assert [at for a, b in pieces for at in range(a, b)] == list(range(start, start + size))
    assert all(b - a == 1 for a, b in pieces if apart or any(at in lost for at in range(a, b)))


def test_the_first_death_is_taken_for_bad_luck() -> None:
    place = Step("explain", 0, 2, JOB.cells[0].id)
    [again] = Trial(JOB).died(place, "signal 9")
    assert again.job == JOB
    assert again.care == Care()


def test_a_second_death_at_the_same_place_parts_the_cells_and_suspects_only_the_guilty_one() -> None:
    guilty, innocent = JOB.cells
    place = Step("explain", 4, 6, guilty.id)
    [again] = Trial(JOB).died(place, "signal 9")
    first, second = again.died(place, "signal 9")
    assert first.job.cells == (guilty,)
    assert first.care.alone == {4}
    assert second.job.cells == (innocent,)
    assert second.care == Care()


def test_deaths_at_different_places_are_counted_apart() -> None:
    [trial] = Trial(JOB).died(Step("explain", 0, 2, JOB.cells[0].id), "x")
    [trial] = trial.died(Step("explain", 2, 4, JOB.cells[0].id), "x")
    assert trial.care == Care()


def test_a_sample_that_kills_alone_is_lost_and_says_how_often_it_was_tried() -> None:
    trial = Trial(JOB)
    place = Step("explain", 3, 4, JOB.cells[0].id)
    for _ in range(TRIES):
        trial = trial.died(place, "its process died (signal 9)")[0]
    assert trial.care.lost(3) == "its process died (signal 9), each of 2 times this sample was tried alone"
    assert trial.care.lost(2) == ""


def test_reading_is_taken_apart_too() -> None:
    trial = Trial(JOB)
    for _ in range(TRIES):
        trial = trial.died(Step("read", 0, 8), "x")[0]
    assert trial.care.read_alone
    for _ in range(TRIES):
        trial = trial.died(Step("read", 5, 6), "x")[0]
    assert list(trial.care.unreadable) == [5]


@pytest.mark.parametrize(
    ("whole", "alone"),
    [(Step("explain", 4, 6), Step("explain", 5, 6)), (Step("read", 0, 8), Step("read", 5, 6))],
)
def test_a_sample_that_kills_whoever_touches_it_is_found_once_for_all_cells(whole: Step, alone: Step) -> None:
    """Four deaths, however many explainers there are: docs/concepts/faults.md says so."""
    assert len(JOB.cells) > 1
    [trial] = [Trial(JOB)]
    for place in (whole, whole, alone, alone):
        [trial] = trial.died(place, "x")
        assert trial.job == JOB
    assert trial.care.lost(5)


def test_a_worker_that_never_gets_to_a_sample_is_given_up() -> None:
    [again] = Trial(JOB).died(None, "x")
    assert again.died(None, "x") == []

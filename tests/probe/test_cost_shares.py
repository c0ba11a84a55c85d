"""Seconds of a trace that several explainers read are borne in equal parts."""

from __future__ import annotations

import pytest

from karat.datasets.grid import generate
from karat.models import load_model
from karat.probe.session import Cost, Session


def test_a_shared_cost_is_borne_in_equal_parts() -> None:
    cost, users = Cost(seconds={"first": 9.0}), list[str]()
    for name in ("first", "second", "third", "second"):
        cost._running.append(name)
        cost.share(9.0, users)  # `first` made it: its own clock has counted all nine
        cost._running.pop()
    assert users == ["first", "second", "third"]
    assert cost.seconds == pytest.approx({"first": 3.0, "second": 3.0, "third": 3.0})


def test_nobody_pays_where_no_clock_runs() -> None:
    cost = Cost()
    cost.share(1.0, [])
    assert cost.seconds == {}


def test_explainers_that_read_one_trace_share_its_seconds() -> None:
    session = Session(load_model("gridprog.pure", cell=16), generate("D1_M_F0_d0.3", 1, cell=16))
    for name in ("first", "second"):
        with session.cost.clock(name):
            session.trace(["vision.last"], ("activations",))
    [(spent, users)] = session._trace_seconds
    assert users == ["first", "second"]
    assert session.cost.traces == 1
    assert session.cost.seconds["second"] >= spent / 2  # and not next to nothing
    assert session.cost.seconds["first"] + session.cost.seconds["second"] >= spent

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.statistics import pareto


def test_frontier_by_hand() -> None:
    frame = pd.DataFrame(
        {"seconds": [1, 2, 3, 3, 0.5, 9], "f": [0.1, 0.3, 0.2, np.nan, 0.1, 0.3]}, index=list("abcdef")
    )
    out = pareto(frame, "seconds", "f")
    assert list(out.index) == ["e", "a", "b", "c", "f", "d"]
    assert set(out.index[out["frontier"]]) == {"e", "b"}
    assert out.loc[["a", "c", "f"], "dominated_by"].to_dict() == {"a": "b", "c": "b", "f": "b"} | {"a": "e"}
    assert out.loc["d", "dominated_by"] is None
    down = pareto(frame, "seconds", "f", "lower")
    assert set(down.index[down["frontier"]]) == {"e"}


points = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=15)


@settings(max_examples=60, deadline=None)
@given(points)
def test_every_point_is_on_the_frontier_or_beaten_by_one_that_is_no_worse(values: list[tuple[int, int]]) -> None:
    out = pareto(pd.DataFrame(values, columns=["cost", "score"]), "cost", "score")
    assert out["frontier"].any()
    for i, row in out.iterrows():
        beaten = any(
            c <= row["cost"] and s >= row["score"] and (c, s) != (row["cost"], row["score"]) for c, s in values
        )
        assert row["frontier"] == (not beaten)
        if beaten:
            by = out.loc[row["dominated_by"]]
            assert by["cost"] <= row["cost"]
            assert by["score"] >= row["score"]
            assert row["dominated_by"] != i


def test_bad_input() -> None:
    frame = pd.DataFrame({"c": [1.0], "s": [1.0]})
    with pytest.raises(BadInput, match="no column 'x'"):
        pareto(frame, "x", "s")
    with pytest.raises(BadInput, match="no better direction"):
        pareto(frame, "c", "s", "none")

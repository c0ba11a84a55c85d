from __future__ import annotations

import numpy as np
import pytest

from karat.kernel.errors import BadInput
from karat.kernel.row import Failure, NotApplicable, Outcomes, Score


def test_missing_is_never_silent() -> None:
    with pytest.raises(BadInput, match=r"samples \[1\] have no finite value and no reason"):
        Outcomes(np.array([0.5, np.nan]))


def test_one_outcome_each() -> None:
    outcomes = Outcomes(np.array([0.5, np.nan, np.nan]), {1: "broke"}, {2: "no truth"})
    assert [outcomes[i] for i in range(3)] == [Score(0.5), Failure("broke"), NotApplicable("no truth")]


def test_joining_keeps_reasons_in_place() -> None:
    parts = [Outcomes(np.array([1.0])), Outcomes.failed(["x", "y"]), Outcomes(np.array([np.nan]), {}, {0: "z"})]
    joined = Outcomes.join(parts)
    assert [joined[i] for i in range(4)] == [Score(1.0), Failure("x"), Failure("y"), NotApplicable("z")]


def test_details_have_names_and_one_entry_for_each_sample() -> None:
    curves = np.array([[0.0, 1.0], [0.0, 0.5]])
    outcomes = Outcomes(np.array([1.0, 0.5]), details={"curve": curves}, texts={"said": ["yes", "no"]})
    joined = Outcomes.join([outcomes, Outcomes.failed(["lost"]), outcomes])
    assert joined.details["curve"].shape == (5, 2)
    assert np.isnan(joined.details["curve"][2]).all()
    assert joined.texts["said"] == ["yes", "no", "", "yes", "no"]
    with pytest.raises(BadInput, match="an entry for each of 2 samples"):
        Outcomes(np.array([1.0, 0.5]), details={"curve": curves[:1]})
    with pytest.raises(BadInput, match="one shape for all samples"):
        Outcomes.join([outcomes, Outcomes(np.array([1.0]), details={"curve": np.zeros((1, 3))})])


def test_the_level_of_a_score_outlives_a_failed_batch() -> None:
    blocks = Outcomes(np.array([1.0]), level="block")
    assert Outcomes.join([Outcomes.failed(["lost"]), blocks]).level == "block"

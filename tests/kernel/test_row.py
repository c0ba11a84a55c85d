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

"""Missing is a value: reasons why a sample has no score, and columns that never let a NaN pass."""

from __future__ import annotations

import numpy as np

from karat.kernel.row import Failure, NotApplicable, Score
from karat.metrics import map_problem, mask_problem, outcomes
from karat.metrics.localization import CorrectedMass, RelevanceMass, Spuriousity
from karat.metrics.missing import first, problems


def test_outcomes_never_let_a_nan_pass_as_a_score() -> None:
    assert list(outcomes(np.array([0.5, np.nan]), [None, None])) == [Score(0.5), Failure("score is not finite")]


def test_reasons_special_to_one_metric() -> None:
    maps, whole = np.array([[[0.2, 0.1]]]), np.ones((1, 1, 2), dtype=bool)
    assert np.isnan(CorrectedMass()(maps, whole)).all()
    assert CorrectedMass().problems(maps, whole) == [NotApplicable("truth mask covers the whole map")]
    assert RelevanceMass().problems(maps, whole) == [None]
    for mode in ("soft", "hard"):
        demanding = Spuriousity(0.6, mode)  # type: ignore[arg-type]
        assert np.isnan(demanding(maps, whole)).all()
        assert demanding.problems(maps, whole) == [Failure("no saliency reaches the threshold 0.6")]


def test_problem_lists() -> None:
    assert map_problem(np.array([[[0.0]], [[-1.0]], [[np.inf]]])) == ["map is all zero", None, "map has NaN or inf"]
    assert mask_problem(np.array([[[False]], [[True]]])) == ["truth mask is empty", None]


def test_where_both_hold_there_was_nothing_to_answer() -> None:
    assert problems(["broken", None, "broken"], [None, None, "no truth"]) == [
        Failure("broken"),
        None,
        NotApplicable("no truth"),
    ]
    assert first([None, "a", "b"], ["c", "d", None]) == ["c", "a", "b"]

"""Rows carried back through attention: shares that stay whole, runs of rows that change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sequence_models import model, samples, targets

from karat.explainers.attention import Daam, Gar, Generic, GradRollout, Raw, Rollout
from karat.probe import Session

EXPLAINERS: list[Any] = [Raw(), Rollout(), Rollout("max", 0.5, "released"), GradRollout(), Generic(), Gar(0.5), Daam()]


def test_rows_of_a_rollout_sum_to_one() -> None:
    """Patches and class token share one whole; without a class token the patches have it all."""
    session = Session(model("no_class_token"), samples(), targets("no_class_token"))
    for explainer in (Rollout(), Rollout("max"), Rollout("mean", 0.5), GradRollout(normalise=True)):
        assert [attribution.visual.sum() for attribution in explainer(session)] == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=repr)
def test_runs_of_rows_change_nothing(explainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long context is worked through a few rows at a time."""
    key = "grouped_queries"
    whole = explainer(Session(model(key), samples(), targets(key)))
    monkeypatch.setattr("karat.probe.attention._AT_ONCE", 3 * 4 * 50 * 7)  # seven rows of about fifty
    parts = explainer(Session(model(key), samples(), targets(key)))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.visual, other.visual, rtol=1e-9, atol=1e-12)

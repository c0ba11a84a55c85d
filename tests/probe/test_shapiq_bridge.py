"""Values through shapiq: they cover the truth, keep to the budget, and say what is missing."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from probe_worlds import game_of, saturated

from karat.kernel.errors import ExtraMissing, UnknownName
from karat.probe import interaction_index, interaction_matrix, shapley
from karat.probe.exact import shapley_interactions, shapley_values


@pytest.mark.parametrize("name", ["SVARM", "KernelSHAP", "PermutationSamplingSV", "UnbiasedKernelSHAP"])
def test_shapley_values_through_shapiq(name: str) -> None:
    pytest.importorskip("shapiq")
    game, truth = game_of(saturated(9)), shapley_values(saturated(9))
    runs = [shapley(game, 6 * 300, f"shapiq/{name}", seed) for seed in range(8)]
    z = np.stack([(run.values - truth) / run.standard_error for run in runs])
    assert (np.abs(z) < 1.96).mean() > 0.88
    result = shapley(game, 600, f"shapiq/{name}")
    assert result.passes <= 600
    assert result.method == f"shapiq/{name}"


def test_interactions_through_shapiq() -> None:
    pytest.importorskip("shapiq")
    game, matrix = game_of(saturated(9), 5), shapley_interactions(saturated(9))
    result = interaction_matrix(game, budget=6 * 300, method="shapiq/SVARMIQ", rng=1)
    assert np.abs(result.values - matrix[:5, 5:]).max() < 0.1 * np.abs(matrix).max()
    one = interaction_index(game, 0, 7, budget=6 * 300, method="shapiq/SVARMIQ", rng=1)
    assert float(one) == result.values[0, 2]


def test_shapiq_unknown_name_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("shapiq")
    game = game_of(saturated(9))
    with pytest.raises(UnknownName, match="SVARM"):
        shapley(game, 400, "shapiq/SVRM")
    original = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "shapiq":
            raise ImportError(name)
        return original(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ExtraMissing, match="pip install 'karat\\[shapley\\]'"):
        shapley(game, 400, "shapiq/SVARM")

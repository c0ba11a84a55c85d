"""Shapley explainers: exact where they can be, within budget, no worse than shapiq's sampling, honest error bars."""

from __future__ import annotations

import numpy as np
import pytest
import shapiq
from asking_worlds import PATCH_WEIGHTS, WORD_WEIGHTS, WORDS, additive, cells, entangled, shades, white, world

from karat.explainers.shapley import KernelShap, Permutation
from karat.kernel.registry import build
from karat.probe import Evaluator, Game
from karat.probe.estimators import kernelshap, permutation, regression
from karat.probe.exact import coalitions, shapley_values
from karat.probe.session import Session

METHODS = [KernelShap, Permutation]


def table_of(level: np.ndarray) -> np.ndarray:
    """Values of all 2^11 coalitions of eight cells and three words under `entangled`."""
    keep = coalitions(11)
    bright = np.zeros((len(keep), 16))
    bright[:, :8] = keep[:, :8] * level[:8]
    said = [{w for w, kept in zip(WORDS, row, strict=True) if kept} for row in keep[:, 8:]]
    return entangled(bright, said)


@pytest.mark.parametrize("method", METHODS)
def test_a_sum_is_shared_out_to_its_terms(method: type[KernelShap] | type[Permutation]) -> None:
    model, seen = world(additive)
    [found] = method(visual=(4, 4), absence="black", budget=300)(Session(model, [white()], ["yes"]))
    np.testing.assert_allclose(found.visual.ravel(), PATCH_WEIGHTS, atol=1e-9)
    np.testing.assert_allclose(found.words, [WORD_WEIGHTS[word] for word in WORDS], atol=1e-9)
    assert len(set(seen.seen)) <= found.passes <= 300


@pytest.mark.parametrize("method", METHODS)
def test_small_games_are_exact(method: type[KernelShap] | type[Permutation]) -> None:
    model, seen = world(entangled)
    sample = shades(1)[0]
    [found] = method(visual=(2, 4), absence="black", budget=2048)(Session(model, [sample], ["yes"]))
    keep = coalitions(11)
    level = cells(sample.image[None])[0].reshape(4, 4)
    grid = np.arange(8).reshape(2, 4).repeat(2, axis=0)
    bright = (keep[:, grid.ravel()] * level.ravel()).reshape(-1, 16)
    said = [{w for w, kept in zip(WORDS, row, strict=True) if kept} for row in keep[:, 8:]]
    truth = shapley_values(entangled(bright, said))
    np.testing.assert_allclose(np.append(found.visual, found.words), truth, atol=1e-12)
    assert found.standard_error.max() == found.words_error.max() == 0
    assert found.passes == 2048 == len(set(seen.seen))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("features", ["jointly", "apart"])
def test_parts_add_up_to_the_whole(method: type[KernelShap] | type[Permutation], features: str) -> None:
    model, _ = world(entangled)
    sample = shades(1)[0]
    [found] = method(visual=(4, 4), absence="black", budget=400, features=features)(Session(model, [sample], ["yes"]))

    def value(image: np.ndarray, said: set[str]) -> float:
        return float(entangled(cells(image[None]), [said])[0])

    black, words = np.zeros_like(sample.image), set(WORDS)
    if features == "jointly":
        whole = value(sample.image, words) - value(black, set())
        assert found.visual.sum() + found.words.sum() == pytest.approx(whole, abs=1e-9)
    else:
        assert found.visual.sum() == pytest.approx(value(sample.image, words) - value(black, words), abs=1e-9)
        assert found.words.sum() == pytest.approx(value(sample.image, words) - value(sample.image, set()), abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_error_bars_cover(method: type[KernelShap] | type[Permutation]) -> None:
    sample = shades(1)[0]
    model, _ = world(entangled)
    [truth] = KernelShap(visual=(2, 4), absence="black", budget=2048)(Session(model, [sample], ["yes"]))
    explainer = method(visual=(2, 4), absence="black", budget=300)
    runs = [explainer(Session(model, [sample], ["yes"], seed=seed))[0] for seed in range(60)]
    values, errors = (
        np.stack([np.append(getattr(run, part), getattr(run, words)) for run in runs])
        for part, words in (("visual", "words"), ("standard_error", "words_error"))
    )
    heard = np.abs(np.append(truth.visual, truth.words)) > 1e-9
    assert heard.sum() == 10  # the word "is" does nothing, and orders say so without any error
    z = (values - np.append(truth.visual, truth.words))[:, heard] / errors[:, heard]
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99


@pytest.mark.parametrize("budget", [150, 400])
def test_no_worse_than_permutation_sampling_of_shapiq(budget: int) -> None:
    """Mean squared error at equal budget, over games whose values are known."""
    errors: dict[str, list[float]] = {"ours": [], "kernelshap": [], "regression": [], "shapiq": []}
    powers = 1 << np.arange(11)
    for seed in range(4):
        table = table_of(np.random.default_rng(seed).random(16))
        truth = shapley_values(table)
        for repeat in range(12):
            rng = np.random.default_rng(repeat)
            game = Game(lambda visual, text, table=table: table[visual @ powers], 11)
            for name, method in (("ours", permutation), ("kernelshap", kernelshap), ("regression", regression)):
                evaluator = Evaluator.of(game, budget=budget)
                [found] = evaluator.run([(0, method(11, budget, rng))])
                errors[name].append(float(((found.values - truth) ** 2).mean()))
            sampler = shapiq.PermutationSamplingSV(11, random_state=repeat)
            theirs = sampler.approximate(
                budget, lambda keep, table=table: table[np.atleast_2d(keep).astype(bool) @ powers]
            )
            errors["shapiq"].append(float(np.mean([(theirs[(i,)] - truth[i]) ** 2 for i in range(11)])))
    mean = {name: float(np.mean(found)) for name, found in errors.items()}
    assert mean["ours"] <= 1.2 * mean["shapiq"]
    assert mean["kernelshap"] <= 1.2 * mean["shapiq"]
    assert mean["regression"] <= 1.2 * mean["shapiq"]


def test_parameters_from_a_spec() -> None:
    made = build("explainer", "shapley/kernel_shap", {"visual": [3, 3], "budget": 500, "features": "apart"})
    assert made == KernelShap(visual=(3, 3), budget=500, features="apart")
    assert made.passes == 500


def test_no_patches_no_grid_given() -> None:
    """A plain function has no patches: 7 × 7 cells are the default."""
    model, _ = world(entangled)
    [found] = KernelShap(budget=400)(Session(model, [white()], ["yes"]))
    assert found.visual.shape == (7, 7)
    assert found.words.shape == (3,)

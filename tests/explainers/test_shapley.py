"""Shapley explainers: exact where they can be, within budget, no worse than shapiq's sampling, honest error bars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import shapiq
from cell_worlds import (
    PATCH_WEIGHTS,
    WORD_WEIGHTS,
    WORDS,
    additive,
    cells,
    entangled,
    image_values,
    shades,
    white,
    world,
)
from hypothesis import given
from hypothesis import strategies as st
from known_games import covered, squashed_sum

from karat.explainers.shapley import KernelShap, Permutation, PixelShapTokenShap, cosine, released_shares
from karat.kernel.registry import build
from karat.kernel.sample import Region
from karat.models.blackbox import BlackBox, blackbox
from karat.probe import Evaluator, Game, Session
from karat.probe.estimators import kernelshap, permutation, regression
from karat.probe.exact import coalitions, shapley_values

METHODS = [KernelShap, Permutation]


def table_of(level: np.ndarray) -> np.ndarray:
    """Values of all 2^11 coalitions of eight cells and three words under `entangled`."""
    keep = coalitions(11)
    bright = np.zeros((len(keep), 16))
    bright[:, :8] = keep[:, :8] * level[:8]
    texts = [{w for w, kept in zip(WORDS, row, strict=True) if kept} for row in keep[:, 8:]]
    return entangled(bright, texts)


@pytest.mark.parametrize("method", METHODS)
def test_a_sum_is_shared_out_to_its_terms(method: type[KernelShap] | type[Permutation]) -> None:
    model, function = world(additive)
    [attribution] = method(visual=(4, 4), absence="black", budget=300)(Session(model, [white()], ["yes"]))
    np.testing.assert_allclose(attribution.visual.ravel(), PATCH_WEIGHTS, atol=1e-9)
    np.testing.assert_allclose(attribution.words, [WORD_WEIGHTS[word] for word in WORDS], atol=1e-9)
    assert len(set(function.inputs)) <= attribution.passes <= 300


@pytest.mark.parametrize("method", METHODS)
def test_small_games_are_exact(method: type[KernelShap] | type[Permutation]) -> None:
    model, function = world(entangled)
    sample = shades(1)[0]
    [attribution] = method(visual=(2, 4), absence="black", budget=2048)(Session(model, [sample], ["yes"]))
    keep = coalitions(11)
    level = cells(sample.image[None])[0].reshape(4, 4)
    grid = np.arange(8).reshape(2, 4).repeat(2, axis=0)
    bright = (keep[:, grid.ravel()] * level.ravel()).reshape(-1, 16)
    texts = [{w for w, kept in zip(WORDS, row, strict=True) if kept} for row in keep[:, 8:]]
    truth = shapley_values(entangled(bright, texts))
    np.testing.assert_allclose(np.append(attribution.visual, attribution.words), truth, atol=1e-12)
    assert attribution.standard_error.max() == attribution.words_error.max() == 0
    assert attribution.passes == 2048 == len(set(function.inputs))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("features", ["jointly", "apart"])
def test_parts_add_up_to_the_whole(method: type[KernelShap] | type[Permutation], features: str) -> None:
    model, _ = world(entangled)
    sample = shades(1)[0]
    [attribution] = method(visual=(4, 4), absence="black", budget=400, features=features)(
        Session(model, [sample], ["yes"])
    )

    def value(image: np.ndarray, words: set[str]) -> float:
        return float(entangled(cells(image[None]), [words])[0])

    black, words = np.zeros_like(sample.image), set(WORDS)
    if features == "jointly":
        whole = value(sample.image, words) - value(black, set())
        assert attribution.visual.sum() + attribution.words.sum() == pytest.approx(whole, abs=1e-9)
    else:
        assert attribution.visual.sum() == pytest.approx(value(sample.image, words) - value(black, words), abs=1e-9)
        assert attribution.words.sum() == pytest.approx(
            value(sample.image, words) - value(sample.image, set()), abs=1e-9
        )


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
    matters = np.abs(np.append(truth.visual, truth.words)) > 1e-9
    assert matters.sum() == 10  # the word "is" does nothing, and orders say so without any error
    z = (values - np.append(truth.visual, truth.words))[:, matters] / errors[:, matters]
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
                [estimate] = evaluator.run([(0, method(11, budget, rng))])
                errors[name].append(float(((estimate.values - truth) ** 2).mean()))
            sampler = shapiq.PermutationSamplingSV(11, random_state=repeat)
            theirs = sampler.approximate(
                budget, lambda keep, table=table: table[np.atleast_2d(keep).astype(bool) @ powers]
            )
            errors["shapiq"].append(float(np.mean([(theirs[(i,)] - truth[i]) ** 2 for i in range(11)])))
    mean = {name: float(np.mean(estimate)) for name, estimate in errors.items()}
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
    [attribution] = KernelShap(budget=400)(Session(model, [white()], ["yes"]))
    assert attribution.visual.shape == (7, 7)
    assert attribution.words.shape == (3,)


# ---- PixelSHAP and TokenSHAP


def talker() -> BlackBox:
    """Answers in words: "two" if cells 0 and 5 are both bright, "one" if either; "nothing" unless asked "red"."""

    def say(images: np.ndarray, texts: list[str | None]) -> list[str]:
        bright = cells(images)[:, [0, 5]] > 0.5
        return [
            ["none", "one cell", "two cells"][int(row.sum())] if "red" in (text or "") else "nothing"
            for row, text in zip(bright, texts, strict=True)
        ]

    return blackbox(say, name="talker")


def test_shapley_values_of_the_likeness_of_answers() -> None:
    [attribution] = PixelShapTokenShap(visual=(4, 4), budget=800)(Session(talker(), [white()]))
    flat = attribution.visual.ravel()
    # two players: v(none) = 0, v(one) = cos("one cell", "two cells") = 0, v(both) = 1
    assert flat[[0, 5]] == pytest.approx([0.5, 0.5], abs=0.1)
    assert np.abs(np.delete(flat, [0, 5])).max() < 0.1
    np.testing.assert_allclose(attribution.words, [0, 0, 1], atol=1e-12)
    assert attribution.passes <= 800


def test_objects_are_players() -> None:
    sample = replace(
        white(), regions=(Region("a", "target", boxes=((0, 0, 4, 4),)), Region("b", "target", boxes=((4, 4, 4, 4),)))
    )
    [attribution] = PixelShapTokenShap(visual="objects", budget=64)(Session(talker(), [sample]))
    assert attribution.visual[0, 0] == attribution.visual[4, 4] == pytest.approx(0.5)
    assert attribution.visual[0, 8] == 0


def test_the_background_is_no_player_unless_it_is_asked_to_be() -> None:
    """A model that looks at the background alone: objects must get nothing, and the background must not get a value."""
    sample = replace(
        white(), regions=(Region("a", "target", boxes=((0, 0, 4, 4),)), Region("b", "target", boxes=((4, 4, 4, 4),)))
    )
    model, _ = world(lambda bright, words: bright[:, 15])  # the last of its 16 cells
    session = Session(model, [sample], ["yes"])
    settings: dict[str, object] = {"budget": 64, "compare": "probability", "features": "image"}
    [objects] = PixelShapTokenShap(visual="objects", **settings)(session)
    assert not objects.visual.any()
    [both] = PixelShapTokenShap(visual="objects_and_background", **settings)(session)
    assert both.visual[0, 0] == pytest.approx(0)
    assert both.visual[0, 8] == pytest.approx(1)


def test_as_released_equals_its_slow_twin() -> None:
    values = np.random.default_rng(3).random(2**5)
    powers = 1 << np.arange(5)
    game = Game(lambda visual, text: values[visual @ powers], 5)
    coalitions_asked: list[np.ndarray] = []
    [estimate] = Evaluator.of(
        Game(lambda visual, text: (coalitions_asked.append(visual.copy()), game.value(visual, text))[1], 5), budget=14
    ).run([(0, released_shares(5, 14, np.random.default_rng(0)))])
    rows = np.concatenate(coalitions_asked)
    assert estimate.passes == len(rows) == 14
    shares = []
    for i in range(5):
        present = [values[row @ powers] for row in rows if row[i]]
        absent = [values[row @ powers] for row in rows if not row[i]]
        shares.append(np.mean(present) - np.mean(absent))
    shifted = np.array(shares) - min(shares)
    np.testing.assert_allclose(estimate.values, shifted / shifted.sum(), atol=1e-12)
    for i in range(5):  # every leave-one-out is among them
        assert any((row == (np.arange(5) != i)).all() for row in rows)


def test_released_scores_are_shares() -> None:
    explainer = PixelShapTokenShap(visual=(2, 2), budget=20, variant="released")
    [attribution] = explainer(Session(talker(), [white()]))
    assert attribution.visual.min() == 0
    assert attribution.visual.sum() == pytest.approx(1)
    assert not attribution.signed


def test_probability_shares_the_sessions_answers() -> None:
    from cell_worlds import entangled, world

    model, function = world(entangled)
    session = Session(model, [white()], ["yes"])
    explainer = PixelShapTokenShap(visual=(2, 2), budget=40, compare="probability")
    explainer(session)
    before = len(function.inputs)
    explainer(session)
    assert len(function.inputs) == before


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.lists(st.sampled_from(["a", "b", "c"]), max_size=6))
def test_cosine_of_word_counts(left: list[str], right: list[str]) -> None:
    likeness = cosine(" ".join(left), " ".join(right))
    counts = [np.array([side.count(word) for word in "abc"], dtype=float) for side in (left, right)]
    size = np.linalg.norm(counts[0]) * np.linalg.norm(counts[1])
    expected = counts[0] @ counts[1] / size if size else float(left == right == [])
    assert likeness == pytest.approx(expected)


def test_error_bars_of_pixelshap_cover() -> None:
    model, _ = world(entangled)
    [sample] = shades(1)
    truth = shapley_values(image_values(sample, tuple(sample.text.split())))
    explainer = PixelShapTokenShap(visual=(4, 4), features="image", compare="probability", budget=150)
    runs = [explainer(Session(model, [sample], ["yes"], seed=seed))[0] for seed in range(60)]
    assert all(run.passes <= 150 for run in runs)
    values, errors = (np.stack([getattr(r, part).ravel() for r in runs]) for part in ("visual", "standard_error"))
    assert 0.90 < covered(values, errors, truth) < 0.99


def test_error_bars_of_released_pixelshap_cover() -> None:
    """Before it is shifted and scaled the released score is a difference of means; its error bar is that of one."""
    n, values = 10, squashed_sum(10)
    powers = 1 << np.arange(n)
    game = Game(lambda visual, text: values[visual @ powers], n)
    keep = coalitions(n)
    with_it = np.array([values[keep[:, i]].mean() - values[~keep[:, i]].mean() for i in range(n)])
    gaps, errors = [], []
    for seed in range(80):
        [estimate] = Evaluator.of(game, budget=200).run([(0, released_shares(n, 200, np.random.default_rng(seed)))])
        # differences between players are free of the shift; the scale is that of the run
        scale = (with_it - with_it.min()).sum()
        gaps.append((estimate.values - estimate.values[0]) * scale - (with_it - with_it[0]))
        errors.append(np.sqrt(estimate.standard_error**2 + estimate.standard_error[0] ** 2) * scale)
    share = float((np.abs(np.stack(gaps)[:, 1:]) <= 1.96 * np.stack(errors)[:, 1:]).mean())
    assert share > 0.88  # the scale is estimated too, which the error bar does not know

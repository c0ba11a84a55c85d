"""LIME: its regression against scikit-learn's, additive models, budgets, error bars."""

from __future__ import annotations

import numpy as np
import pytest
from cell_worlds import PATCH_WEIGHTS, WORD_WEIGHTS, WORDS, additive, entangled, shades, white, world
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise_distances

from karat.explainers.perturbation import Lime
from karat.explainers.perturbation.lime import closeness, mean_colours, neighbours, ridge
from karat.probe import Session
from karat.probe.exact import coalitions


def test_the_regression_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    keep = rng.random((80, 7)) < 0.5
    values = rng.normal(size=(80, 2))
    distance = pairwise_distances(keep.astype(float), np.ones((1, 7)), metric="cosine").ravel()
    weight = np.sqrt(np.exp(-(distance**2) / 0.25**2))
    np.testing.assert_allclose(closeness(keep), weight, rtol=1e-6)
    reference = Ridge(alpha=1.0, fit_intercept=True).fit(keep, values, sample_weight=weight)
    np.testing.assert_allclose(ridge(keep, values, weight).weights, reference.coef_.T, atol=1e-10)


@pytest.mark.parametrize("features", ["apart", "jointly"])
def test_an_additive_model_is_read_off(features: str) -> None:
    model, function = world(additive)
    lime = Lime(visual=(4, 4), absence="black", budget=120, penalty=1e-9, features=features)
    [attribution] = lime(Session(model, [white()], ["yes"]))
    np.testing.assert_allclose(attribution.visual.ravel(), PATCH_WEIGHTS, atol=1e-6)
    np.testing.assert_allclose(attribution.words, [WORD_WEIGHTS[word] for word in WORDS], atol=1e-6)
    assert attribution.standard_error.max() < 1e-6
    assert len(set(function.inputs)) <= attribution.passes <= 120


def test_each_modality_by_itself() -> None:
    model, _ = world(additive)
    session = Session(model, [white()], ["yes"])
    assert Lime(visual=(4, 4), features="image", budget=60)(session)[0].words is None
    only = Lime(visual=(4, 4), features="text", budget=60)(session)[0]
    assert only.visual is None
    assert only.standard_error.shape == only.words.shape


@given(
    n=st.integers(1, 12), extra=st.integers(2, 300), sizes=st.sampled_from(["halves", "even"]), seed=st.integers(0, 99)
)
@settings(max_examples=40, deadline=None)
def test_neighbours_are_distinct_within_budget_and_start_full(n: int, extra: int, sizes: str, seed: int) -> None:
    keep = neighbours(n, n + extra, np.random.default_rng(seed), sizes)
    assert len(keep) == len(np.unique(keep, axis=0)) == min(n + extra, 2**n)
    assert keep[0].all()


def test_error_bars_cover_the_limit() -> None:
    """The limit: all 2^16 coalitions of the image, penalty scaled down to nothing on both sides."""
    model, _ = world(entangled)
    sample = shades(1)[0]
    keep = coalitions(16)
    values = entangled(
        keep * (sample.image.reshape(4, 4, 4, 4, 3)[:, 0, :, 0, 0].ravel() / 255), [set(WORDS)] * len(keep)
    )
    truth = ridge(keep, values, closeness(keep), 1e-9).weights
    lime = Lime(visual=(4, 4), absence="black", features="image", budget=200, penalty=1e-9)
    runs = [lime(Session(model, [sample], ["yes"], seed=seed))[0] for seed in range(60)]
    z = np.stack([(run.visual.ravel() - truth) / run.standard_error.ravel() for run in runs])
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99
    assert np.abs(z.mean(axis=0)).max() < 4.5 / np.sqrt(60)


def test_superpixels_in_their_own_mean_colour() -> None:
    sample = shades(1)[0]
    labels = np.arange(16).reshape(4, 4).repeat(4, 0).repeat(4, 1)
    np.testing.assert_array_equal(mean_colours(sample, labels), sample.image)  # flat cells are their own mean
    merged = mean_colours(sample, np.where(labels < 8, 0, -1))
    np.testing.assert_array_equal(merged[8:], sample.image[8:])
    assert np.unique(merged[:8]).size == 1
    assert merged[0, 0, 0] == round(sample.image[:8].mean())


def test_default_works_on_a_plain_function() -> None:
    pytest.importorskip("skimage")
    model, function = world(entangled)
    attributions = Lime(budget=300)(Session(model, shades(2), ["yes"] * 2))
    assert attributions[0].space == "superpixel"
    assert attributions[0].visual.shape == (16, 16)
    assert len(set(function.inputs)) <= 600

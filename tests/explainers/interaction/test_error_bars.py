"""Error bars of the estimators whose values come out of other people's rules: do they cover what more passes give?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from asking_worlds import WORDS, cells, entangled, shades, world

from karat.explainers.interaction import Dime
from karat.explainers.interaction.dime import split_row
from karat.explainers.interaction.faithful import faith_shap
from karat.explainers.perturbation.surrogate import closeness, ridge
from karat.explainers.shapley import PixelShapTokenShap
from karat.explainers.shapley.pixelshap_tokenshap import released
from karat.probe import Evaluator, Game, Session
from karat.probe.exact import coalitions, shapley_values

TEXTS = ("is it red", "red", "it is", "is red")


def covered(values: np.ndarray, errors: np.ndarray, truth: np.ndarray) -> float:
    """Share of (runs, players) whose interval of 1.96 errors holds the truth."""
    return float((np.abs(values - truth) <= 1.96 * errors).mean())


def table(n: int, seed: int = 0) -> np.ndarray:
    """Values of all coalitions of a squashed sum with a pair that matters."""
    rng = np.random.default_rng(seed)
    keep = coalitions(n)
    return 1 / (1 + np.exp(-(keep @ rng.normal(size=n) + 1.5 * keep[:, 0] * keep[:, n - 1] - 0.5)))


def test_faith_shap() -> None:
    pytest.importorskip("shapiq")
    n, values = 8, table(8)
    powers = 1 << np.arange(n)
    game = Game(lambda visual, text: values[np.concatenate([visual, text], axis=1) @ powers], 5, 3)
    truth = faith_shap(game, 2**n, np.random.default_rng(0)).values
    runs = [faith_shap(game, 180, np.random.default_rng(seed)) for seed in range(60)]
    assert all(run.passes <= 180 for run in runs)
    share = covered(np.stack([r.values for r in runs]), np.stack([r.standard_error for r in runs]), truth)
    assert 0.88 < share < 0.995


def image_values(sample: object, words: tuple[str, ...] = WORDS) -> np.ndarray:
    """What `entangled` says to every coalition of the 16 cells of an image, the others black, on these words."""
    bright = cells(sample.image[None])[0]
    keep = coalitions(16)
    return entangled(keep * bright, [set(words)] * len(keep))


def test_pixelshap_with_shapley_weights() -> None:
    model, _ = world(entangled)
    [sample] = shades(1)
    truth = shapley_values(image_values(sample, tuple(sample.text.split())))
    explainer = PixelShapTokenShap(visual=(4, 4), features="image", compare="probability", budget=150)
    runs = [explainer(Session(model, [sample], ["yes"], seed=seed))[0] for seed in range(60)]
    assert all(run.passes <= 150 for run in runs)
    values, errors = (np.stack([getattr(r, part).ravel() for r in runs]) for part in ("visual", "standard_error"))
    assert 0.90 < covered(values, errors, truth) < 0.99


def test_pixelshap_as_released() -> None:
    """Before it is shifted and scaled the released score is a difference of means; its error bar is that of one."""
    n, values = 10, table(10)
    powers = 1 << np.arange(n)
    game = Game(lambda visual, text: values[visual @ powers], n)
    keep = coalitions(n)
    with_it = np.array([values[keep[:, i]].mean() - values[~keep[:, i]].mean() for i in range(n)])
    gaps, errors = [], []
    for seed in range(80):
        [found] = Evaluator.of(game, budget=200).run([(0, released(n, 200, np.random.default_rng(seed)))])
        # differences between players are free of the shift; the scale is that of the run
        scale = (with_it - with_it.min()).sum()
        gaps.append((found.values - found.values[0]) * scale - (with_it - with_it[0]))
        errors.append(np.sqrt(found.standard_error**2 + found.standard_error[0] ** 2) * scale)
    share = float((np.abs(np.stack(gaps)[:, 1:]) <= 1.96 * np.stack(errors)[:, 1:]).mean())
    assert share > 0.88  # the scale is estimated too, which the error bar does not know


@pytest.mark.parametrize("part", ["mi", "uc"])
def test_dime(part: str) -> None:
    """The limit: the image altered in all 2^16 ways, and the penalty grown with the number of alterations."""
    model, _ = world(entangled)
    samples = shades(3, texts=TEXTS)
    asked = 120
    matrix = np.array(
        [[float(entangled(cells(a.image[None]), [set(b.text.split())])[0]) for b in samples] for a in samples]
    )
    row = np.stack([image_values(samples[0], tuple(s.text.split())) for s in samples], axis=1)
    split = split_row(matrix, row)
    keep = coalitions(16)
    near = closeness(keep)
    truth = ridge(keep, getattr(split, part), near, penalty=len(keep) / asked).weights
    dime = Dime(visual=(4, 4), absence="black", alterations=asked, batch=3, part=part)
    runs = [dime(Session(model, samples, ["yes"] * 3, seed=seed))[0] for seed in range(60)]
    values, errors = (np.stack([getattr(r, name).ravel() for r in runs]) for name in ("visual", "standard_error"))
    assert 0.88 < covered(values, errors, truth) < 0.99
    assert replace(dime, part="uc").passes == dime.passes

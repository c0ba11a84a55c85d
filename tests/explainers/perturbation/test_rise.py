"""RISE: its masks, a slow twin, error bars, words."""

from __future__ import annotations

import numpy as np
import torch
from cell_worlds import WORDS, cells, entangled, shades, world
from torch import nn

from karat.explainers.perturbation import Rise
from karat.explainers.perturbation.rise import SoftMasks, shifted
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.probe import Session


def test_masks_are_shifted_bilinear_cells() -> None:
    for length, count in ((16, 4), (15, 7), (5, 1)):
        table = shifted(length, count)
        assert table.shape == (-(-length // count), length, count)
        np.testing.assert_allclose(table.sum(axis=2), 1, atol=1e-6)
        assert table.min() >= 0
    rng = np.random.default_rng(0)
    masks = SoftMasks.drawn((16, 20), 3000, 4, 0.3, rng)
    drawn = masks.shades(np.arange(3000))
    assert drawn.shape == (3000, 16, 20)
    assert 0 <= drawn.min() < 0.01 < 0.99 < drawn.max() <= 1 + 1e-6
    np.testing.assert_allclose(drawn.mean(axis=0), 0.3, atol=0.05)


def test_equals_its_slow_twin() -> None:
    model, function = world(entangled)
    sample = shades(1)[0]
    session = Session(model, [sample], ["yes"])
    rise = Rise(masks=96, cells=3, keep=0.4, word_masks=8)
    [attribution] = rise(session)
    masks = SoftMasks.drawn((16, 16), 96, 3, 0.4, session.rng(0, "perturbation/rise")).shades(np.arange(96))
    total = np.zeros((16, 16))
    for mask in masks:
        image = np.rint(sample.image * mask[..., None]).astype(np.uint8)
        total += float(entangled(cells(image[None]), [set(WORDS)])[0]) * mask
    np.testing.assert_allclose(attribution.visual, total / 96 / 0.4, rtol=1e-5)
    assert len(set(function.inputs)) <= attribution.passes <= rise.passes == 104
    assert session.cost.passes.made == attribution.passes


def test_a_torch_model_is_shaded_on_tensors() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = classifier(module, Preprocessing((16, 16), mean=(0.5,) * 3, std=(0.2,) * 3), labels=list("abcd"))
    samples = [Sample(s.id, s.image) for s in shades(3)]
    session = Session(model, samples, ["b"] * 3, batch_size=7)
    attributions = Rise(masks=40, cells=4, word_masks=4)(session)
    masks = SoftMasks.drawn((16, 16), 40, 4, 0.5, session.rng(1, "perturbation/rise")).shades(np.arange(40))
    full, black = model.encode([samples[1]]).pixels, (0 - 0.5) / 0.2
    with torch.no_grad():
        mask = torch.from_numpy(masks)[:, None]
        values = module(full * mask + black * (1 - mask)).softmax(1)[:, 1].numpy()
    expected = np.einsum("m,mhw->hw", values, masks) / 40 / 0.5
    np.testing.assert_allclose(attributions[1].visual, expected, rtol=1e-4)
    assert attributions[1].words is None
    assert session.cost.passes.made == 120
    assert session.cost.passes.batches == 18  # 120 rows in batches of 7, filled across samples


def test_error_bars_cover() -> None:
    model, _ = world(entangled)
    sample = shades(1)[0]

    def runs(masks: int, seeds: int) -> list:
        return [
            Rise(masks=masks, cells=3, word_masks=64)(Session(model, [sample], ["yes"], seed=s))[0]
            for s in range(seeds)
        ]

    truth = np.mean([run.visual for run in runs(4000, 4)], axis=0)
    few = runs(240, 80)
    z = np.stack([(run.visual - truth) / run.standard_error for run in few])
    assert 0.90 < (np.abs(z) < 1.96).mean() < 0.99
    rows = np.array(np.meshgrid(*[[0, 1]] * 3, indexing="ij")).reshape(3, -1).T.astype(bool)
    texts = [{w for w, kept in zip(WORDS, row, strict=True) if kept} for row in rows]
    values = entangled(np.repeat(cells(sample.image[None]), 8, axis=0), texts)
    words = values @ rows / 4  # the mean over the four coalitions that hold the word
    z = np.stack([(run.words - words) / run.words_error for run in few])
    assert 0.88 < (np.abs(z) < 1.96).mean() < 0.99


def test_other_samples_of_the_batch_change_nothing() -> None:
    model, _ = world(entangled)
    samples = shades(3)
    rise = Rise(masks=48, cells=3, word_masks=8)
    together = rise(Session(model, samples, ["yes"] * 3))
    [alone] = rise(Session(model, samples[2:], ["yes"]))
    np.testing.assert_array_equal(together[2].visual, alone.visual)
    np.testing.assert_array_equal(together[2].words, alone.words)

"""Soft masks as rows: values of faded images, in batches over games, drawn when their batch comes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from probe_worlds import cnn_classifier, samples

from karat.kernel.typing import Values
from karat.models.blackbox import blackbox
from karat.models.classifier import Classifier
from karat.probe import Absence, RowQuestion, Session, ask
from karat.probe.soft_masks import FadedImages, Numbers, mask_size


@pytest.fixture(scope="module")
def cnn() -> Classifier:
    return cnn_classifier()


class Masks:
    """Number k fades row k of the image to a half; remembers what was drawn."""

    def __init__(self, side: int = 24) -> None:
        self.side = side
        self.drawn: list[list[int]] = []

    def __call__(self, numbers: Numbers) -> np.ndarray:
        self.drawn.append(numbers.tolist())
        shades = np.ones((len(numbers), self.side, self.side), dtype=np.float32)
        shades[np.arange(len(numbers)), numbers] = 0.5
        return shades


def faded(session: Session, masks: list[Masks], **options: Any) -> tuple[FadedImages, list[Any]]:
    games = [session.game(i, visual=(1, 1), absence=Absence("black"), **options) for i in range(len(session.samples))]
    return FadedImages(session, games, masks), games


def test_values_are_those_of_faded_pixels(cnn: Classifier) -> None:
    session = Session(cnn, samples(), ["0", "1"], batch_size=5)
    masks = [Masks(), Masks()]
    images, games = faded(session, masks)
    values = session.run([images.values(g, 7) for g in range(2)])
    for g, game in enumerate(games):
        full, black = cnn.encode([session.samples[g]]).pixels, session.masked_inputs(game).absent_pixels
        shades = torch.from_numpy(Masks()(np.arange(7)))[:, None]
        with torch.no_grad():
            expected = cnn.module(black + shades * (full - black)).softmax(1)[:, int(session.targets[g])]
        np.testing.assert_allclose(values[g], expected.double().numpy(), rtol=1e-5)
    assert masks[0].drawn == [[0, 1, 2, 3, 4], [5, 6]]  # full batches over games
    assert masks[1].drawn == [[0, 1, 2], [3, 4, 5, 6]]
    assert (session.cost.passes.made, session.cost.passes.batches) == (14, 3)
    assert session.batcher.used_bytes == 0


def test_a_black_box_gets_faded_images() -> None:
    def fn(images: np.ndarray, texts: list[str | None]) -> np.ndarray:
        brightness = images.mean((1, 2, 3)) / 255
        return np.stack([brightness, 1 - brightness], axis=1)

    session = Session(blackbox(fn, ["yes", "no"]), samples(), ["yes", "no"])
    images, games = faded(session, [Masks(), Masks()])
    assert mask_size(session, games[0]) == (24, 24)
    [values] = session.run([images.values(0, 3)])
    image = session.samples[0].image.astype(float)
    for k, value in enumerate(values):
        expected = image.copy()
        expected[k] = np.rint(image[k] / 2)
        assert value == pytest.approx(expected.mean() / 255)


def test_kinds_of_values_agree(cnn: Classifier) -> None:
    with torch.no_grad():
        unlikely = int(
            cnn.module(cnn.encode(samples()[:1]).pixels).argmin()
        )  # log odds of 1 would be a matter of rounding
    session = Session(cnn, samples(), [str(unlikely), "1"])
    kinds = ("probability", "log_odds", "logit")
    probability, odds, logit = (
        session.run([faded(session, [Masks(), Masks()], value=kind)[0].values(0, 4)])[0] for kind in kinds
    )
    np.testing.assert_allclose(odds, np.log(probability / (1 - probability)), atol=1e-5)
    shades = torch.from_numpy(Masks()(np.arange(4)))[:, None]
    masked = session.masked_inputs(session.game(0, visual=(1, 1), absence=Absence("black")))
    with torch.no_grad():
        expected = cnn.module(torch.lerp(masked.absent_pixels, masked.base.pixels, shades))[:, unlikely]
    np.testing.assert_allclose(logit, expected.numpy(), rtol=1e-5)


def test_masks_have_the_size_of_what_the_model_sees(cnn: Classifier) -> None:
    session = Session(cnn, samples(side=48), ["0", "1"])
    assert mask_size(session, session.game(0, visual=(1, 1))) == (24, 24)


def test_soft_masks_and_coalitions_are_one_question(cnn: Classifier) -> None:
    session = Session(cnn, samples(), ["0", "1"], batch_size=4)
    images, games = faded(session, [Masks(), Masks()])

    def question(g: int) -> RowQuestion[tuple[Values, Values]]:
        soft = yield from images.values(g, 3)
        return soft, (yield from session.about(games[g], ask(np.array([[True], [False]]))))

    results = session.run([question(g) for g in range(2)])
    assert session.cost.passes.batches == 2 + 1
    for g, (soft, hard) in enumerate(results):
        alone = Session(cnn, samples(), ["0", "1"])
        other, [game, *_] = faded(alone, [Masks(), Masks()])
        np.testing.assert_allclose(soft, alone.run([other.values(g, 3)])[0], rtol=1e-5)
        assert hard.shape == (2,)
    np.testing.assert_allclose(results[0][1], game.value(np.array([[True], [False]])), rtol=1e-5)

"""Games over models: what a coalition stands for, kinds of values, and what games and samples share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from probe_worlds import TEXTS, cnn_classifier, random_masks, samples

from karat.kernel.errors import BadInput
from karat.models.blackbox import blackbox
from karat.models.classifier import Classifier
from karat.probe import Absence, Session


@pytest.fixture(scope="module")
def cnn() -> Classifier:
    return cnn_classifier()


def test_a_black_box_is_asked_about_altered_samples(cnn: Classifier) -> None:
    pair = samples(texts=True)
    calls: list[tuple[np.ndarray, list[str | None]]] = []

    def fn(images: np.ndarray, texts: list[str | None]) -> np.ndarray:
        calls.append((images, texts))
        probability = images.mean((1, 2, 3)) / 255
        return np.stack([probability, 1 - probability], 1)

    session = Session(blackbox(fn, ["yes", "no"]), pair, ["yes", "no"])
    game = session.game(0, visual=(2, 2), absence=Absence("black"))
    keep = np.array([[1, 0, 0, 0] + [1] * 10, [0, 0, 0, 0] + [0] * 9 + [1], [1] * 14], dtype=bool)
    values = game.value(keep)
    [(images, texts)] = calls
    # Rows are answered in sorted order; what matters is that each has its own value.
    for image, text, value in zip(images, texts, sorted(values), strict=True):
        assert value == pytest.approx(image.mean() / 255)
        assert text in (TEXTS[0], "?")
    assert values[2] == pytest.approx(pair[0].image.mean() / 255)
    assert values[1] == 0.0


def test_value_kinds(cnn: Classifier) -> None:
    session = Session(cnn, samples())
    keep = random_masks(session.game(0, visual=(3, 3)), 6)
    probability = session.game(0, visual=(3, 3)).value(keep)
    odds = session.game(0, visual=(3, 3), value="log_odds").value(keep)
    np.testing.assert_allclose(odds, np.log(probability / (1 - probability)), atol=1e-5)
    mixed = cnn.encode(session.game(0, visual=(3, 3)).setting.altered(keep, np.ones((6, 0), bool)))
    with torch.no_grad():
        expected = cnn.readout(mixed, [session.targets[0]] * 6).numpy()
    logits, again = session.evaluate(
        [(session.game(0, visual=(3, 3), value="logit"), keep), (session.game(0, visual=(3, 3)), ~keep)]
    )
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert ((again > 0) & (again < 1)).all()
    box = blackbox(lambda images, texts: [{"yes": 0.25}] * len(images))
    game = Session(box, samples(), ["yes", "yes"]).game(0, visual=(2, 2), value="log_odds")
    assert game.value(np.ones((1, 4), bool)).tolist() == [pytest.approx(np.log(1 / 3))]
    with pytest.raises(BadInput, match="probabilities only"):
        Session(box, samples(), ["yes", "yes"]).game(0, visual=(2, 2), value="logit").value(np.ones((1, 4), bool))


def test_pixels_outside_every_player_are_always_there(cnn: Classifier) -> None:
    session = Session(cnn, samples())
    labels = np.full((24, 24), -1)
    labels[:12] = 0
    nothing = session.game(0, visual=labels, absence=Absence("black")).setting.altered(
        np.array([[False]]), np.ones((1, 0), bool)
    )
    assert (nothing[0].image[:12] == 0).all()
    assert (nothing[0].image[12:] == session.samples[0].image[12:]).all()


def test_equal_games_share_answers_and_samples_share_batches(cnn: Classifier) -> None:
    session = Session(cnn, samples(), batch_size=8)
    games = [session.game(i, visual=(3, 3)) for i in range(2)]
    masks = [random_masks(games[0], 12, seed) for seed in (1, 2)]
    values = session.evaluate(list(zip(games, masks, strict=True)))
    assert session.cost.passes.batches == 3
    assert session.game(0, visual=(3, 3)) is games[0]
    assert session.game(0, visual=(3, 3), absence=Absence("black")) is not games[0]
    games[0].value(masks[0])
    assert session.cost.passes.made == 24
    assert session.cost.passes.saved == 12
    for i in range(2):
        alone = Session(cnn, samples()).game(i, visual=(3, 3)).value(masks[i])
        np.testing.assert_allclose(values[i], alone, atol=1e-6)

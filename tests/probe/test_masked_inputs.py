"""Masked inputs on tensors against altered images and texts, spelt out; and what is reused and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from probe_worlds import cnn_classifier, fsyn_coalitions, random_masks, samples
from torch import nn

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.classifier import Classifier, classifier
from karat.models.preprocessing import Preprocessing
from karat.models.vlm import vlm
from karat.probe import Absence, Session
from karat.probe.masked_inputs import ImageMemory, distinct_rows
from tests.models.tiny_llava import IMAGE_FIRST, TEXT_FIRST, make_module, make_processor


@pytest.fixture(scope="module")
def cnn() -> Classifier:
    return cnn_classifier()


@pytest.fixture(scope="module", params=[IMAGE_FIRST, TEXT_FIRST], ids=["image_first", "text_first"])
def llava(request: pytest.FixtureRequest) -> Any:
    processor = make_processor(request.param)
    return vlm(make_module(processor), processor)


def by_hand(model: Any, session: Session, i: int, keep: np.ndarray, n_visual: int) -> list[float]:
    """One coalition at a time, from the processor up, without any sharing."""
    game = session.game(i)
    sample = session.samples[i]
    out = []
    for row in keep:
        setting = game.setting
        [altered] = setting.altered(row[None, :n_visual], np.ones((1, setting.text.count), bool))
        inputs = model.encode([altered])
        tokens = inputs.tokens.clone()
        for word, kept in enumerate(row[n_visual:]):
            if not kept:
                start, stop = inputs.words[0][word]
                tokens[0, start:stop] = model.neutral_token
        with torch.no_grad():
            out.append(float(model.log_probability(replace(inputs, tokens=tokens), [session.targets[i]]).exp()))
    assert len(sample.words) == game.n_text
    return out


def test_tensors_resample_as_altered_images_do(cnn: Classifier) -> None:
    many = [
        replace(one, id=f"{one.id}-{k}", image=np.roll(one.image, 3 * k, axis=1)) for one in samples() for k in range(6)
    ]
    session = Session(cnn, many)
    game = session.game(1, visual=(3, 4), absence=Absence("resample"))
    keep = random_masks(game, 5)
    [values] = session.evaluate([(game, keep)])
    by_hand = [
        cnn.score(one.altered(keep[:, :12], keep[:, 12:]), [session.targets[1]] * 5) for one in game.setting.each()
    ]
    np.testing.assert_allclose(values, np.mean(by_hand, axis=0), atol=1e-5)


@pytest.mark.parametrize("absence", ["blur", "black", "grey", "mean", "noise", "white"])
@pytest.mark.parametrize("visual", [(3, 4), (5, 7), "pixels", "superpixels", "objects_and_background"])
def test_tensors_say_what_altered_images_say(cnn: Classifier, absence: str, visual: Any) -> None:
    session = Session(cnn, samples())
    game = session.game(1, visual=visual, absence=Absence(visual=absence))
    assert game.n > 1
    keep = random_masks(game, 9)
    labels = game.setting.visual.labels_of(24, 24)
    altered = []
    for row in keep:
        image = game.setting.absence.image_of(session.samples[1]).copy()
        for y, x in np.argwhere(labels >= 0):
            if row[labels[y, x]]:
                image[y, x] = session.samples[1].image[y, x]
        altered.append(replace(session.samples[1], image=image))
    np.testing.assert_allclose(game.value(keep), cnn.score(altered, [session.targets[1]] * 9), atol=1e-6)


def test_crops_take_players_from_where_the_model_looks() -> None:
    """Shrinking by a whole factor without interpolation, then cutting: mixing before or after is the same thing."""
    inputs: list[torch.Tensor] = []
    batches: list[torch.Tensor] = []

    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            inputs.append(pixels)
            return pixels.flatten(1)[:, :2] * self.weight

    image = np.random.default_rng(1).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    sample = Sample("wide", image)
    cut = Preprocessing((8, 8), interpolation="nearest", crop=0.5, squash=False)
    labels = np.arange(32 * 48).reshape(32, 48) // 7
    for transform in (cut, lambda image: cut([np.asarray(image)])[0]):
        session = Session(classifier(Keeps(), transform), [sample], ["0"])
        game = session.game(0, visual=labels, absence=Absence("black"))
        game.value(random_masks(game, 5))
        batches.append(inputs[-1])  # what came before is the look for a layer that CAMs can read
    mixed, whole = batches
    assert mixed.shape == (5, 3, 8, 8)
    assert torch.equal(mixed, whole)
    assert cut.frame(32, 48) == (0.25, 8 / 24, 0.75, 16 / 24)


def test_vlm_coalitions_equal_those_made_by_hand(llava: Any) -> None:
    session = Session(llava, samples(96, texts=True), ["yes", "twenty one"], batch_size=16)
    games = [session.game(i) for i in range(2)]
    assert [(game.n_visual, game.n_text) for game in games] == [(36, 10), (36, 9)]
    masks = []
    for game in games:
        keep = random_masks(game, 12)
        keep[:6, :36] = keep[0, :36]  # the same image under six texts
        masks.append(keep)
    values = session.evaluate(list(zip(games, masks, strict=True)))
    for i in range(2):
        np.testing.assert_allclose(values[i], by_hand(llava, session, i, masks[i], 36), rtol=2e-4, atol=1e-7)
    assert session.cost.passes.made == 24
    assert session.cost.images.made + session.cost.images.saved == 24
    assert session.cost.images.saved >= 10


def test_text_moves_and_the_image_is_looked_at_once(llava: Any) -> None:
    session = Session(llava, samples(96, texts=True), ["yes", "no"], batch_size=8)
    game = session.game(0)
    keep = np.ones((32, game.n), bool)
    keep[:, 36:] = np.unpackbits(np.arange(32, dtype=np.uint8)[:, None], axis=1)[:, 3:].repeat(2, 1)
    images: list[int] = []
    tower = llava.module.get_submodule(llava.vision)
    handle = tower.register_forward_pre_hook(
        lambda _, args, kwargs: images.append(len(args[0] if args else kwargs["pixel_values"])), with_kwargs=True
    )
    values = game.value(keep)
    handle.remove()
    assert sum(images) == session.cost.images.made == 1
    assert session.cost.images.saved == 31
    np.testing.assert_allclose(values[::8], by_hand(llava, session, 0, keep[::8], 36), rtol=2e-4)


def test_delete_and_given_words(llava: Any) -> None:
    pair = samples(96, texts=True)
    session = Session(llava, pair, ["yes", "no"])
    keep = np.ones((2, 10), bool)
    keep[1, [2, 9]] = False  # "red" and "?"
    deleted = session.game(0, visual=None, absence=Absence(text="delete")).value(keep)
    shorter = replace(pair[0], text="how many circles are left of blue squares")
    np.testing.assert_allclose(deleted, llava.score([pair[0], shorter], ["yes"] * 2), rtol=1e-4)
    given = session.game(0, visual=None, absence=Absence(text="given", words=("any",) * 10)).value(keep)
    replaced = replace(pair[0], text="how many any circles are left of blue squaresany")
    np.testing.assert_allclose(given, llava.score([pair[0], replaced], ["yes"] * 2), rtol=1e-4)
    with pytest.raises(BadInput, match="no mask token"):
        session.game(0, visual=None, absence=Absence(text="mask")).value(keep)
    with pytest.raises(BadInput, match="3 neutral words for 10"):
        session.game(0, visual=None, absence=Absence(text="given", words=("any",) * 3)).value(keep)


def test_tokens_and_phrases(llava: Any) -> None:
    session = Session(llava, samples(96, texts=True), ["yes", "no"])
    words, tokens, phrases = (session.game(0, visual=None, text=text) for text in ("words", "tokens", "phrases"))
    keep = random_masks(words, 5)
    np.testing.assert_allclose(words.value(keep), tokens.value(keep), rtol=1e-4)  # a word is a token here
    assert phrases.setting.text.groups[:2] == ((0, 1), (2,))
    joined = np.concatenate([keep[:, :1], keep[:, :1], keep[:, 2:]], axis=1)
    np.testing.assert_allclose(phrases.value(np.delete(keep, 1, axis=1)), words.value(joined), rtol=1e-4)


def test_a_synergy_trajectory_costs_58_passes_and_54_for_the_next_explainer(llava: Any) -> None:
    session = Session(llava, samples(96, texts=True), ["yes", "no"])
    game = session.game(0)
    rng = np.random.default_rng(3)
    first = fsyn_coalitions(rng.permutation(36), rng.permutation(10))
    assert len(first) == 68
    game.value(first)
    assert session.cost.passes.made == 58
    game.value(fsyn_coalitions(rng.permutation(36), rng.permutation(10)))
    assert session.cost.passes.made <= 58 + 54


def test_modes_are_restored_and_dropout_is_off() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(3 * 24 * 24, 3))
    model = classifier(module, Preprocessing((24, 24)))
    module.train()
    game = Session(model, samples(), ["0", "1"]).game(0, visual=(2, 2))
    keep = random_masks(game, 4)
    other = Session(model, samples(), ["0", "1"]).game(0, visual=(2, 2))
    np.testing.assert_array_equal(game.value(keep), other.value(keep))
    assert module[1].training


def test_distinct_rows_keep_their_order() -> None:
    keep = np.array([[1, 0], [1, 1], [1, 0], [0, 0]], dtype=bool)
    rows, inverse = distinct_rows(keep)
    assert rows.tolist() == [[True, False], [True, True], [False, False]]
    assert inverse.tolist() == [0, 1, 0, 2]


def test_image_memory_drops_what_was_used_least_recently() -> None:
    memory = ImageMemory(limit_bytes=2 * 40)
    features = {"states": torch.zeros(1, 10)}  # 40 bytes
    memory.put((0, b"a"), features)
    memory.put((0, b"b"), features)
    assert memory.get((0, b"a")) is not None  # a has just been used
    memory.put((0, b"c"), features)
    assert memory.get((0, b"b")) is None
    assert memory.get((0, b"a")) is not None
    assert memory.used_bytes == 80


def test_soft_masks_are_coalitions_where_they_are_hard(cnn: Classifier) -> None:
    session = Session(cnn, samples())
    game = session.game(0, visual=(2, 2))
    keep = random_masks(game, 5)
    hard = keep[:, game.setting.visual.labels_of(24, 24)].astype(np.float32)
    masked = session.masked_inputs(game)
    assert torch.equal(masked.faded_pixels(hard), masked.pixels(keep))
    half = masked.faded_pixels(np.full((1, 24, 24), 0.5, dtype=np.float32))
    torch.testing.assert_close(half, (masked.base.pixels + masked.absent_pixels) / 2)

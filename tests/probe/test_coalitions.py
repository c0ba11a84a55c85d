"""Coalitions on tensors against altered images and texts, spelt out; and what is shared and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from karat.kernel.errors import BadInput
from karat.kernel.sample import Phrase, Region, Sample
from karat.models.blackbox import blackbox
from karat.models.classifier import Classifier, classifier
from karat.models.preprocessing import Preprocessing
from karat.models.torch_model import Inputs
from karat.models.vlm import vlm
from karat.probe import Absence, Session
from karat.probe.games import Game
from tests.models.tiny_llava import IMAGE_FIRST, TEXT_FIRST, make_module, make_processor

TEXTS = ["how many red circles are left of blue squares?", "are there any green squares, red circles?"]


def samples(side: int = 24, texts: bool = False) -> list[Sample]:
    rng = np.random.default_rng(0)
    return [
        Sample(
            f"s{i}",
            rng.integers(0, 256, (6, 6, 3), dtype=np.uint8).repeat(side // 6, 0).repeat(side // 6, 1),
            text=TEXTS[i] if texts else None,
            regions=(Region("a", "target", ((2, 2, 8, 8),)), Region("b", "anchor", ((6, 6, 8, 8),))),
            phrases=(Phrase((0, 8), "header"),) if texts else (),
        )
        for i in range(2)
    ]


@pytest.fixture(scope="module")
def cnn() -> Classifier:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 25, 4)
    )
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return classifier(module, Preprocessing((24, 24)))


@pytest.fixture(scope="module", params=[IMAGE_FIRST, TEXT_FIRST], ids=["image_first", "text_first"])
def llava(request: pytest.FixtureRequest) -> Any:
    processor = make_processor(request.param)
    return vlm(make_module(processor), processor)


def coalitions(game: Game, m: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((m, game.n)) < 0.5


@pytest.mark.parametrize("absence", ["blur", "black", "grey", "mean", "noise", "white"])
@pytest.mark.parametrize("visual", [(3, 4), (5, 7), "pixels", "superpixels", "objects"])
def test_tensors_say_what_altered_images_say(cnn: Classifier, absence: str, visual: Any) -> None:
    session = Session(cnn, samples())
    game = session.game(1, visual=visual, absence=Absence(visual=absence))
    assert game.n > 1
    keep = coalitions(game, 9)
    labels = game.setting.visual.labels_of(24, 24)
    shown = []
    for row in keep:
        image = game.setting.absence.image_of(session.samples[1]).copy()
        for y, x in np.argwhere(labels >= 0):
            if row[labels[y, x]]:
                image[y, x] = session.samples[1].image[y, x]
        shown.append(replace(session.samples[1], image=image))
    np.testing.assert_allclose(game.value(keep), cnn.score(shown, [session.targets[1]] * 9), atol=1e-6)


def test_a_black_box_is_asked_about_altered_samples(cnn: Classifier) -> None:
    asked = samples(texts=True)
    seen: list[tuple[np.ndarray, list[str | None]]] = []

    def fn(images: np.ndarray, texts: list[str | None]) -> np.ndarray:
        seen.append((images, texts))
        probability = images.mean((1, 2, 3)) / 255
        return np.stack([probability, 1 - probability], 1)

    session = Session(blackbox(fn, ["yes", "no"]), asked, ["yes", "no"])
    game = session.game(0, visual=(2, 2), absence=Absence("black"))
    keep = np.array([[1, 0, 0, 0] + [1] * 10, [0, 0, 0, 0] + [0] * 9 + [1], [1] * 14], dtype=bool)
    values = game.value(keep)
    [(images, texts)] = seen
    # Rows are answered in sorted order; what matters is that each has its own value.
    for image, text, value in zip(images, texts, sorted(values), strict=True):
        assert value == pytest.approx(image.mean() / 255)
        assert text in (TEXTS[0], "?")
    assert values[2] == pytest.approx(asked[0].image.mean() / 255)
    assert values[1] == 0.0


def test_value_kinds(cnn: Classifier) -> None:
    session = Session(cnn, samples())
    keep = coalitions(session.game(0, visual=(3, 3)), 6)
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


def test_crops_take_players_from_where_the_model_looks() -> None:
    """Shrinking by a whole factor without interpolation, then cutting: mixing before or after is the same thing."""
    seen: list[torch.Tensor] = []

    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            seen.append(pixels)
            return pixels.flatten(1)[:, :2] * self.weight

    image = np.random.default_rng(1).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    sample = Sample("wide", image)
    cut = Preprocessing((8, 8), interpolation="nearest", crop=0.5, squash=False)
    labels = np.arange(32 * 48).reshape(32, 48) // 7
    for transform in (cut, lambda shown: cut([np.asarray(shown)])[0]):
        session = Session(classifier(Keeps(), transform), [sample], ["0"])
        game = session.game(0, visual=labels, absence=Absence("black"))
        game.value(coalitions(game, 5))
    mixed, whole = seen
    assert mixed.shape == (5, 3, 8, 8)
    assert torch.equal(mixed, whole)
    assert cut.frame(32, 48) == (0.25, 8 / 24, 0.75, 16 / 24)


def by_hand(model: Any, session: Session, i: int, keep: np.ndarray, n_visual: int) -> list[float]:
    """One coalition at a time, from the processor up, without any sharing."""
    game = session.game(i)
    sample = session.samples[i]
    out = []
    for row in keep:
        setting = game.setting
        [shown] = setting.altered(row[None, :n_visual], np.ones((1, setting.text.count), bool))
        inputs = model.encode([shown])
        tokens = inputs.tokens.clone()
        for word, kept in enumerate(row[n_visual:]):
            if not kept:
                start, stop = inputs.words[0][word]
                tokens[0, start:stop] = model.neutral_token
        with torch.no_grad():
            out.append(float(model.log_probability(replace(inputs, tokens=tokens), [session.targets[i]]).exp()))
    assert len(sample.words) == game.n_text
    return out


def test_vlm_coalitions_equal_those_made_by_hand(llava: Any) -> None:
    session = Session(llava, samples(96, texts=True), ["yes", "twenty one"], batch_size=16)
    games = [session.game(i) for i in range(2)]
    assert [(game.n_visual, game.n_text) for game in games] == [(36, 10), (36, 9)]
    masks = []
    for game in games:
        keep = coalitions(game, 12)
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
    looks: list[int] = []
    tower = llava.module.get_submodule(llava.vision)
    handle = tower.register_forward_pre_hook(
        lambda _, args, kwargs: looks.append(len(args[0] if args else kwargs["pixel_values"])), with_kwargs=True
    )
    values = game.value(keep)
    handle.remove()
    assert sum(looks) == session.cost.images.made == 1
    assert session.cost.images.saved == 31
    np.testing.assert_allclose(values[::8], by_hand(llava, session, 0, keep[::8], 36), rtol=2e-4)


def test_delete_and_given_words(llava: Any) -> None:
    asked = samples(96, texts=True)
    session = Session(llava, asked, ["yes", "no"])
    keep = np.ones((2, 10), bool)
    keep[1, [2, 9]] = False  # "red" and "?"
    deleted = session.game(0, visual=None, absence=Absence(text="delete")).value(keep)
    shorter = replace(asked[0], text="how many circles are left of blue squares")
    np.testing.assert_allclose(deleted, llava.score([asked[0], shorter], ["yes"] * 2), rtol=1e-4)
    given = session.game(0, visual=None, absence=Absence(text="given", words=("any",) * 10)).value(keep)
    replaced = replace(asked[0], text="how many any circles are left of blue squaresany")
    np.testing.assert_allclose(given, llava.score([asked[0], replaced], ["yes"] * 2), rtol=1e-4)
    with pytest.raises(BadInput, match="no mask token"):
        session.game(0, visual=None, absence=Absence(text="mask")).value(keep)
    with pytest.raises(BadInput, match="3 neutral words for 10"):
        session.game(0, visual=None, absence=Absence(text="given", words=("any",) * 3)).value(keep)


def test_tokens_and_phrases(llava: Any) -> None:
    session = Session(llava, samples(96, texts=True), ["yes", "no"])
    words, tokens, phrases = (session.game(0, visual=None, text=text) for text in ("words", "tokens", "phrases"))
    keep = coalitions(words, 5)
    np.testing.assert_allclose(words.value(keep), tokens.value(keep), rtol=1e-4)  # a word is a token here
    assert phrases.setting.text.groups[:2] == ((0, 1), (2,))
    joined = np.concatenate([keep[:, :1], keep[:, :1], keep[:, 2:]], axis=1)
    np.testing.assert_allclose(phrases.value(np.delete(keep, 1, axis=1)), words.value(joined), rtol=1e-4)


def test_equal_games_share_answers_and_samples_share_batches(cnn: Classifier) -> None:
    session = Session(cnn, samples(), batch_size=8)
    games = [session.game(i, visual=(3, 3)) for i in range(2)]
    masks = [coalitions(games[0], 12, seed) for seed in (1, 2)]
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


def fsyn_coalitions(visual: np.ndarray, text: np.ndarray, steps: int = 11) -> np.ndarray:
    """fsyn2026: the joint masks of one trajectory, as they come: 2 ends, and 6 for each of the steps."""
    rows = [np.ones(len(visual) + len(text), bool), np.zeros(len(visual) + len(text), bool)]
    for step in range(steps):
        tops = []
        for order in (visual, text):
            top = np.zeros(len(order), bool)
            top[order[: int(step / (steps - 1) * len(order) + 0.5)]] = True
            tops.append(top)
        (v, t), every, none = tops, np.ones, np.zeros
        full, empty = (every(len(v), bool), every(len(t), bool)), (none(len(v), bool), none(len(t), bool))
        pairs = [(~v, ~t), (~v, full[1]), (full[0], ~t), (v, t), (v, empty[1]), (empty[0], t)]
        rows += [np.concatenate(pair) for pair in pairs]
    return np.array(rows)


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
    keep = coalitions(game, 4)
    other = Session(model, samples(), ["0", "1"]).game(0, visual=(2, 2))
    np.testing.assert_array_equal(game.value(keep), other.value(keep))
    assert module[1].training


def test_inputs_of_different_lengths_join() -> None:
    from karat.probe.inputs import join, take

    def part(n: int, length: int) -> Inputs:
        return Inputs(
            torch.rand(n, 3, 2, 2),
            torch.arange(n * length).reshape(n, length) + 1,
            words=tuple(((0, 1),) for _ in range(n)),
        )

    joined = join([part(2, 3), part(1, 5)], pad=0)
    assert joined.tokens is not None
    assert joined.token_keep is not None
    assert joined.tokens.tolist() == [[1, 2, 3, 0, 0], [4, 5, 6, 0, 0], [1, 2, 3, 4, 5]]
    assert joined.token_keep.sum(1).tolist() == [3, 3, 5]
    picked = take(joined, torch.tensor([2, 0, 2]))
    assert picked.tokens is not None
    assert picked.tokens[:, -1].tolist() == [5, 0, 5]
    assert len(picked.words) == 3
    with pytest.raises(BadInput, match="one input size"):
        join([part(1, 2), replace(part(1, 2), pixels=torch.rand(1, 3, 4, 4))])

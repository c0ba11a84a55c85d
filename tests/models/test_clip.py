"""CLIP, SigLIP and open_clip as zero-shot classifiers, against their own forward passes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import torch
from tiny_vlms import CLIPS

import karat
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.sample import Sample
from karat.models.clip import clip
from karat.models.clip_recipe import ClipRecipe
from karat.models.torch_model import TorchModel
from karat.probe import Session, trace

LABELS = ("cup", "red circle", "bottle")
PROMPT = "a photo of a {}"
clips = pytest.mark.parametrize("kind", CLIPS)


@cache
def model(kind: str) -> Any:
    return clip(*tiny_vlms.make_clip(kind), labels=LABELS, prompt=PROMPT, name=kind)


def samples(n: int = 3, size: tuple[int, int] = (64, 64)) -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for i in range(n)]


def own_logits(kind: str, images: list[np.ndarray]) -> torch.Tensor:
    """(n, labels) by the whole module's own forward on its own processor's inputs."""
    built = model(kind)
    texts = [PROMPT.format(label) for label in LABELS]
    with torch.no_grad():
        if kind == "open_clip":
            import open_clip
            from PIL import Image

            show = open_clip.image_transform(64, is_train=False)
            pixels = torch.stack([show(Image.fromarray(image)) for image in images])
            image, text, scale = built.module(pixels, built.towers.tokenizer(texts))[:3]
            return scale * image @ text.T
        padding = "max_length" if kind == "siglip" else True
        given = built.towers.processor(text=texts, images=images, padding=padding, return_tensors="pt")
        if kind == "siglip":
            given.pop("attention_mask", None)
        return built.module(**given).logits_per_image


@clips
@pytest.mark.parametrize("size", [(64, 64), (80, 120)])
def test_scores_equal_the_modules_own(kind: str, size: tuple[int, int]) -> None:
    built, asked = model(kind), samples(size=size)
    assert isinstance(built, TorchModel)
    expected = own_logits(kind, [sample.image for sample in asked])
    with torch.no_grad():
        ours = built.logits(built.encode(asked))
    bias = built.module.logit_bias if kind == "siglip" else 0.0  # the same for all labels: a softmax does not see it
    torch.testing.assert_close(ours + bias, expected, rtol=1e-4, atol=1e-4)
    chances = expected.softmax(-1)
    np.testing.assert_allclose(built.score(asked, LABELS), [chances[k, k] for k in range(3)], rtol=1e-4)
    assert built.answer(asked) == [LABELS[k] for k in expected.argmax(-1)]


@clips
def test_recordings_and_attention_lie_over_the_image(kind: str) -> None:
    built = model(kind)
    inputs = built.encode(samples(2))
    layout = built.layout(inputs)
    assert (layout.grid, layout.text) == ((4, 4), None)
    assert layout.visual == tuple(range(16)) if kind == "siglip" else tuple(range(1, 17))
    assert layout.readout is None if kind == "siglip" else layout.readout == 0
    want = {"activations", "gradients", "attention"}
    with trace(built, inputs, ["cup", "bottle"], layers=["pixels", "vision.last", "vision.0"], want=want) as seen:
        assert seen.spatial("vision.last", "gradients").shape == (2, 32, 4, 4)
        maps = seen.attention[built.attention_layers[-1]]
        tokens = 16 + (kind != "siglip")
        assert maps.shape == (2, 2, tokens, tokens)
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]))
        assert bool((seen.gradients["vision.last"].flatten(1).abs().sum(1) > 0).all())


@clips
def test_masking_nothing_is_the_models_own_probability(kind: str) -> None:
    built, asked = model(kind), samples()
    session = Session(built, asked, LABELS)
    for i, own in enumerate(built.score(asked, LABELS)):
        game = session.game(i, text=None)
        assert (game.n_visual, game.n_text) == (16, 0)
        np.testing.assert_allclose(game.value(np.ones((1, 16), bool), np.ones((1, 0), bool)), own, atol=1e-5)


def test_any_text_has_a_raw_score_but_only_labels_a_probability() -> None:
    built = model("clip")
    inputs = built.encode(samples(2))
    assert built.readout(inputs, ["a dog on a horse", "cup"]).shape == (2,)
    with pytest.raises(UnknownName, match=r"no label is called 'bottel'\. Did you mean 'bottle'"):
        built.log_probability(inputs, ["bottel", "cup"])
    bare = clip(*tiny_vlms.make_clip("clip"))
    assert bare.readout(inputs, ["cup", "cup"]).shape == (2,)
    with pytest.raises(BadInput, match="no labels to choose from"):
        bare.answer(samples(1))


def test_every_prompt_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = clip(*tiny_vlms.make_clip("clip"), labels=LABELS)
    read: list[str] = []
    real = type(built.towers).text_features
    monkeypatch.setattr(
        type(built.towers), "text_features", lambda self, texts: (read.extend(texts), real(self, texts))[1]
    )
    for _ in range(2):
        built.score(samples(2), ["cup", "bottle"])
    assert read == list(LABELS)


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    module, processor = tiny_vlms.make_clip(kind)
    module.save_pretrained(tmp_path / "tiny")
    processor.save_pretrained(tmp_path / "tiny")
    listed = tmp_path / "labels.txt"
    listed.write_text("\n".join(LABELS) + "\n", encoding="utf-8")
    recipe = ClipRecipe(str(tmp_path / "tiny"), labels=str(listed), prompt=PROMPT)
    loaded = recipe.load()
    assert (loaded.name, loaded.labels, loaded.capabilities) == ("tiny", LABELS, recipe.capabilities)
    np.testing.assert_allclose(loaded.score(samples(), LABELS), model(kind).score(samples(), LABELS), rtol=1e-5)
    guessed = karat.load_model(str(tmp_path / "tiny"), labels=LABELS, prompt=PROMPT)  # the directory says what it is
    np.testing.assert_allclose(guessed.score(samples(), LABELS), loaded.score(samples(), LABELS), rtol=1e-6)
    before = recipe.revision
    listed.write_text("other", encoding="utf-8")
    assert recipe.revision != before


def test_bad_sources(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"prompt: \{\} must stand where the label goes; got 'a photo'"):
        clip(*tiny_vlms.make_clip("clip"), prompt="a photo")
    with pytest.raises(BadInput, match="needs its processor"):
        clip(tiny_vlms.make_clip("clip")[0])
    with pytest.raises(BadInput, match=r"takes transformers' CLIP and SigLIP; LlavaForConditionalGeneration \(llava\)"):
        clip(*tiny_vlms.make("llava"))
    with pytest.raises(BadInput, match="no such directory"):
        clip(tmp_path / "gone")
    with pytest.raises(BadInput, match="open_clip cannot make 'ViT-Q-1'"):
        clip("open_clip:ViT-Q-1")
    with pytest.raises(BadInput, match="give `path`"):
        ClipRecipe().load()
    with pytest.raises(BadInput, match=r"no file gone\.txt"):
        ClipRecipe("x/y", labels="gone.txt").load()

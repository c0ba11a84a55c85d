import numpy as np
import pytest
import torch

from karat.datasets.shortcut import ShortcutDataset
from karat.kernel.errors import KaratError
from karat.models.pixelnet.architectures import ARCHITECTURES, build_network, is_transformer
from karat.models.pixelnet.files import load_classifier, read_facts
from karat.models.pixelnet.training import normalised, train_pixel, whiten
from karat.models.pixelnet.training_recipe import (
    PixelRecipe,
    load_pixel_recipe,
    parse_pixel_recipe,
    shipped_recipes,
)
from karat.models.training.loop import learning_rate

TRAIN, TEST = ShortcutDataset(split="train", n=24), ShortcutDataset(split="test", n=10)


def recipe(**changes):
    fields = {"name": "tiny", "architecture": "resnet-small", "steps": 6, "batch": 8, "data": TRAIN, "test": TEST}
    return PixelRecipe(**{**fields, "warmup": 2, **changes})


@pytest.mark.parametrize("name", [n for n in ARCHITECTURES if n not in ("resnet50", "vgg16", "resnet18", "swin")])
def test_networks_map_pixels_to_logits(name):
    module = build_network(name, 32, 7)
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    if name.endswith("-small"):
        assert sum(p.numel() for p in module.parameters()) < 500_000


def test_large_networks_are_built_for_small_and_large_images():
    with torch.device("meta"):
        sizes = {
            (name, side): sum(p.numel() for p in build_network(name, side, 10).parameters())
            for name in ("vgg16", "resnet18", "resnet50", "vit", "swin")
            for side in (32, 224)
        }
    assert 11e6 < sizes["resnet18", 32] < 12e6
    assert sizes["vit", 224] > 80e6 > 5e6 > sizes["vit", 32]
    assert sizes["swin", 224] > 80e6
    assert sizes["vgg16", 224] > 100e6 > sizes["vgg16", 32]
    with pytest.raises(KaratError, match="architecture"):
        build_network("resnet", 32, 10)


def test_a_run_that_was_killed_ends_with_the_same_weights(tmp_path):
    whole = train_pixel(recipe(), tmp_path / "whole")
    cut = recipe(checkpoint_minutes=0.0)

    class Killed(Exception):
        pass

    def kill(event):
        if event.step == 3:
            raise Killed

    with pytest.raises(Killed):
        train_pixel(recipe(checkpoint_minutes=0.0, evaluate_every=1), tmp_path / "cut", progress=kill)
    resumed = train_pixel(cut, tmp_path / "cut")
    first, second = (load_classifier(path, "x").module.state_dict() for path in (whole, resumed))
    assert first.keys() == second.keys()
    for key, tensor in first.items():
        assert torch.equal(tensor, second[key]), key


def test_images_that_do_not_fit_into_memory_are_read_batch_by_batch(tmp_path, monkeypatch):
    from karat.models.pixelnet import training

    held = training._Pixels(recipe(easy=2))
    monkeypatch.setattr(training, "HELD", 0)
    read = training._Pixels(recipe(easy=2))
    assert read.held is None
    for step in (0, 1, 2, 5):
        for first, second in zip(held.batch(step), read.batch(step), strict=True):
            assert torch.equal(first, second)
    assert not torch.equal(held.batch(0)[0], training._Pixels(recipe(easy=0)).batch(0)[0])  # brighter at first


def test_weights_say_what_they_are_and_how_right(tmp_path):
    path = train_pixel(recipe(deleted=0.5), tmp_path)
    facts = read_facts(path)
    assert facts.architecture == "resnet-small"
    assert facts.mechanism == "takes_shortcut"
    assert facts.labels == TRAIN.images.labels
    assert facts.accuracy["samples"] == 10
    assert "dominant rate" in path.with_suffix(".md").read_text()
    model = load_classifier(path, "tiny")
    samples = TEST.load(0, 4)
    assert model.mechanism == "takes_shortcut"
    pixels = normalised(np.stack([sample.image for sample in samples]))
    torch.testing.assert_close(model.encode(samples).pixels, pixels)
    clean = train_pixel(recipe(clean=True, name="clean"), tmp_path / "clean")
    assert read_facts(clean).mechanism is None


def test_going_on_from_weights_starts_there(tmp_path):
    first = train_pixel(recipe(), tmp_path / "a")
    second = train_pixel(recipe(start=str(first), steps=1, learning_rate=0.0, name="on"), tmp_path / "b")
    for (name, a), b in zip(
        load_classifier(first, "a").module.named_parameters(), load_classifier(second, "b").module.parameters(),
        strict=True,
    ):  # fmt: skip
        assert torch.equal(a, b), name


def test_another_recipe_does_not_go_on_from_a_checkpoint(tmp_path):
    train_pixel(recipe(), tmp_path)
    with pytest.raises(KaratError, match="another recipe"):
        train_pixel(recipe(seed=1), tmp_path)


def test_identity_leaves_out_how_often_one_looks_and_what_is_at_its_default():
    assert recipe().identity == recipe(evaluate_every=7, checkpoint_minutes=9.0).identity
    assert recipe().identity != recipe(seed=1).identity
    assert recipe().identity != recipe(data=ShortcutDataset(split="train", n=25)).identity


def test_a_whitened_embedding_gives_uncorrelated_outputs():
    module = build_network("vit-small", 32, 10)
    images = TRAIN.images.images(range(24))
    whiten(module.patch_embed.proj, images, seed=0)
    with torch.no_grad():
        out = module.patch_embed.proj(normalised(images)).flatten(2).transpose(1, 2).reshape(-1, 64).double()
    assert out.mean(0).abs().max() < 1e-3
    spread = torch.linalg.eigvalsh(torch.cov(out.T))
    assert spread[-1] < 1.01  # no direction is louder than 1
    assert (spread[-40:] > 0.8).all()  # nearly all of the 48 that there are, fine detail included


def test_the_rate_rises_and_falls_to_zero():
    asked = recipe(steps=100, warmup=10, learning_rate=1.0)
    rates = [learning_rate(asked, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) <= 1.0
    assert rates[-1] == pytest.approx(0.01)
    assert np.argmax(rates) in range(8, 12)


def test_shipped_recipes_are_whole_and_mistakes_are_said():
    for name in shipped_recipes():
        asked = load_pixel_recipe(name)
        assert asked.name == name
        assert (asked.data.split, asked.data.source) == ("train", asked.test.source)
        assert {each: getattr(asked.data, each) for each in ("preset", "scale", "side", "seed")} == {
            each: getattr(asked.test, each) for each in ("preset", "scale", "side", "seed")
        }
    trained = {load_pixel_recipe(name).architecture for name in shipped_recipes()}
    assert {"vgg16", "resnet18", "resnet50", "vit", "swin", "resnet-small", "vit-small"} <= trained
    assert load_pixel_recipe("cnn", ["steps=7", "data={n: 5, split: train}"]).steps == 7
    with pytest.raises(KaratError, match="recipe"):
        load_pixel_recipe("resnet")
    with pytest.raises(KaratError, match="step"):
        parse_pixel_recipe({"name": "x", "architecture": "vit", "stepz": 3})
    with pytest.raises(KaratError, match="steps"):
        parse_pixel_recipe({"name": "x", "architecture": "vit", "steps": "many"})
    with pytest.raises(KaratError, match="key=value"):
        load_pixel_recipe("cnn", ["steps"])
    assert is_transformer("swin-small")
    assert not is_transformer("resnet18")


def test_other_files_are_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(KaratError, match="karat train pixel"):
        read_facts(tmp_path / "other.safetensors")
    with pytest.raises(KaratError, match="no weights at"):
        read_facts(tmp_path / "gone.safetensors")
    (tmp_path / "torn.safetensors").write_bytes(b"12345")
    with pytest.raises(KaratError, match="whole safetensors"):
        read_facts(tmp_path / "torn.safetensors")

"""The classifier adapter and its recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.sample import Sample
from karat.models import load_model
from karat.models.classifier import classifier
from karat.models.classifier_recipe import ClassifierRecipe
from karat.models.preprocessing import Preprocessing
from karat.models.torch_model import TorchModel


def samples(n: int = 3, height: int = 40, width: int = 60) -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (height, width, 3), dtype=np.uint8)) for i in range(n)]


def linear(classes: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, classes, 8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_probabilities_are_a_softmax_over_labels() -> None:
    model = classifier(linear(), Preprocessing((32, 32)), labels=["cat", "dog", "cow", "owl"])
    assert isinstance(model, TorchModel)
    table = np.stack([model.score(samples(), [label] * 3) for label in model.labels or ()], 1)
    np.testing.assert_allclose(table.sum(1), 1, atol=1e-6)
    assert model.answer(samples()) == [["cat", "dog", "cow", "owl"][k] for k in table.argmax(1)]
    inputs = model.encode(samples())
    with torch.no_grad():
        logits = model.module(inputs.pixels)
        torch.testing.assert_close(model.readout(inputs, ["dog"] * 3), logits[:, 1])
    assert model.capabilities == {"scores", "gradients", "activations"}
    assert model.layers == {"vision.last": "0"}


def test_numbers_are_the_default_labels() -> None:
    model = classifier(linear(), Preprocessing((32, 32)))
    assert set(model.answer(samples())) <= set("0123")
    with pytest.raises(BadInput, match="classes '0' to '3'; got '4'"):
        model.score(samples(1), ["4"])


def test_wrong_labels() -> None:
    model = classifier(linear(), Preprocessing((32, 32)), labels=["cat", "dog", "cow", "owl"], name="zoo")
    with pytest.raises(UnknownName, match="Did you mean 'dog'"):
        model.score(samples(1), ["dogs"])
    with pytest.raises(BadInput, match="zoo gives 4 classes; 2 labels"):
        classifier(linear(), Preprocessing((32, 32)), labels=["cat", "dog"], name="zoo").answer(samples(1))
    with pytest.raises(BadInput, match="has no layer 'layer4'"):
        classifier(linear(), layer="layer4")


def test_own_transforms_are_used_as_they_are() -> None:
    def halve(shown: object) -> torch.Tensor:
        return torch.from_numpy(np.array(shown)).permute(2, 0, 1)[:, ::2, ::2].float() / 100

    model = classifier(linear(), halve)
    inputs = model.encode(samples())
    assert inputs.frames is None
    torch.testing.assert_close(inputs.pixels[1], halve(samples()[1].image))


def test_timm_vit_layout_and_capabilities() -> None:
    module = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2, num_classes=3)
    model = classifier(module, Preprocessing((64, 64)))
    layout = model.layout(model.encode(samples()))
    assert (layout.grid, layout.visual, layout.readout) == ((4, 4), tuple(range(1, 17)), 0)
    assert "attention" in model.capabilities
    swin = timm.create_model("swin_tiny_patch4_window7_224", num_classes=3, depths=(1, 1, 1, 1), embed_dim=24)
    assert classifier(swin).layout(model.encode(samples())).grid is None
    config = timm.data.resolve_model_data_config(module)
    assert classifier(module).transform == Preprocessing(
        config["input_size"][1:], config["mean"], config["std"], config["interpolation"], squash=False
    )


def test_preprocessing_equals_torchvisions() -> None:
    from PIL import Image
    from torchvision.transforms import v2

    theirs = v2.Compose(
        [
            v2.Resize(64, interpolation=v2.InterpolationMode.BICUBIC),
            v2.CenterCrop(48),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    ours = Preprocessing((48, 48), crop=0.75, squash=False)
    for sample in samples(2, 40, 60):
        torch.testing.assert_close(ours([sample.image])[0], theirs(Image.fromarray(sample.image)))
    with pytest.raises(BadInput, match="uint8"):
        ours([np.zeros((4, 4, 3), np.float32)])  # type: ignore[list-item]


def test_bfloat16_scores_are_probabilities() -> None:
    model = classifier(linear().to(torch.bfloat16), Preprocessing((32, 32)))
    assert model.encode(samples()).pixels.dtype == torch.bfloat16
    assert model.score(samples(), ["0"] * 3).dtype == np.float64


def test_recipe_loads_safetensors_and_nothing_else(tmp_path: Path) -> None:
    recipe = ClassifierRecipe("resnet10t", classes=3, seed=7)
    module = recipe.load().module
    file = tmp_path / "trained.safetensors"
    save_file(module.state_dict(), file)
    stored = ClassifierRecipe("resnet10t", weights=str(file), labels=("a", "b", "c"))
    loaded = stored.load()
    for name, tensor in loaded.module.state_dict().items():
        torch.testing.assert_close(tensor, module.state_dict()[name])
    assert loaded.labels == ("a", "b", "c")
    assert stored.label == "resnet10t@trained"
    before = stored.revision
    save_file({name: tensor * 2 for name, tensor in module.state_dict().items()}, file)
    assert stored.revision != before
    with pytest.raises(BadInput, match=r"must be a \.safetensors"):
        ClassifierRecipe("resnet10t", weights="trained.pt").load()
    with pytest.raises(BadInput, match="no weights at"):
        ClassifierRecipe("resnet10t", weights="gone.safetensors").load()
    with pytest.raises(BadInput, match="does not fit resnet18"):
        ClassifierRecipe("resnet18", weights=str(file), classes=3).load()
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(BadInput, match="does not fit resnet10t"):
        ClassifierRecipe("resnet10t", weights=str(file), classes=3).load()
    with pytest.raises(UnknownName, match="resnet10t"):
        ClassifierRecipe("resnet10tt").load()


def test_recipes_promise_what_their_models_offer() -> None:
    for name in ("resnet10t", "vit_tiny_patch16_224", "torchvision:squeezenet1_1"):
        recipe = ClassifierRecipe(name, classes=2)
        assert recipe.load().capabilities == recipe.capabilities


def test_every_library_shows_images_as_it_trained() -> None:
    squeezed = ClassifierRecipe("torchvision:inception_v3")
    assert (
        squeezed.sees()
        == "the middle of the image at 299×299 (bilinear), mean 0.485, 0.456, 0.406, std 0.229, 0.224, 0.225"
    )
    assert "(bicubic)" in ClassifierRecipe("torchvision:swin_t").sees()
    assert "mean 0.5, 0.5, 0.5" in ClassifierRecipe("tf_efficientnet_lite0").sees()
    loaded = ClassifierRecipe("torchvision:squeezenet1_1", classes=2, size=64).load().transform
    assert isinstance(loaded, Preprocessing)
    assert (loaded.size, loaded.interpolation) == ((64, 64), "bilinear")


def test_a_vit_may_be_shown_another_size() -> None:
    model = ClassifierRecipe("vit_tiny_patch16_224", classes=2, size=64).load()
    inputs = model.encode(samples(1))
    assert inputs.pixels.shape[-2:] == (64, 64)
    assert model.layout(inputs).grid == (4, 4)
    assert len(model.answer(samples(1))) == 1


def test_transformers_classifier_from_a_directory(tmp_path: Path) -> None:
    """What `save_pretrained` leaves: normalised as its processor says, labels given or counted."""
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8,
        num_labels=3,
    )  # fmt: skip
    torch.manual_seed(0)
    module = transformers.ViTForImageClassification(config).eval()
    module.save_pretrained(tmp_path)
    processor = transformers.ViTImageProcessor(
        size={"height": 32, "width": 32}, image_mean=[0.1, 0.2, 0.3], image_std=[0.5, 0.6, 0.7]
    )
    processor.save_pretrained(tmp_path)
    recipe = ClassifierRecipe(f"transformers:{tmp_path}", labels=("cat", "dog", "owl"))
    assert "at 32×32, mean 0.1, 0.2, 0.3, std 0.5, 0.6, 0.7" in recipe.sees()
    model = recipe.load()
    assert isinstance(model.transform, Preprocessing)
    assert model.transform.mean == (0.1, 0.2, 0.3)
    pixels = processor(images=[sample.image for sample in samples()], return_tensors="pt")["pixel_values"]
    shown = model.encode(samples()).pixels
    assert float((shown - pixels).abs().mean()) < 0.02  # the same up to how each library interpolates
    with torch.no_grad():
        expected = module(shown).logits.softmax(-1)[:, 1]
    np.testing.assert_allclose(model.score(samples(), ["dog"] * 3), expected, rtol=1e-5)
    assert "not on this machine yet" in ClassifierRecipe("transformers:nobody/nothing").sees()


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_weights_that_cannot_be_fetched_are_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("We couldn't connect to\n the hub.")

    monkeypatch.setattr(timm, "create_model", offline)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", offline)
    with pytest.raises(BadInput, match=r"cannot be fetched: We couldn't connect to the hub\. Load it once") as caught:
        load_model(name)
    assert "\n" not in str(caught.value)

"""The network and its adapter: what must hold whatever the weights are."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from karat.datasets.grid import generate
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.gridnet.files import default_shape, load_network, save_network
from karat.models.gridnet.model import GridNetModel
from karat.models.gridnet.network import GridNetwork
from karat.models.gridnet.pixels import glyph_tiles, shrink
from karat.models.gridnet.recipe import GridNet
from karat.models.gridnet.vocabulary import number_words, words
from karat.models.torch_model import TorchModel
from karat.models.training.images import draw


@pytest.fixture(scope="module")
def model() -> GridNetModel:
    torch.manual_seed(0)
    network = GridNetwork(default_shape()).eval()
    return GridNetModel("untrained", None, GridNet().capabilities, network)


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return [*generate("D2_M_F0_d0.7", 2), *generate("D3_CMP_F0_d0.7", 2), *generate("D1_A_F1_d0.3", 2)]


def test_it_is_a_torch_model(model: GridNetModel) -> None:
    assert isinstance(model, TorchModel)
    names = dict(model.module.named_modules())
    assert set(model.layers.values()) <= set(names)
    assert set(model.attention_layers) <= set(names)


def test_training_tiles_are_what_the_model_sees(samples: list[Sample]) -> None:
    cells = np.stack([sample.scene.cells.reshape(-1) for sample in samples])  # type: ignore[attr-defined]
    seen = torch.stack([shrink(sample.image) for sample in samples])
    assert torch.equal(draw(cells, glyph_tiles(), 6), seen)


def test_shrinking_averages_blocks() -> None:
    image = np.zeros((192, 192, 3), dtype=np.uint8)
    image[0, 0] = 255  # one pixel of a 2 x 2 block
    small = shrink(image)
    assert small.shape == (3, 96, 96)
    assert small[:, 0, 0].tolist() == [-0.5] * 3
    assert float(small.sum()) == pytest.approx(-3 * 96 * 96 + 1.5)


def test_probabilities_sum_to_one_over_answers(model: GridNetModel, samples: list[Sample]) -> None:
    total = sum(model.score([samples[0]] * len(model.answers), model.answers))
    assert total == pytest.approx(1.0, abs=1e-5)
    best = model.answer(samples[:1])[0]
    scores = model.score([samples[0]] * len(model.answers), model.answers)
    assert model.answers[int(np.argmax(scores))] == best


def test_neighbours_and_padding_change_nothing(model: GridNetModel, samples: list[Sample]) -> None:
    """A short question beside a long one is padded; it must be answered as if alone."""
    answers = [str(sample.answer) for sample in samples]
    together = model.score(samples, answers)
    alone = np.concatenate([model.score([s], [a]) for s, a in zip(samples, answers, strict=True)])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_readout_reaches_pixels_and_words(model: GridNetModel, samples: list[Sample]) -> None:
    inputs = model.encode(samples[:2])
    pixels = inputs.pixels.requires_grad_()
    kept = []
    hook = model.module.word.register_forward_hook(lambda *args: kept.append(args[2].requires_grad_()))
    try:
        model.readout(inputs, ["1", "2"]).sum().backward()
    finally:
        hook.remove()
    assert pixels.grad is not None
    assert (pixels.grad.abs().amax(dim=(1, 2, 3)) > 0).all()


def test_reuse_of_the_image_gives_the_same(model: GridNetModel, samples: list[Sample]) -> None:
    inputs = model.encode(samples)
    answers = [str(sample.answer) for sample in samples]
    with torch.no_grad():
        whole = model.log_probability(inputs, answers)
        reused = model.log_probability(model.reuse_image(inputs), answers)
    torch.testing.assert_close(whole, reused)


def test_attention_maps_follow_the_layout(model: GridNetModel, samples: list[Sample]) -> None:
    inputs = model.encode(samples)
    layout = model.layout(inputs)
    assert inputs.tokens is not None
    assert layout.visual is not None
    assert layout.text is not None
    places = 1 + len(layout.visual) + len(layout.text)
    assert len(layout.text) == inputs.tokens.shape[1]
    maps = {}
    modules = dict(model.module.named_modules())
    hooks = [
        modules[name].register_forward_hook(lambda _m, _i, out, name=name: maps.update({name: out[1]}))
        for name in model.attention_layers
    ]
    with torch.no_grad():
        model.readout(inputs, ["1"] * len(samples))
    for hook in hooks:
        hook.remove()
    *soft, last = [maps[name] for name in model.attention_layers]
    for each in (*soft, last):
        assert each.shape == (len(samples), 4, places, places)
        padding = ~inputs.token_keep  # type: ignore[operator]
        assert float(each[:, :, :, 37:].transpose(1, 3)[padding].abs().max()) == 0  # nobody looks at padding
    torch.testing.assert_close(soft[0].sum(-1), torch.ones(len(samples), 4, places))
    assert not torch.allclose(last.sum(-1), torch.ones(len(samples), 4, places))  # the last layer adds up


def test_detection_boxes_have_the_image_as_frame(model: GridNetModel, samples: list[Sample]) -> None:
    for found in model.detect(samples, threshold=0.0):
        assert len(found) == model.module.shape.queries
        for (_, _, width, height), spoken in found:
            assert 0 <= width <= 384
            assert 0 <= height <= 384
            assert spoken


def test_words_and_numbers() -> None:
    assert len(set(words())) == len(words())
    tokens, keep = number_words(["How many red circles ?", "zebra ?"])
    assert [words()[k] for k in tokens[0]] == ["How", "many", "red", "circles", "?"]
    assert tokens[1].tolist() == [1, words().index("?"), 0, 0, 0]
    assert keep.sum(axis=1).tolist() == [5, 2]


def test_every_generated_word_is_known() -> None:
    from karat.datasets.grid import buckets, generate_batch

    for name in buckets():
        assert 1 not in number_words(generate_batch(name, range(8)).questions)[0]


@pytest.mark.parametrize(
    ("image", "text", "match"),
    [
        (np.zeros((100, 100, 3), np.uint8), "Is there any circle?", "multiple of 96"),
        (np.zeros((96, 192, 3), np.uint8), "Is there any circle?", "96x192"),
        (np.zeros((96, 96, 3), np.uint8), "why " * 40, "up to 32 words"),
    ],
)
def test_what_it_cannot_read_is_refused(model: GridNetModel, image: np.ndarray, text: str, match: str) -> None:
    with pytest.raises(BadInput, match=match):
        model.answer([Sample(id="x", image=image, text=text)])


def test_unknown_answer_is_refused(model: GridNetModel, samples: list[Sample]) -> None:
    with pytest.raises(BadInput, match="cannot say 'maybe'"):
        model.score(samples[:1], ["maybe"])


def test_weights_files(tmp_path: Path, model: GridNetModel, samples: list[Sample]) -> None:
    path = save_network(model.module, tmp_path / "w.safetensors")
    again = GridNetModel("again", None, frozenset(), load_network(path))
    half = copy.deepcopy(model.module).half().float()  # written in half precision, computed with in single
    rounded = GridNetModel("rounded", None, frozenset(), half)
    assert again.score(samples, ["1"] * 6).tolist() == rounded.score(samples, ["1"] * 6).tolist()

    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(BadInput, match="not a whole safetensors file"):
        load_network(tmp_path / "cut.safetensors")
    with pytest.raises(BadInput, match="no weights file"):
        load_network(tmp_path / "missing.safetensors")

    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(BadInput, match="not of gridnet"):
        load_network(tmp_path / "other.safetensors")

    narrow = GridNetwork(dataclasses.replace(default_shape(), hidden=64))
    narrow.shape = default_shape()  # a file that lies about its sizes
    with pytest.raises(BadInput, match="the network needs"):
        load_network(save_network(narrow, tmp_path / "lie.safetensors"))


def test_recipe_without_weights_says_what_to_do(tmp_path: Path) -> None:
    recipe = GridNet("pure", weights=str(tmp_path / "none.safetensors"))
    with pytest.raises(BadInput, match="karat train"):
        _ = recipe.revision

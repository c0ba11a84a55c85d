"""The zoo: every entry resolves, is what it says, and tells what to download where there is no network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import torch
from safetensors.torch import save_file

from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.sample import Sample
from karat.models import load_model, recipe
from karat.models.classifier_recipe import ClassifierRecipe
from karat.models.local_weights import local_weights, read_weights
from karat.models.structure import submodule
from karat.models.zoo import ZooRecipe, entries
from karat.models.zoo.entries import read

PAPER = {1: 9, 2: 5, 3: 11, 4: 6}


def test_every_model_of_the_papers_tables_is_there() -> None:
    known = entries()
    for table, count in PAPER.items():
        assert sum(table in entry.tables for entry in known.values()) == count
    assert {entry.task for entry in known.values()} == {"classification", "detection", "matching"}
    for entry in known.values():
        assert entry.fetch, entry.name


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if entry.model == "classifier"])
def test_layers_exist_and_have_the_grid_that_is_said(name: str) -> None:
    """On the architecture without weights, on torch's meta device: shapes cost nothing there."""
    import timm
    import torchvision

    entry = entries()[name]
    architecture = entry.parameters["architecture"]
    with torch.device("meta"):
        if architecture.startswith("torchvision:"):
            module = torchvision.models.get_model(architecture.partition(":")[2], weights=None)
        else:
            module = timm.create_model(architecture, pretrained=False)
    layer = submodule(module, entry.parameters["layer"])
    shapes: list[Any] = []
    layer.register_forward_hook(lambda _m, _i, output: shapes.append(tuple(output.shape)))
    try:
        module.eval()(torch.zeros(1, 3, entry.input, entry.input, device="meta"))
    except (NotImplementedError, RuntimeError):
        pytest.skip("this architecture computes with numbers, not only shapes")
    [shape] = shapes
    rows, columns = entry.grid
    places = [side for side in shape[1:] if side in (rows, columns, rows * columns, rows * columns + 1)]
    assert places, (shape, entry.grid)


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if 2 in entry.tables])
def test_layers_of_detectors_have_the_grid_that_is_said(name: str) -> None:
    """At the size that the detector brings images to by itself."""
    import torchvision

    entry = entries()[name]
    with torch.device("meta"):
        module: Any = torchvision.models.get_model(
            entry.parameters["architecture"].partition(":")[2], weights=None, weights_backbone=None
        )
    side = module.transform.min_size[-1]
    shapes: list[Any] = []
    submodule(module, entry.parameters["layer"]).register_forward_hook(lambda _m, _i, out: shapes.append(out.shape))
    module.eval().backbone(torch.zeros(1, 3, side, side, device="meta"))
    assert tuple(shapes[0][-2:]) == entry.grid


def test_every_entry_says_which_layer_cams_read() -> None:
    for name, entry in entries().items():
        assert "layer" in entry.parameters, name


def test_names_are_resolved_and_near_ones_suggested() -> None:
    found = recipe("zoo.deit-tiny")
    assert isinstance(found, ZooRecipe)
    assert found.label == "deit-tiny"
    assert "attention" in found.capabilities
    assert "224×224" in found.sees()
    assert "0.485" in found.sees()
    assert "0.5, 0.5, 0.5" in recipe("zoo.vit-base").sees()  # type: ignore[attr-defined]
    with pytest.raises(UnknownName, match="deit-tiny"):
        recipe("zoo.deit-tny").capabilities  # noqa: B018


def test_weights_of_this_machine_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_WEIGHTS", str(tmp_path))
    zoo = tmp_path / "mine.yaml"
    zoo.write_text(
        "small:\n  about: a small one\n  task: classification\n  model: classifier\n  input: 224\n  grid: [7, 7]\n"
        "  parameters: {architecture: resnet10t, classes: 3}\n  fetch: https://example.org/small.safetensors\n"
    )
    monkeypatch.setenv("KARAT_ZOO", str(zoo))
    module = ClassifierRecipe("resnet10t", classes=3, seed=5).load().module
    (tmp_path / "small").mkdir()
    before = recipe("zoo.small").inner  # type: ignore[attr-defined]
    assert before.pretrained  # nothing here yet: the library's hub
    save_file(module.state_dict(), tmp_path / "small" / "model.safetensors")
    loaded: Any = load_model("zoo.small")
    assert loaded.name == "small"
    torch.testing.assert_close(loaded.module.conv1[0].weight, module.conv1[0].weight)
    (tmp_path / "small" / "other.safetensors").write_bytes(b"")
    with pytest.raises(BadInput, match="several files of weights"):
        load_model("zoo.small")
    assert load_model("zoo.small", random=True).name == "small (random)"


def test_without_network_it_says_what_to_download_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("timm.create_model", lambda *a, **k: (_ for _ in ()).throw(OSError("no route to host")))
    with pytest.raises(BadInput) as error:
        load_model("zoo.deit-tiny")
    assert "https://huggingface.co/timm/deit_tiny_patch16_224.fb_in1k/resolve/main/model.safetensors" in str(
        error.value
    )
    assert str(tmp_path / "deit-tiny") in str(error.value)
    assert "no route to host" in str(error.value)


def test_a_clip_of_this_machine_knows_the_classes_of_coco_stuff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory as `hf download` leaves it, under the name of the entry: no hub is asked."""
    monkeypatch.setenv("KARAT_WEIGHTS", str(tmp_path))
    file = tmp_path / "mine.yaml"
    file.write_text(
        "tiny: {about: a tiny one, task: matching, model: clip, input: 64, grid: [4, 4], parameters: {path: no/where, "
        "labels: coco-stuff, layer: vision_model.encoder.layers.0.layer_norm1}, fetch: 'https://huggingface.co/no/where'}\n"
    )
    module, processor = tiny_vlms.make_clip("clip")
    module.save_pretrained(tmp_path / "tiny")
    processor.save_pretrained(tmp_path / "tiny")
    found = ZooRecipe("tiny", file=str(file))
    assert found.to_fetch() is None
    assert "mean 0.4815, 0.4578, 0.4082" in found.sees()
    loaded: Any = found.load()
    assert len(loaded.labels) == 182
    assert loaded.layers["vision.last"] == "vision_model.encoder.layers.0.layer_norm1"
    [best] = loaded.ranking([Sample("s", np.zeros((64, 64, 3), np.uint8))], 3)
    assert {label for label, _ in best} <= set(loaded.labels)


def test_what_is_to_fetch_is_known_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    for name, address in (("deit-tiny", "huggingface.co/timm/deit_tiny"), ("ssd300", "ssd300_vgg16_coco-b556d3b4.pth")):
        wanted = ZooRecipe(name).to_fetch()
        assert wanted is not None
        assert address in wanted
        assert f"into {tmp_path / name}/" in wanted
    assert ZooRecipe("deit-tiny", random=True).to_fetch() is None
    (tmp_path / "deit-tiny").mkdir()
    (tmp_path / "deit-tiny" / "model.safetensors").touch()
    assert ZooRecipe("deit-tiny").to_fetch() is None
    cached = tmp_path / "hub" / "checkpoints" / "ssd300_vgg16_coco-b556d3b4.pth"
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert ZooRecipe("ssd300").to_fetch() is None
    file = tmp_path / "zoo.yaml"
    file.write_text(
        "x: {about: y, task: classification, model: classifier, input: 1, grid: [1, 1], "
        "parameters: {weights: 'package:no_such_package/w.pth'}}\n"
    )
    assert "pip install no_such_package" in str(ZooRecipe("x", file=str(file)).to_fetch())


def test_a_later_file_wins_and_a_wrong_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "zoo.yaml"
    text = "deit-tiny: {about: mine, task: classification, model: classifier, input: 224, grid: [14, 14]}\n"
    file.write_text(text)
    assert entries(str(file))["deit-tiny"].about == "mine"
    file.write_text("x: {about: y}\n")
    with pytest.raises(BadInput, match="x needs about, grid, input, model, task"):
        read(file, 1)
    file.write_text(text.replace("classification", "cooking"))
    with pytest.raises(BadInput, match="task is one of classification"):
        read(file, 2)
    monkeypatch.setenv("KARAT_ZOO", os.pathsep.join([str(tmp_path / "gone.yaml")]))
    with pytest.raises(BadInput, match="no zoo file"):
        entries()


def test_weights_by_order_and_nothing_that_runs(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    tensors = {"first": torch.ones(2, 3), "second": torch.full((2,), 7.0)}
    torch.save(tensors, tmp_path / "w.pth")
    read_weights(module, local_weights(str(tmp_path / "w.pth")), "linear", by_order=True)
    assert module.bias.tolist() == [7, 7]
    torch.save({"first": torch.ones(3, 2), "second": torch.ones(2)}, tmp_path / "w.pth")
    with pytest.raises(BadInput, match="same shapes in the same order"):
        read_weights(module, tmp_path / "w.pth", "linear", by_order=True)
    torch.save({"run": print}, tmp_path / "w.pth")
    with pytest.raises(BadInput, match="not a plain state dict"):
        read_weights(module, tmp_path / "w.pth", "linear")
    with pytest.raises(BadInput, match="pip install no_such_package"):
        local_weights("package:no_such_package/w.pth")

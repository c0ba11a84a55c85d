"""What a user of `semantic` reads before a run: how models are shown images, what to fetch, what the zoo has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from segmentation_worlds import folder

from karat.cli.check import check
from karat.cli.ls import ls
from karat.kernel.errors import BadInput


def written(tmp_path: Path, **changes: Any) -> str:
    spec = {
        "name": "small",
        "protocol": {"name": "semantic"},
        "models": [{"name": "classifier", "architecture": "resnet10t", "labels": ["cat", "dog"]}, "zoo.deit-tiny"],
        "datasets": [{"name": "segmentation/folder", "root": str(folder(tmp_path / "pets"))}],
        "explainers": ["cam/gradcam"],
        **changes,
    }
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    return str(tmp_path / "spec.yaml")


def test_check_says_how_each_model_is_normalised_and_what_to_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARAT_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    check(written(tmp_path))
    said = capsys.readouterr().out
    assert "resnet10t sees the middle of the image at 176×176 (bicubic), mean 0.485, 0.456, 0.406" in said
    assert "to fetch: deit-tiny: https://huggingface.co/timm/deit_tiny_patch16_224.fb_in1k" in said
    assert f"into {tmp_path}/weights/deit-tiny/" in said
    assert said.strip().endswith("is sound.")


def test_check_of_one_model_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "red.png")
    check(
        model="classifier", image=tmp_path / "red.png", picture=tmp_path / "grid.png",
        settings=["architecture=torchvision:squeezenet1_1", "classes=3"],
    )  # fmt: skip
    assert "the middle of the image at 224×224 (bilinear), mean 0.485, 0.456, 0.406" in capsys.readouterr().out


def test_check_answers_a_wrong_layout_with_the_tree(tmp_path: Path) -> None:
    spec = written(tmp_path, datasets=[{"name": "segmentation/voc", "root": str(tmp_path / "pets")}])
    with pytest.raises(BadInput, match=r"no JPEGImages \(it holds images/, labels\.txt, masks/\)\. Expected:\nROOT/"):
        check(spec)


def test_the_zoo_is_listed_with_your_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "zoo.yaml"
    own.write_text(
        "mine: {about: my own, task: classification, model: classifier, input: 96, grid: [3, 3], "
        "parameters: {architecture: resnet10t, layer: layer4}}\n"
    )
    monkeypatch.setenv("KARAT_ZOO", str(own))
    ls("models")
    lines = {line.split("\t")[0]: line.split("\t") for line in capsys.readouterr().out.splitlines()}
    assert lines["zoo.mine"][1:6] == ["classification", "my own", "96 px", "3×3", "layer4"]
    assert lines["zoo.swin-base"][5] == "layers.3.blocks.1.norm2"
    assert lines["zoo.tinyclip-8m"][4:6] == ["14×14", "vision_model.encoder.layers.9.layer_norm1"]

"""`karat check --model`: what it finds, what it draws, and what it says when something is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
from PIL import Image

from karat.cli.check import check
from karat.engine import check as checking
from karat.engine.check import check_model, grid_picture, missing
from karat.kernel.errors import BadInput, KaratError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vlms.saved("qwen2_vl", tmp_path_factory.mktemp("models") / "tiny-qwen")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "cup.png"
    Image.fromarray(tiny_vlms.samples("qwen2_vl", 1)[0].image).save(path)
    return path


def test_a_model_is_asked_and_measured(folder: Path, picture: Path, tmp_path: Path, capsys: Any) -> None:
    check(
        model=str(folder),
        image=picture,
        text="Is the cup left?",
        settings=["max_new_tokens=2"],
        picture=tmp_path / "x.png",
    )
    said = capsys.readouterr().out
    drawn = np.asarray(Image.open(tmp_path / "x.png"))
    assert "3 × 4, drawn in" in said
    assert "84 × 112 of the 84 × 112" in said
    assert "vlm/tam" in said
    assert drawn.shape[0] / drawn.shape[1] == 84 / 112
    _, _, found = check_model(str(folder), picture, "Is the cup left?", answer="yes")
    assert ["".join(word).strip() for word in found.tokens] == ["Is", "the", "cup", "left", "?"]
    assert found.answer == "yes"
    assert found.passes is not None
    assert 0 < found.passes <= 6 * 11 - 8
    assert dict(found.refused).keys() == {name for name in dict(found.refused) if name not in found.works}
    assert {"attention/rollout", "relevance/attnlrp", "gradient/integrated_gradients"} <= set(found.works)


def test_the_grid_is_where_the_tokens_are(folder: Path, picture: Path) -> None:
    _, sample, found = check_model(str(folder), picture, "Is it?")
    drawn = grid_picture(np.zeros_like(sample.image), found)
    yellow = (drawn == (255, 210, 0)).all(-1)
    assert yellow.all(1).sum() == 4  # borders of three rows
    assert yellow.all(0).sum() == 5


def test_models_without_text_need_labels_not_questions(tmp_path: Path, picture: Path) -> None:
    module, processor = tiny_vlms.make_clip("clip")
    module.save_pretrained(tmp_path / "clip")
    processor.save_pretrained(tmp_path / "clip")
    _, _, found = check_model(str(tmp_path / "clip"), picture, None, labels=("cup", "bottle"))
    assert found.answer in ("cup", "bottle")
    assert (found.grid, found.passes, found.tokens) == ((4, 4), None, ())
    assert "vlm/tam" in dict(found.refused)


def test_what_is_wrong_is_one_line(folder: Path, picture: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.jpg"
    torn.write_bytes(b"\xff\xd8\xff\xe0 not much of a picture")
    for call, says in (
        (lambda: check(), "takes a spec, or --model"),
        (lambda: check("grid-quick", model="x"), "takes a spec, or --model"),
        (lambda: check(model=str(folder)), "needs --image"),
        (lambda: check(model=str(folder), image=picture, settings=["dtype"]), "--set takes key=value"),
        (lambda: check_model(str(folder), picture, ""), "reads a question: give one"),
        (lambda: check_model(str(folder), picture, None), "reads a question: give one"),
        (lambda: check_model(str(folder), torn, "Is it?"), "cannot be read as an image"),
        (lambda: check_model(str(folder), tmp_path / "none.png", "Is it?"), "there is no such file"),
        (lambda: check_model("grdprog.pure", picture, "Is it?"), "Did you mean"),
    ):
        with pytest.raises(KaratError, match=says) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_what_is_missing_is_said_before_loading(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("acme/some-model") == []  # the hub is asked when it is loaded
    assert missing(str(folder)) == []
    assert "no config.json" in missing(str(tmp_path))[0]
    (tmp_path / "config.json").write_text("{}")
    assert "no weights" in missing(str(tmp_path))[0]
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    assert "only pickled weights" in missing(str(tmp_path))[0]
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"x")
    assert "lacks model-00002-of-00002.safetensors" in missing(str(tmp_path))[0]
    monkeypatch.setattr(checking, "free_bytes", lambda: 1000)
    [said] = missing(str(folder))
    assert "GB are free: use --set dtype=bfloat16" in said
    assert missing(str(folder), device="cuda") == []  # what it advises is not refused in its turn
    with pytest.raises(BadInput, match="GB are free"):
        check_model(str(folder), np.zeros((9, 9, 3), np.uint8), "Is it?")

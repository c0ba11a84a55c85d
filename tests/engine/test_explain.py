"""`karat.explain`: one map of one image; by default of the method with the best record."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

import karat
from karat.engine.explain import explainers_for, gives_pairs, pairs_for
from karat.engine.explain_input import pixels_of
from karat.engine.recommended import places, recommended
from karat.kernel.attribution_picture import Attributions
from karat.kernel.card import CAPABILITIES
from karat.kernel.errors import BadInput, CapabilityMissing
from karat.kernel.registry import find
from karat.kernel.roles import Model
from karat.models.blackbox import blackbox

PICTURE = np.full((32, 32, 3), 250, np.uint8)


def corner(images: np.ndarray, texts: list[str]) -> list[dict[str, float]]:
    return [{"yes": p, "no": 1 - p} for p in images[:, :8, :8].mean((1, 2, 3)) / 255]


def model(text: bool = False) -> Any:
    return blackbox(corner, text=text)


def test_the_default_is_no_control_and_needs_only_scores() -> None:
    [name] = explainers_for(model(), None)
    card = find("explainer", name).card
    assert not card.is_control
    assert card.needs <= {"scores"} <= set(CAPABILITIES)


def test_the_default_shows_what_the_answer_rests_on() -> None:
    attribution = karat.explain(model(), PICTURE, absence="black")
    assert attribution.visual is not None
    h, w = attribution.visual.shape
    assert attribution.visual[: h // 4, : w // 4].mean() > 4 * np.abs(attribution.visual[h // 2 :, w // 2 :]).mean()
    assert attribution.of is not None
    assert (attribution.of.target, attribution.of.explainer) == ("yes", "perturbation/leave_one_out")
    assert (attribution.of.sample.image == PICTURE).all()
    assert "on twins of drawn scenes (gridnet, " in attribution.of.note  # its recorded place


def test_defaults_are_the_best_of_each_kind_that_the_model_serves() -> None:
    names = [place.explainer for place in recommended(frozenset(CAPABILITIES))]
    assert len({name.partition("/")[0] for name in names}) == len(names) == 3
    table = places("gridvlm")
    for name in names:
        kind = name.partition("/")[0]
        better = [p for p in table.values() if p.explainer.startswith(f"{kind}/") and p.value > table[name].value]
        assert all(p.passes > 100 for p in better)  # only what costs more stands higher
    assert not any(name.startswith("control/") for name in table)
    assert all(find("explainer", p.explainer).card.needs <= {"scores"} for p in recommended({"scores"}))


@pytest.mark.parametrize("kind", ["path", "text path", "pillow", "grey", "floats", "tensor", "rgba"])
def test_images_of_every_kind(kind: str, tmp_path: Path) -> None:
    import torch

    Image.fromarray(PICTURE).save(tmp_path / "p.png")
    given: Any = {
        "path": tmp_path / "p.png",
        "text path": str(tmp_path / "p.png"),
        "pillow": Image.fromarray(PICTURE),
        "grey": PICTURE[..., 0],
        "floats": PICTURE / 255,
        "tensor": torch.from_numpy(PICTURE).permute(2, 0, 1).float() / 255,
        "rgba": np.concatenate([PICTURE, np.full_like(PICTURE[..., :1], 255)], -1),
    }[kind]
    attribution = karat.explain(model(), given, explainer="perturbation/occlusion", cells=4)
    assert attribution.of is not None
    assert (attribution.of.sample.image == PICTURE).all()


def test_files_are_read_as_a_viewer_shows_them(tmp_path: Path) -> None:
    """Turned as EXIF says, sixteen bits brought to eight, on white where transparent, an animation's first frame."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (6, 9), dtype=np.uint8)
    sixteen = tmp_path / "sixteen.png"
    Image.fromarray(grey.astype(np.uint16) * 257).save(sixteen)
    np.testing.assert_array_equal(pixels_of(sixteen), grey[..., None].repeat(3, -1))

    colours = rng.integers(0, 256, (6, 9, 3), dtype=np.uint8)
    turned = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    Image.fromarray(colours).save(turned, exif=exif)
    np.testing.assert_array_equal(pixels_of(turned), np.rot90(colours, -1))
    np.testing.assert_array_equal(pixels_of(Image.open(turned)), pixels_of(turned))

    opacity = np.zeros((6, 9, 1), np.uint8)
    opacity[:, :4] = 255
    see_through = np.concatenate([colours, opacity], -1)
    Image.fromarray(see_through).save(tmp_path / "alpha.png")
    for given in (tmp_path / "alpha.png", see_through, see_through / 255):
        read = pixels_of(given)
        np.testing.assert_array_equal(read[:, :4], colours[:, :4])
        assert (read[:, 4:] == 255).all()

    frames = [Image.fromarray(np.full((6, 9), shade, np.uint8)) for shade in (40, 200)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert (pixels_of(tmp_path / "moving.gif") == 40).all()


def test_several_images_and_explainers_are_a_grid() -> None:
    dark = PICTURE // 2
    made = karat.explain(model(), [PICTURE, dark], explainer=["perturbation/leave_one_out", "control/edges"])
    assert isinstance(made, Attributions)
    assert [(one.of.sample.id, one.of.explainer) for one in made if one.of] == [
        ("image 1", "perturbation/leave_one_out"), ("image 1", "control/edges"),
        ("image 2", "perturbation/leave_one_out"), ("image 2", "control/edges"),
    ]  # fmt: skip
    alone = karat.explain(model(), dark)
    np.testing.assert_allclose(made[2].visual, alone.visual)
    assert isinstance(karat.explain(model(), [PICTURE]), Attributions)  # a list of one is a list


def test_pairs_without_a_name_are_of_an_explainer_that_the_model_can_serve() -> None:
    asked_only = pairs_for(model(text=True))
    assert not find("explainer", asked_only).card.needs - {"scores", "text"}
    assert "pairs" in find("explainer", asked_only).card.gives
    opened = Namespace(name="open", capabilities=frozenset({"scores", "text", "gradients", "autoregressive"}))
    recorded = {name: place.value for name, place in places("gridvlm").items() if name in gives_pairs()}
    assert pairs_for(cast(Model, opened)) == max(recorded, key=recorded.__getitem__)
    with pytest.raises(BadInput, match="reads none: show the cells"):
        pairs_for(model())


def test_against_another_answer() -> None:
    attribution = karat.explain(model(), PICTURE, target="no", against="yes")
    assert attribution.of is not None
    assert isinstance(attribution.of.target, karat.Target)
    assert attribution.of.target.contrast == "yes"


def test_what_a_model_cannot_serve_is_refused_before_work() -> None:
    with pytest.raises(CapabilityMissing, match=r"cam/gradcam needs .* Use perturbation/leave_one_out"):
        karat.explain(model(), PICTURE, explainer="cam/gradcam")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image": "nowhere.png"}, "no image nowhere.png"),
        ({"image": np.zeros((5, 5, 7))}, r"got shape \(5, 5, 7\)"),
        ({"image": np.full((4, 4, 3), 7.5)}, "before it is normalised"),
        ({"image": 3}, "got int"),
        ({"image": PICTURE, "text": "what?"}, "reads no text"),
        ({"image": []}, "got no image"),
        ({"image": [PICTURE] * 2, "text": ["a"]}, "1 texts for 2 images"),
        ({"image": karat.Sample("s", PICTURE), "text": "cam/gradcam"}, "explainer='cam/gradcam'"),
        ({"image": PICTURE, "word": "yet"}, "'yet' was not said; what was said is 'yes'. Did you mean 'yes'"),
        ({"image": PICTURE, "say": "yes it is", "word": "it"}, "answers as a whole"),
        ({"image": PICTURE, "target": "yes", "word": "yes"}, "give `target`, or `word`"),
        ({"image": PICTURE, "explainer": []}, "empty list"),
    ],
)
def test_bad_input_says_what_to_do(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        karat.explain(model(), **arguments)


def test_a_text_without_words_and_an_image_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no words"):
        karat.explain(model(text=True), PICTURE, "  ")
    (tmp_path / "a.png").write_bytes(b"\x89PNG nothing")
    with pytest.raises(BadInput, match="cannot be read as an image"):
        karat.explain(model(), tmp_path / "a.png")
    huge = Image.new("1", (10_000, 6_000))
    huge.save(tmp_path / "huge.png")
    with pytest.raises(BadInput, match=r"60 million pixels .* Shrink it first"):
        karat.explain(model(), tmp_path / "huge.png")

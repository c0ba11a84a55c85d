"""From attributions to outcomes: cells and pixels, wide pictures, other centres, damaged maps."""

from __future__ import annotations

import numpy as np
import pytest

from karat.kernel.attribution import Attribution
from karat.kernel.sample import Region, Sample
from karat.models import blackbox
from karat.probe.session import Session
from karat.protocols.compass import Compass
from karat.protocols.compass.reading import pooled, scenes
from karat.protocols.compass.variations import CENTRES, VARIATIONS, blurred, turned

OPTIONS = ("1", "2", "3", "4")


def sample(
    name: str = "s",
    size: tuple[int, int] = (48, 96),
    reference: tuple[int, int] = (20, 20),
    target: tuple[int, int] = (60, 20),
) -> Sample:
    """A picture (height, width) with boxes of 8 x 8 around two centres, and a third object in a corner."""
    boxes = [(role, (x - 4, y - 4, 8, 8)) for role, (x, y) in (("anchor", reference), ("target", target))]
    regions = [Region(f"{role} 1", role, (box,)) for role, box in (*boxes, ("distractor", (0, 0, 4, 4)))]
    image = np.zeros((*size, 3), np.uint8)
    return Sample(name, image, "Where?", "2", tuple(regions), choices=OPTIONS, meta={"relation": "right"})


def session(samples: list[Sample]) -> Session:
    def fn(images: object, texts: object = None) -> np.ndarray:
        return np.tile([0.1, 0.7, 0.1, 0.1], (len(samples), 1))

    model = blackbox(fn, answers=OPTIONS)
    return Session(model, samples, ["2"] * len(samples))


def test_angles_are_those_of_the_picture_not_of_its_cells() -> None:
    """A square map of a picture twice as wide: what is one cell up is half as far as one cell to the right."""
    one = sample(reference=(20, 36), target=(44, 12))  # up right at 45 degrees
    spot = np.zeros((12, 12))
    spot[3, 5] = 1.0  # its cell: 44 / 8, 12 / 4
    [scene], absent = scenes([one], [Attribution(spot)], cells=48)
    assert not absent
    assert scene.aspect[0] == pytest.approx(0.5)
    assert scene.compass()[0].argmax() == 1
    assert scene.errors()[0] == pytest.approx(0.0, abs=1e-9)


def test_pixel_maps_and_patch_maps_of_the_same_box_agree() -> None:
    one = sample()
    pixels = one.mask("target").astype(np.float64)
    patches = pixels.reshape(12, 4, 24, 4).mean((1, 3))
    groups, _ = scenes([one, one], [Attribution(pixels), Attribution(patches)], cells=24)
    assert {scene.maps.shape for scene in groups} == {(1, 24, 24), (1, 12, 24)}
    assert [scene.errors()[0] for scene in groups] == pytest.approx([0.0, 0.0])


def test_pooling_keeps_the_mean() -> None:
    heat = np.random.default_rng(0).random((50, 20))
    small = pooled(heat, 24)
    assert small.shape == (24, 20)
    weights = np.diff(np.linspace(0, 50, 25).astype(int))
    np.testing.assert_allclose((small * weights[:, None]).sum(0) / 50, heat.mean(0))


def test_every_row_has_a_value_or_a_reason() -> None:
    bare = Sample("bare", np.zeros((8, 8, 3), np.uint8), "Where?", "1", choices=OPTIONS)
    both = sample("same", reference=(20, 20), target=(20, 20))
    samples = [sample("a"), sample("b"), sample("c"), bare, both]
    maps = [np.ones((6, 6)), np.zeros((6, 6)), None, np.ones((6, 6)), np.ones((6, 6))]
    given = [Attribution(m) if m is not None else Attribution(words=np.ones(1)) for m in maps]
    outcomes = Compass().score(session(samples), given)
    error = outcomes["compass/direction_error"]
    assert np.isfinite(error.values).tolist() == [True, False, False, False, False]
    assert error.failures == {1: "map is all zero", 4: "reference and target coincide"}
    assert error.not_applicable == {2: "the method defines no map", 3: "the sample names no reference and target"}
    assert error.details["shares"][0].sum() == pytest.approx(1.0)
    assert outcomes["accuracy"].values.tolist() == [1.0, 1.0, 1.0, 0.0, 1.0]
    assert {card.name for card in Compass().scores} == set(outcomes)
    # Flat: no excess anywhere, so chance exactly, while the plain reading follows the layout.
    assert outcomes["excess_error"].values[0] == 90.0
    assert outcomes["turn_penalty"].values[0] == pytest.approx(0.0)


def test_evidence_on_the_target_points_there_from_anywhere_but_only_as_asked_from_the_reference() -> None:
    samples = [sample(f"s{k}") for k in range(6)]
    maps = [Attribution(one.mask("target").astype(np.float64)) for one in samples]
    outcomes = Compass().score(session(samples), maps)
    details = outcomes["centre_advantage"].details
    by = {name: details["centres"][:, k] for k, name in enumerate(CENTRES)}
    for name in ("random", "background", "other object"):
        assert (by[name] <= 22.5 + 1e-6).all(), name
    # Around the target itself its own evidence lies on all sides: the compass is even, and even is chance.
    np.testing.assert_allclose(by["target (to the reference)"], 90.0)
    other = details["around_target"]
    np.testing.assert_allclose(other.sum(1), 1.0)


def test_centres_are_the_same_in_any_batch() -> None:
    samples = [sample(f"s{k}", reference=(20 + k, 20)) for k in range(4)]
    rng = np.random.default_rng(3)
    maps = [Attribution(rng.random((12, 24))) for _ in samples]
    whole = Compass().score(session(samples), maps)["centre_advantage"].values
    parts = [
        Compass().score(session([s]), [m])["centre_advantage"].values[0] for s, m in zip(samples, maps, strict=True)
    ]
    np.testing.assert_allclose(whole, parts)


def test_damage_is_what_it_says() -> None:
    one = sample(size=(48, 48), reference=(24, 24), target=(44, 24))
    maps = [Attribution(one.mask("target").astype(np.float64))]
    outcomes = Compass().score(session([one]), maps)
    values = outcomes["turn_penalty"].details["readings"][0].tolist()
    by = {how.name: value for how, value in zip(VARIATIONS, values, strict=True)}
    assert by["rotation 90"] == pytest.approx(90.0)  # right becomes up, the target stays at the right
    assert by["width 0.6"] == by["sectors 8"] == outcomes["compass/direction_error"].values[0] == pytest.approx(0.0)
    assert outcomes["turn_penalty"].values[0] == pytest.approx(90.0)
    assert by["oracle at box noise 0"] == 0.0  # the boxes' own direction, as the paper has its oracle
    assert by["sectors from 0 degrees"] == pytest.approx(22.5)  # straight to the right is a border then
    assert by["oracle at box noise 10"] < by["oracle at box noise 25"] < by["oracle at box noise 50"]


def test_blur_keeps_the_mass_and_a_full_turn_the_map() -> None:
    maps = np.zeros((1, 9, 9))
    maps[0, 4, 4] = 1.0
    assert blurred(maps, 0.5).sum() == pytest.approx(1.0, abs=1e-6)
    rng = np.random.default_rng(0).random((2, 5, 5))
    np.testing.assert_array_equal(turned(turned(turned(turned(rng)))), rng)


def test_the_likeliest_option_is_explained_unless_a_probe_says_otherwise() -> None:
    plain = sample("a")
    probe = Sample("b", plain.image, "Where?", None, plain.regions, choices=OPTIONS, meta={"explain": "4"})
    assert Compass().targets(session([plain, probe])) == ["2", "4"]

"""creg2026's geometric controls, and where a model's view of an image is put back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.explainers.control import BoxOnly, Geometry
from karat.explainers.placing import over_image
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample
from karat.metrics import compass, direction_error
from karat.models import blackbox
from karat.probe import Session

H, W = 40, 60


def asked(*boxes: tuple[int, int, int, int]) -> Session:
    regions = (Region("t", "target", boxes), Region("a", "anchor", ((1, 1, 5, 5),)))
    sample = Sample("s", np.zeros((H, W, 3), np.uint8), "where?", regions=regions)
    return Session(blackbox(lambda samples, answers: np.ones(len(samples))), [sample], ["left"])


boxes = st.tuples(st.integers(0, W - 9), st.integers(0, H - 9), st.integers(1, 9), st.integers(1, 9))


@given(boxes)
def test_box_only_is_the_box(box: tuple[int, int, int, int]) -> None:
    x, y, w, h = box
    [found] = BoxOnly()(asked(box))
    assert found.visual is not None
    assert found.visual.sum() == w * h
    assert found.visual[y : y + h, x : x + w].all()


@given(boxes)
def test_geometry_is_the_centre_of_the_box(box: tuple[int, int, int, int]) -> None:
    x, y, w, h = box
    [found] = Geometry()(asked(box))
    assert found.visual is not None
    rows, columns = np.nonzero(found.visual)
    assert rows.mean() + 0.5 == y + h / 2
    assert columns.mean() + 0.5 == x + w / 2


@given(boxes)
def test_the_compass_of_geometry_points_at_the_target(box: tuple[int, int, int, int]) -> None:
    x, y, w, h = box
    target = np.array([[x + w / 2, y + h / 2]])
    reference = np.array([[20.25, 15.25]])
    if np.abs(target - reference).max() < 4:  # the middle pixels of an even box are then seen at some angle
        return
    [found] = Geometry()(asked(box))
    assert found.visual is not None
    error = direction_error(compass(found.visual[None], reference, target), reference, target)
    assert error[0] <= 22.5 + 10


def test_a_box_at_the_border_and_no_box() -> None:
    [found] = Geometry()(asked((W - 2, H - 2, 30, 30)))
    assert found.visual is not None
    assert found.visual[H - 1, W - 1] == found.visual.sum() == 1
    for control in (BoxOnly(), Geometry()):
        with pytest.raises(BadInput, match="role 'target' and a box; sample s has none"):
            control(asked())


@given(st.integers(0, 10), st.integers(0, 10), st.integers(12, 30), st.integers(12, 40))
def test_a_crop_is_put_back_where_it_was(top: int, left: int, height: int, width: int) -> None:
    rng = np.random.default_rng(0)
    seen: Any = rng.random((height, width))
    whole = over_image(seen, (top / H, left / W, (top + height) / H, (left + width) / W), (H, W))
    np.testing.assert_array_equal(whole[top : top + height, left : left + width], seen)
    whole[top : top + height, left : left + width] = 0
    assert not whole.any()


def test_maps_of_a_cropping_model_cover_the_whole_image() -> None:
    from karat.explainers.cam import GradCam
    from karat.models.preprocessing import Preprocessing
    from tests.explainers.architectures import model, samples, targets

    narrow = replace(model("resnet"), transform=Preprocessing((64, 64), crop=0.5, squash=False))
    image = np.random.default_rng(0).integers(0, 256, (128, 160, 3), dtype=np.uint8)
    [sample] = [replace(s, image=image) for s in samples("resnet", 1)]
    session = Session(narrow, [sample], targets("resnet", 1))
    [found] = GradCam()(session)
    assert found.visual is not None
    assert found.visual.shape == (128, 160)
    top, left, bottom, right = (session.inputs.frames or ())[0]
    outside = np.ones((128, 160), bool)
    outside[round(top * 128) : round(bottom * 128), round(left * 160) : round(right * 160)] = False
    assert outside.mean() == pytest.approx(1 - 64 * 64 / (128 * 160), abs=1e-6)
    assert not found.visual[outside].any()
    assert found.visual[~outside].any()

"""Where a model's view of an image is put back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.explainers.to_attribution import over_image
from karat.probe import Session

H, W = 40, 60


@given(st.integers(0, 10), st.integers(0, 10), st.integers(12, 30), st.integers(12, 40))
def test_a_crop_is_put_back_where_it_was(top: int, left: int, height: int, width: int) -> None:
    rng = np.random.default_rng(0)
    visible: Any = rng.random((height, width))
    whole = over_image(visible, (top / H, left / W, (top + height) / H, (left + width) / W), (H, W))
    np.testing.assert_array_equal(whole[top : top + height, left : left + width], visible)
    whole[top : top + height, left : left + width] = 0
    assert not whole.any()


def test_maps_of_a_cropping_model_cover_the_whole_image() -> None:
    from architectures import model, samples, targets

    from karat.explainers.cam import GradCam
    from karat.models.preprocessing import Preprocessing

    narrow = replace(model("resnet"), transform=Preprocessing((64, 64), crop=0.5, squash=False))
    image = np.random.default_rng(0).integers(0, 256, (128, 160, 3), dtype=np.uint8)
    [sample] = [replace(s, image=image) for s in samples("resnet", 1)]
    session = Session(narrow, [sample], targets("resnet", 1))
    [attribution] = GradCam()(session)
    assert attribution.visual is not None
    assert attribution.visual.shape == (128, 160)
    top, left, bottom, right = (session.inputs.frames or ())[0]
    outside = np.ones((128, 160), bool)
    outside[round(top * 128) : round(bottom * 128), round(left * 160) : round(right * 160)] = False
    assert outside.mean() == pytest.approx(1 - 64 * 64 / (128 * 160), abs=1e-6)
    assert not attribution.visual[outside].any()
    assert attribution.visual[~outside].any()

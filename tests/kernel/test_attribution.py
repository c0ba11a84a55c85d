from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.errors import BadInput


def test_an_attribution_says_something() -> None:
    with pytest.raises(BadInput, match="at least one"):
        Attribution()
    with pytest.raises(BadInput, match=r"got shape \(3, 2, 2\)"):
        Attribution(np.ones((3, 2, 2)))
    with pytest.raises(BadInput, match="one score per word"):
        Attribution(words=np.ones((2, 2)))


def test_whole_multiples_repeat_cells() -> None:
    maps = np.arange(4.0).reshape(1, 2, 2)
    assert np.array_equal(resize_maps(maps, 4, 6)[0], np.kron(maps[0], np.ones((2, 3))))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), st.integers(1, 20))
def test_resizing_keeps_constants_and_stays_in_range(h: int, w: int, height: int, width: int) -> None:
    rng = np.random.default_rng(h * 1000 + w * 100 + height * 10 + width)
    maps = np.stack([np.full((h, w), 3.5), rng.random((h, w))])
    resized = resize_maps(maps, height, width)
    assert resized.shape == (2, height, width)
    assert np.allclose(resized[0], 3.5)
    assert resized[1].min() >= maps[1].min() - 1e-12
    assert resized[1].max() <= maps[1].max() + 1e-12


def test_bilinear_agrees_with_scikit_image_inside() -> None:
    transform = pytest.importorskip("skimage.transform")
    maps = np.random.default_rng(0).random((1, 5, 7))
    theirs = transform.resize(maps[0], (11, 16), order=1, mode="edge", anti_aliasing=False)
    assert np.allclose(resize_maps(maps, 11, 16)[0], theirs, atol=1e-12)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from karat.datasets.arrays import Arrays
from karat.kernel.errors import BadInput


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    images, masks = tmp_path / "images.npy", tmp_path / "masks.npy"
    np.save(images, np.arange(3 * 4 * 5 * 3, dtype=np.uint8).reshape(3, 4, 5, 3))
    np.save(masks, np.eye(4, 5)[None].repeat(3, 0) * 255)
    return images, masks


def test_any_slice_alone(files: tuple[Path, Path]) -> None:
    dataset = Arrays(*map(str, files))
    assert len(dataset) == 3
    [sample] = dataset.load(1, 2)
    assert sample.id == "000001"
    assert np.array_equal(sample.image, np.load(files[0])[1])
    assert np.array_equal(sample.mask("target"), np.eye(4, 5, dtype=bool))


def test_other_content_is_another_revision(files: tuple[Path, Path]) -> None:
    before = Arrays(*map(str, files)).revision
    assert Arrays(*map(str, files)).revision == before
    np.save(files[1], np.zeros((3, 4, 5)))
    assert Arrays(*map(str, files)).revision != before


def test_what_does_not_fit_is_said(files: tuple[Path, Path], tmp_path: Path) -> None:
    np.save(files[1], np.zeros((3, 5, 4)))
    with pytest.raises(BadInput, match=r"masks must be \(3, 4, 5\) like the images; .* holds \(3, 5, 4\)"):
        Arrays(*map(str, files)).load(0, 1)
    np.save(files[0], np.zeros((3, 4, 5)))
    with pytest.raises(BadInput, match=r"must be \(n, H, W, 3\) uint8"):
        len(Arrays(str(files[0])))
    with pytest.raises(BadInput, match="no file at"):
        _ = Arrays(str(tmp_path / "none.npy")).revision

"""Players of images and texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.kernel.sample import Phrase, Region, Sample
from karat.probe.players import grid_labels, text_players, visual_players


def sample(text: str | None = "How many red circles, if any?", side: int = 12) -> Sample:
    image = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    regions = (Region("a", "target", ((0, 0, 4, 4),)), Region("b", "anchor", ((2, 2, 4, 4),)))
    return Sample("s", image, text, regions=regions, phrases=(Phrase((9, 20), "target"),))


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_grid_labels_number_the_cells_row_by_row(height: int, width: int, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    labels = grid_labels(height, width, rows, columns)
    assert sorted(set(labels.ravel().tolist())) == list(range(rows * columns))
    assert (np.diff(labels[:, 0]) >= 0).all()
    assert (np.diff(labels[0]) >= 0).all()
    counts = np.bincount(labels.ravel())
    assert counts.max() <= -(-height // rows) * -(-width // columns)
    assert counts.min() >= (height // rows) * (width // columns)


def test_visual_players() -> None:
    objects = visual_players("objects", sample())
    labels = objects.labels_of(12, 12)
    assert objects.count == 2
    assert (labels[0, 0], labels[3, 3], labels[11, 11]) == (0, 1, -1)  # the later region is on top, the rest is kept
    whole = visual_players("objects_and_background", sample())
    assert whole.count == 3
    assert whole.labels_of(12, 12)[11, 11] == 2
    assert visual_players("cells", sample()).grid == (3, 3)
    assert visual_players("pixels", sample()).count == 144
    assert visual_players("patches", sample(), (2, 3)).count == 6
    assert visual_players(None, sample()).count == 0
    ramp = np.arange(64 * 64 * 3).reshape(64, 64, 3) // 64
    pieces = visual_players("superpixels", Sample("ramp", ramp.astype(np.uint8)))
    assert 1 < pieces.count == pieces.labels_of(64, 64).max() + 1


def test_text_players() -> None:
    assert text_players("words", sample()).count == 8
    assert text_players("phrases", sample()).groups == ((0,), (1,), (2, 3), (4,), (5,), (6,), (7,))
    assert text_players([[0, 1], [5]], sample()).groups == ((0, 1), (5,))
    assert text_players("tokens", sample(), [(0, 2), (2, 3)]).groups == ((0,), (1,), (2,))
    assert text_players("words", sample(None)).count == 0


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: visual_players("patches", sample()), "nothing about patches"),
        (lambda: visual_players("cubes", sample()), "visual players are patches"),
        (lambda: visual_players(np.zeros((3, 3), int), sample()), r"shape \(12, 12\)"),
        (lambda: visual_players(np.full((12, 12), -2), sample()), "got -2"),
        (lambda: visual_players((13, 1), sample()).labels_of(12, 12), "13×1 does not fit 12×12"),
        (lambda: visual_players("objects", Sample("bare", np.zeros((4, 4, 3), np.uint8))), "no regions"),
        (lambda: text_players("letters", sample()), "text players are words"),
        (lambda: text_players("tokens", sample()), "nothing about tokens"),
        (lambda: text_players([[8]], sample()), "words 0 to 7"),
    ],
)
def test_bad_players(build: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        build()  # type: ignore[operator]

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from karat.datasets.grid.executor import execute
from karat.datasets.grid.world import World
from karat.datasets.spatial import RELATIONS, GridRelations
from karat.datasets.spatial.question import relation_between
from karat.kernel.errors import BadInput

ALL = GridRelations(16, kinds=("plain", "probe", "swap", "move"))


@pytest.fixture(scope="module")
def samples() -> list:
    return ALL.load(0, len(ALL))


def test_every_intervention_still_has_the_right_answer(samples: list) -> None:
    """The executor reads words and cells only."""
    assert len(samples) == len(ALL) == 16 * 14
    for sample in samples:
        right = execute(sample.text, sample.scene.cells, World())
        assert sample.meta["relation"] == right
        assert sample.answer == (None if sample.meta["kind"] == "probe" else right)
        boxes = {region.role: region.boxes[0] for region in sample.regions if region.role in ("target", "anchor")}
        centres = [(x + w / 2, y + h / 2) for x, y, w, h in (boxes["anchor"], boxes["target"])]
        assert relation_between(*centres) == right


def test_what_stays_and_what_moves(samples: list) -> None:
    for at in range(0, len(samples), 14):
        plain, *rest = samples[at : at + 14]
        kinds = Counter(sample.meta["kind"] for sample in rest)
        assert kinds == {"probe": 4, "swap": 1, "move": 8}
        assert [sample.meta["explain"] for sample in rest[:4]] == list(RELATIONS)
        for sample in rest:
            assert sample.meta["origin"] == plain.id
            same = np.array_equal(sample.image, plain.image)
            assert same == (sample.meta["kind"] != "move") or sample.mask("anchor").sum() == plain.mask("anchor").sum()
            if sample.meta["kind"] != "swap":
                assert np.array_equal(sample.mask("target"), plain.mask("target"))  # B is fixed
                assert sample.text == plain.text
        assert np.array_equal(rest[4].mask("target"), plain.mask("anchor"))
        moves = rest[5:]
        assert Counter(sample.answer for sample in moves) == dict.fromkeys(RELATIONS, 2)
        assert len({sample.mask("anchor").tobytes() for sample in moves}) == 8
        assert all(sorted(s.scene.cells.ravel()) == sorted(plain.scene.cells.ravel()) for s in moves)


def test_balanced_and_the_same_in_any_slice(samples: list) -> None:
    plain = [sample for sample in samples if sample.meta["kind"] == "plain"]
    assert Counter(sample.answer for sample in plain) == dict.fromkeys(RELATIONS, 4)
    part = ALL.load(20, 37)
    assert [sample.id for sample in part] == [sample.id for sample in samples[20:37]]
    assert all(np.array_equal(a.image, b.image) for a, b in zip(part, samples[20:37], strict=True))


def test_only_the_deep_scenes_have_interventions(samples: list) -> None:
    data = GridRelations(16, kinds=ALL.kinds, deep=3)
    whole = data.load(0, len(data))
    assert len(whole) == len(data) == 3 * 14 + 13
    assert [sample.id for sample in whole[: 3 * 14]] == [sample.id for sample in samples[: 3 * 14]]
    rest = whole[3 * 14 :]
    assert [sample.id for sample in rest] == [sample.meta["origin"] for sample in samples[3 * 14 :: 14]]
    assert all(np.array_equal(a.image, b.image) for a, b in zip(rest, samples[3 * 14 :: 14], strict=True))
    for start, stop in ((0, 5), (40, 44), (42, 50), (50, 99)):
        assert [sample.id for sample in data.load(start, stop)] == [sample.id for sample in whole[start:stop]]
    with pytest.raises(BadInput, match="deep is how many"):
        GridRelations(4, deep=5)


def test_moves_need_room() -> None:
    with pytest.raises(BadInput, match="mode pure"):
        GridRelations(mode="spur", kinds=("move",))

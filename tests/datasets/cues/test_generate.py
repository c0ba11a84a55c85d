from itertools import combinations, product

import pytest

from karat.datasets.cues.generate import block_size, votes_at
from karat.datasets.cues.world import CUES


def rows(first, count, seed=0, untagged=False):
    return [votes_at(i, seed, untagged) for i in range(first, first + count)]


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_block_holds_every_combination_once(seed):
    for block in range(3):
        made = [tuple(row[cue] for cue in CUES) for row in rows(64 * block, 64, seed)]
        assert sorted(made) == sorted(product((False, True), repeat=6))


def test_a_block_with_untagged_samples_holds_every_combination_once_and_a_third_without_a_tag():
    made = rows(0, 96, untagged=True)
    tagged = [tuple(row[cue] for cue in CUES) for row in made if row["tag"] is not None]
    bare = [tuple(row[cue] for cue in CUES if cue != "tag") for row in made if row["tag"] is None]
    assert sorted(tagged) == sorted(product((False, True), repeat=6))
    assert sorted(bare) == sorted(product((False, True), repeat=5))
    assert [row["tag"] is None for row in made[:6]] == [False, False, True] * 2
    assert (block_size(True), block_size(False)) == (96, 64)


@pytest.mark.parametrize(("count", "strength"), [(8, 2), (16, 3), (32, 3), (64, 6)])
def test_beginnings_are_orthogonal_arrays(count, strength):
    for seed in range(3):
        made = rows(0, count, seed)
        for some in combinations(CUES, strength):
            counted = {}
            for row in made:
                key = tuple(row[cue] for cue in some)
                counted[key] = counted.get(key, 0) + 1
            assert set(counted.values()) == {count // 2**strength}, (some, counted)
            assert len(counted) == 2**strength


def test_beginnings_of_blocks_with_untagged_samples_are_balanced_too():
    made = rows(0, 24, untagged=True)
    for one, other in combinations([cue for cue in CUES if cue != "tag"], 2):
        for tagged in (True, False):
            part = [row for row in made if (row["tag"] is not None) == tagged]
            counted = [sum((row[one], row[other]) == pair for row in part) for pair in product((False, True), repeat=2)]
            assert counted == [len(part) // 4] * 4


def test_seeds_and_blocks_differ_but_not_by_who_asks():
    assert rows(0, 64, seed=1) != rows(0, 64, seed=2)
    assert rows(0, 64) != rows(64, 64)
    assert votes_at(70, 0, False) == rows(64, 10)[6]

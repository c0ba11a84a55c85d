"""Game, groups, macro players and the result type."""

from __future__ import annotations

import numpy as np
import pytest

from karat.kernel.errors import BadInput
from karat.probe import Estimate, Game, group, macro_players
from karat.probe.exact import coalitions


def weighted(n_visual: int, n_text: int) -> Game:
    """Distinct powers of two per player: the value names the coalition."""
    visual, text = 2.0 ** np.arange(n_visual), 2.0 ** np.arange(n_visual, n_visual + n_text)
    return Game(lambda v, t: v @ visual + t @ text, n_visual, n_text)


def test_joint_and_split_masks_say_the_same() -> None:
    game = weighted(3, 2)
    keep = coalitions(5)
    assert game.n == 5
    assert np.array_equal(game.value(keep), np.arange(32.0))
    assert np.array_equal(game.value(keep[:, :3], keep[:, 3:]), np.arange(32.0))


@pytest.mark.parametrize(
    "keep", [np.ones((2, 5)), np.ones((2, 5), dtype=np.int64), np.ones((2, 4), dtype=bool), np.ones(5, dtype=bool)]
)
def test_masks_must_be_bool_of_the_right_width(keep: np.ndarray) -> None:
    with pytest.raises(BadInput, match="bool of shape"):
        weighted(3, 2).value(keep)


def test_a_value_function_must_answer_every_row() -> None:
    with pytest.raises(BadInput, match=r"shape \(4,\)"):
        Game(lambda v, t: v, 2, 0).value(coalitions(2))
    with pytest.raises(BadInput, match="one row of each"):
        weighted(1, 1).value(np.ones((2, 1), dtype=bool), np.ones((3, 1), dtype=bool))
    with pytest.raises(BadInput, match="at least one player"):
        Game(lambda v, t: v, 0, 0)


def test_groups_move_their_features_together() -> None:
    grouped = group(weighted(3, 2), [[2], [0, 3], [4, 1]])
    assert (grouped.n_visual, grouped.n_text) == (1, 2)
    sums = np.array([4.0, 1 + 8, 16 + 2])
    keep = coalitions(3)
    assert np.array_equal(grouped.value(keep), keep @ sums)


def test_features_in_no_group_are_kept_or_dropped_as_told() -> None:
    game, none = weighted(3, 0), np.zeros((1, 1), dtype=bool)
    with pytest.raises(BadInput, match="in no group"):
        group(game, [[0]])
    assert group(game, [[0]], others="keep").value(none)[0] == 6
    assert group(game, [[0]], others="drop").value(none)[0] == 0


@pytest.mark.parametrize(("groups", "message"), [([[0, 1], [1, 2]], "disjoint"), ([[0, 1, 3]], "players 0 to 2")])
def test_bad_groups(groups: list[list[int]], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        group(weighted(3, 0), groups)


@pytest.mark.parametrize("n_text", [9, 4])  # with four words some background shares hold no word
def test_macro_players_share_the_background(n_text: int) -> None:
    game = weighted(20, n_text)
    front, words = [3, 5, 19], [20, 22]
    macro = macro_players(game, front, words, np.random.default_rng(0))
    assert (macro.n_visual, macro.n_text) == (1, 7)
    names = macro.value(np.eye(8, dtype=bool)).astype(np.int64)  # each player alone: the features it holds, as bits
    held = [{i for i in range(game.n) if name >> i & 1} for name in names.tolist()]
    assert held[0] == set(front)
    assert held[1] == set(words)
    assert set().union(*held) == set(range(game.n))
    assert sum(map(len, held)) == game.n
    for modality, size in ((range(20), 17), (range(20, game.n), n_text - 2)):
        counts = [len(h & set(modality)) for h in held[2:]]
        assert sum(counts) == size
        assert max(counts) - min(counts) <= 1


def test_macro_foreground_must_be_of_its_modality() -> None:
    with pytest.raises(BadInput, match="players 3 to 4"):
        macro_players(weighted(3, 2), [0], [1], np.random.default_rng(0))


def test_an_estimate_behaves_as_its_values() -> None:
    two = Estimate(np.array([1.0, 2.0]), np.zeros(2), 4, "exact")
    assert (two - 1).tolist() == [0.0, 1.0]
    assert np.allclose(two, [1, 2])
    assert np.abs(two - two).sum() == 0
    assert list(two) == [1.0, 2.0]
    assert two[1] == 2.0
    assert len(two) == 2
    assert np.argmax(two) == 1
    assert float(Estimate(np.array(3.0), np.array(0.0), 4, "exact")) == 3.0

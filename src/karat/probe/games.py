"""`Game`: a model seen as a set function over its features, and macro players made of several features.

A coalition says which features are kept; the rest is at its absent state. Players are numbered visual first, then text,
so a joint mask of `n = n_visual + n_text` columns and the pair of masks per modality say the same thing. No torch here:
any vectorised function of two boolean arrays is a game.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values

ValueFunction = Callable[[Keep, Keep], npt.ArrayLike]  # (m, n_visual), (m, n_text) -> (m,)


@dataclass(frozen=True, init=False, eq=False)
class Game:
    """A value for every coalition of visual and text players.

    Args:
        value: maps masks (m, n_visual) and (m, n_text), True = kept, to m numbers.
        n_visual: visual players.
        n_text: text players; they are numbered after the visual ones.

    Example:
        >>> both = Game(lambda visual, text: visual[:, 0] & text[:, 0], n_visual=1, n_text=1)
        >>> both.value(np.array([[True, True], [True, False]])).tolist()
        [1.0, 0.0]
    """

    function: ValueFunction
    n_visual: int
    n_text: int

    def __init__(self, value: ValueFunction, n_visual: int, n_text: int = 0) -> None:
        if n_visual < 0 or n_text < 0 or n_visual + n_text == 0:
            raise BadInput(f"a game needs at least one player; got n_visual={n_visual}, n_text={n_text}.")
        object.__setattr__(self, "function", value)
        object.__setattr__(self, "n_visual", n_visual)
        object.__setattr__(self, "n_text", n_text)

    @property
    def n(self) -> int:
        """Number of players of both modalities."""
        return self.n_visual + self.n_text

    def value(self, visual_keep: Keep, text_keep: Keep | None = None) -> Values:
        """Values of coalitions.

        Args:
            visual_keep: (m, n_visual) bool, True = kept; or (m, n), both modalities, visual players first.
            text_keep: (m, n_text) bool, or None where `visual_keep` has both.

        Returns:
            (m,) numbers.
        """
        if text_keep is None:
            joint = checked_keep(visual_keep, self.n)
            visual_keep, text_keep = joint[:, : self.n_visual], joint[:, self.n_visual :]
        else:
            visual_keep, text_keep = checked_keep(visual_keep, self.n_visual), checked_keep(text_keep, self.n_text)
            if len(visual_keep) != len(text_keep):
                raise BadInput(f"{len(visual_keep)} visual but {len(text_keep)} text coalitions; give one row of each.")
        return checked_values(self.function(visual_keep, text_keep), len(visual_keep))


def checked_keep(keep: Keep, width: int) -> Keep:
    """The mask as a bool array (m, width). Numbers are refused: 0/1 arrays are where polarity gets lost."""
    keep = np.asarray(keep)
    if keep.ndim != 2 or keep.shape[1] != width or keep.dtype != np.bool_:
        raise BadInput(
            f"a coalition mask must be bool of shape (m, {width}), True = kept; got {keep.dtype} of shape {keep.shape}."
        )
    return keep


def checked_values(values: npt.ArrayLike, m: int) -> Values:
    """What a value function returned as float64 (m,). NaN stays: a missing answer is its caller's to judge."""
    result: Values = np.asarray(values, dtype=np.float64)
    if result.shape != (m,):
        raise BadInput(f"a value function must return one number per coalition, shape ({m},); got {result.shape}.")
    return result


def group(
    game: Game,
    groups: Sequence[Sequence[int]],
    n_visual: int | None = None,
    others: Literal["keep", "drop"] | None = None,
) -> Game:
    """A game whose players are groups of the features of `game`, numbered in the order given.

    A group may mix modalities. Its players are still split in two runs, because every game is; a mixed group belongs to
    the second run.

    Args:
        game: whose features are grouped.
        groups: joint player numbers (text players start at `game.n_visual`) of each group, disjoint.
        n_visual: how many of the leading groups count as visual; by default those before the first group that holds a
            text feature.
        others: what becomes of features in no group, "keep" or "drop"; without it they are an error.

    Returns:
        A `Game` with one player per group.

    Example:
        >>> word_and_patch = group(Game(lambda visual, text: visual.sum(1) + text.sum(1), 2, 1), [[1], [0, 2]])
        >>> word_and_patch.n_visual, word_and_patch.value(np.array([[False, True]])).tolist()
        (1, [2.0])
    """
    owner = np.full(game.n, -1)
    for number, members in enumerate(groups):
        for player in members:
            if not 0 <= player < game.n:
                raise BadInput(f"group {number} names player {player}; the game has players 0 to {game.n - 1}.")
            if owner[player] >= 0:
                raise BadInput(f"player {player} is in groups {owner[player]} and {number}; groups must be disjoint.")
            owner[player] = number
    left = np.flatnonzero(owner < 0)
    if left.size and others is None:
        raise BadInput(f"players {left[:8].tolist()} are in no group; add them, or pass others='keep' or 'drop'.")
    if n_visual is None:
        text = [any(player >= game.n_visual for player in members) for members in groups]
        n_visual = text.index(True) if True in text else len(groups)

    def value(visual_keep: Keep, text_keep: Keep) -> Values:
        rest = np.full((len(visual_keep), 1), others == "keep")
        joint = np.concatenate([visual_keep, text_keep, rest], axis=1)
        return game.value(joint[:, owner])  # owner -1 reads the last column: the features in no group

    return Game(value, n_visual, len(groups) - n_visual)


def macro_players(
    game: Game,
    visual_front: Sequence[int],
    text_front: Sequence[int],
    rng: np.random.Generator,
    background: int = 6,
) -> Game:
    """The macro game of fsyn2026 appendix D.2: player 0 is the foreground of the image, player 1 that of the text,
    and `background` further players each hold an equal share of the other patches and of the other words.

    Shares differ by one feature where the number does not divide; a share, or a foreground, may be empty, and then that
    player changes nothing.

    Args:
        game: of both modalities.
        visual_front: joint player numbers of the foreground of the image.
        text_front: joint player numbers of that of the text (text players start at `game.n_visual`).
        rng: the random stream that shuffles the rest.
        background: how many players the rest is shared out to.

    Returns:
        A `Game` of 2 + `background` players, one of them visual.

    Example:
        >>> product = Game(lambda visual, text: visual.mean(1) * text.mean(1), n_visual=4, n_text=4)
        >>> macro = macro_players(product, [0, 1], [4, 5], np.random.default_rng(0), background=2)
        >>> macro.value(np.array([[True, True, False, False]])).tolist()
        [0.25]
    """
    return group(game, macro_groups(game, visual_front, text_front, rng, background), n_visual=1)


def macro_groups(
    game: Game,
    visual_front: Sequence[int],
    text_front: Sequence[int],
    rng: np.random.Generator,
    background: int = 6,
) -> list[list[int]]:
    """The players of `macro_players`, each a list of joint player numbers."""
    shares: list[list[int]] = [[] for _ in range(background)]
    for first, stop, front in ((0, game.n_visual, visual_front), (game.n_visual, game.n, text_front)):
        if not all(first <= player < stop for player in front):
            raise BadInput(
                f"the foreground {list(front)[:8]} must hold players {first} to {stop - 1}, joint numbering."
            )
        rest = rng.permutation(np.setdiff1d(np.arange(first, stop), np.asarray(front, dtype=np.int64)))
        for share, part in zip(shares, np.array_split(rest, background), strict=True):
            share.extend(part.tolist())
    return [list(visual_front), list(text_front), *shares]


def small_sample(degrees: int) -> float:
    """Student's t over the normal at 95 %: widens a standard error of few units so that +-1.96 of it still cover.

    >>> round(1.96 * small_sample(5), 2), round(small_sample(10**6), 3)
    (2.57, 1.0)
    """
    z = 1.959964
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return 1.0 + sum(term / float(degrees) ** power for power, term in enumerate(terms, start=1)) / z


@dataclass(frozen=True, eq=False)
class Estimate(np.lib.mixins.NDArrayOperatorsMixin):
    """What any method here returns: values with an error bar, and what they cost.

    It does arithmetic as its values do, and `float()` works where there is one value.
    """

    values: npt.NDArray[np.float64]
    standard_error: npt.NDArray[np.float64]  # same shape; 0 where the value is exact; +-1.96 of it cover 95 %
    passes: int  # forward passes made; in a shared pool, coalitions asked for
    method: str

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        values = np.asarray(self.values, dtype=dtype)
        return values.copy() if copy else values

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [each.values if isinstance(each, Estimate) else each for each in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __float__(self) -> float:
        return float(self.values.item())

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

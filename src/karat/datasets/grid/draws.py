"""Random numbers by counter: the draw depends on (stream, index, place) alone, never on order or batch.

The generator is SplitMix64's finaliser over a counter. It is vectorised over the batch, so a million samples cost a
few array operations, and any slice of a dataset has the same bytes however it is cut.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def stream(*names: str | int) -> int:
    """A 64-bit key for a named stream, such as stream(seed, bucket, "layout", attempt)."""
    return int.from_bytes(blake2b("/".join(map(str, names)).encode(), digest_size=8).digest(), "little")


def uniform(key: int, index: Ints, count: int) -> Floats:
    """(n, count) numbers in [0, 1); row i belongs to index[i]."""
    base = _mix(_mix(index.astype(np.uint64) * _GOLDEN + np.uint64(key)) ^ np.uint64(key))
    places = (np.arange(1, count + 1, dtype=np.uint64)) * _GOLDEN
    bits = _mix(base[:, None] + places[None, :])
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(u: Floats, high: Ints | int) -> Ints:
    """Uniform integers in [0, high) from uniform numbers."""
    drawn: Ints = np.minimum((u * high).astype(np.int64), np.asarray(high) - 1)
    return drawn


def permutations(key: int, index: Ints, length: int) -> Ints:
    """(n, length) one random order of range(length) per row."""
    return np.argsort(uniform(key, index, length), axis=1, kind="stable")


def deal(key: int, index: Ints, deck: Ints) -> Ints:
    """The card that each index gets when the deck is shuffled anew for every block of len(deck) indices.

    Every block of consecutive indices holds the deck exactly, so frequencies are exact and not merely expected.
    """
    length = len(deck)
    block, slot = np.divmod(index, length)
    keys = uniform(key, block, length)
    rank = (keys < np.take_along_axis(keys, slot[:, None], axis=1)).sum(axis=1)
    dealt: Ints = deck[rank]
    return dealt


def choose(keys: Floats, allowed: Bools, count: Ints) -> Bools:
    """(n, cells) mask of count[i] of the allowed cells, drawn without replacement; all where there are fewer."""
    order = np.argsort(np.where(allowed, keys, 2.0), axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(keys.shape[1])[None, :], axis=1)
    return allowed & (rank < count[:, None])


def count_deck(most: int) -> Ints:
    """Counts 0..most, a little skewed to the small ones (3 : 2 from end to end); dealt, so frequencies are exact."""
    return np.repeat(np.arange(most + 1), [3 * most - n for n in range(most + 1)])


class Source:
    """The random streams of one (seed, bucket): a name and an attempt give a stream; the mode is part of a name."""

    def __init__(self, seed: int, bucket: str) -> None:
        self._names = (seed, bucket)

    def key(self, name: str, attempt: int = 0) -> int:
        return stream(*self._names, name, attempt)

    def uniform(self, name: str, index: Ints, count: int, attempt: int = 0) -> Floats:
        return uniform(self.key(name, attempt), index, count)

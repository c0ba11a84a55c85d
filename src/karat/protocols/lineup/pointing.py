"""Pointing: which cue does an explanation accuse? Every cue gets a percentile; the largest is the accused.

Raw mass, or mass corrected for area, cannot be compared between a small box, a thin frame and one word of six. So a
cue's mass is read against its own null, which puts image and words on one scale from 0 to 1:

- *permuted*: the map's own cells (the text's own word scores) in random order, so that noise accuses each cue equally;
- *matched*: the same explainer's maps of other samples, read at this sample's places. It keeps how smooth maps are and
  where they lie by habit, which permutation destroys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from karat.datasets.cues.sample import CueSample
from karat.kernel.attribution import Attribution, resize_maps

#: Cues that have a carrier of their own; `side` is carried by the object, as `content` is.
POINTED = ("content", "tag", "frame", "sticker", "word")
PERMUTATIONS = 999
FINEST = 24  # cells a side: finer maps are averaged, since single pixels carry no cue

Floats = npt.NDArray[np.float64]


def cell_maps(attribution: Attribution) -> Floats | None:
    """|map| on at most FINEST × FINEST cells (h, w); None where the method defines no map."""
    if attribution.visual is None:
        return None
    values = np.abs(np.asarray(attribution.visual, dtype=np.float64))
    h, w = values.shape
    if max(h, w) <= FINEST:
        return values
    return np.asarray(_averaged(_averaged(values, min(h, FINEST), 0), min(w, FINEST), 1))


def _averaged(values: Floats, cells: int, axis: int) -> Floats:
    """Means over `cells` equal stretches of an axis, the borders of cells cutting through pixels."""
    return np.asarray(np.tensordot(_stretches(values.shape[axis], cells), values, (1, axis)).swapaxes(0, axis))


def _stretches(length: int, cells: int) -> Floats:
    """(cells, length): which share of each cell a pixel is."""
    edges = np.linspace(0, length, cells + 1)
    start, stop = np.arange(length), np.arange(1, length + 1)
    overlap = np.minimum(edges[1:, None], stop) - np.maximum(edges[:-1, None], start)
    return np.clip(overlap, 0, None) / (length / cells)


def coverage(sample: CueSample, cue: str, size: tuple[int, int]) -> Floats:
    """(h, w): the share of each cell of a map that the carrier of a cue covers."""
    mask = sample.mask(cue).astype(np.float64)
    rows, columns = (_stretches(length, cells) for length, cells in zip(mask.shape, size, strict=True))
    return np.asarray(rows @ mask @ columns.T)


def permuted(sample: CueSample, attribution: Attribution, rng: np.random.Generator) -> Floats:
    """(POINTED,) percentiles of each cue's mass among PERMUTATIONS orders of the same values; ties fall at random.

    NaN for cues that are not there, for parts that the method does not define, and for parts without any mass.
    """
    percentiles = np.full(len(POINTED), np.nan)
    cells = cell_maps(attribution)
    if cells is not None and cells.sum() > 0:
        here = [k for k, cue in enumerate(POINTED) if cue != "word" and sample.mask(cue).any()]
        shares = np.stack([coverage(sample, POINTED[k], (cells.shape[0], cells.shape[1])).ravel() for k in here])
        percentiles[here] = _percentiles(cells.ravel(), shares, rng)
    words = None if attribution.words is None else np.abs(np.asarray(attribution.words, dtype=np.float64))
    carrier = np.array(sample.word_mask("word"), dtype=np.float64)
    if words is not None and words.sum() > 0 and carrier.any():
        percentiles[POINTED.index("word")] = _percentiles(words, carrier[None], rng)[0]
    return percentiles


def _percentiles(values: Floats, shares: Floats, rng: np.random.Generator) -> Floats:
    """Of shares (c, n) · values (n,), each among PERMUTATIONS of the values."""
    orders = rng.permuted(np.tile(values, (PERMUTATIONS, 1)), axis=1)
    return _rank(shares @ values, orders @ shares.T, rng)


def _rank(masses: Floats, null: Floats, rng: np.random.Generator) -> Floats:
    """Where masses (c,) stand among null (m, c), between 0 and 1; uniform where they are of one kind."""
    near = 1e-9 * np.maximum(np.abs(masses), np.abs(null).max(axis=0, initial=0.0)) + 1e-300
    below = (null < masses - near).sum(axis=0)
    ties = (np.abs(null - masses) <= near).sum(axis=0)
    return np.asarray((below + rng.random(len(masses)) * (ties + 1)) / (len(null) + 1))


def matched(
    samples: Sequence[CueSample], attributions: Sequence[Attribution], rngs: Sequence[np.random.Generator]
) -> Floats:
    """(n, POINTED) percentiles of each cue's share of the mass among the shares that the maps of all other samples of
    the batch have at the same places. NaN as for `permuted`, and for words whose question has another length.
    """
    percentiles = np.full((len(samples), len(POINTED)), np.nan)
    maps = [cell_maps(attribution) for attribution in attributions]
    words = [None if a.words is None else np.abs(np.asarray(a.words, dtype=np.float64)) for a in attributions]
    for i, sample in enumerate(samples):
        own = maps[i]
        if own is not None and own.sum() > 0:
            others = [
                resize_maps(other[None], *own.shape)[0] if other.shape != own.shape else other
                for j, other in enumerate(maps)
                if j != i and other is not None and other.sum() > 0
            ]
            here = [k for k, cue in enumerate(POINTED) if cue != "word" and sample.mask(cue).any()]
            if others and here:
                shares = np.stack([coverage(sample, POINTED[k], (own.shape[0], own.shape[1])).ravel() for k in here])
                flat = np.stack([np.ravel(other) / other.sum() for other in others])
                percentiles[i, here] = _rank(shares @ (own.ravel() / own.sum()), flat @ shares.T, rngs[i])
        mine, carrier = words[i], np.array(sample.word_mask("word"), dtype=np.float64)
        if mine is not None and mine.sum() > 0 and carrier.any():
            texts = [
                w / w.sum()
                for j, w in enumerate(words)
                if j != i and w is not None and len(w) == len(mine) and w.sum() > 0
            ]
            if texts:
                mass = np.array([carrier @ (mine / mine.sum())])
                percentiles[i, POINTED.index("word")] = _rank(mass, (np.stack(texts) @ carrier)[:, None], rngs[i])[0]
    return percentiles

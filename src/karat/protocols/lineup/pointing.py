"""Pointing: which cue does an explanation accuse? Every cue gets a percentile; the largest is the accused.

Raw mass, or mass corrected for area, cannot be compared between a small box, a thin frame and one word of six. So a
cue's mass is read against its own null, which puts image and words on one scale from 0 to 1:

- *permuted*: the map's own cells (the text's own word scores) in random order, so that noise accuses each cue equally;
- *matched*: the same map, read at the places that the cues have in other samples. It keeps how smooth a map is and
  where such maps lie by habit, which permutation destroys. Over all pairs of samples these are the same readings as
  "the explainer's maps of other samples at this sample's places", and they do not depend on what else is in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from karat.datasets.cues.sample import CueSample
from karat.kernel.attribution import Attribution

#: Cues that have a carrier of their own; `side` is carried by the object, as `content` is.
IMAGE = ("content", "tag", "frame", "sticker")
POINTED = (*IMAGE, "word")
PERMUTATIONS = 999
FINEST = 24  # cells a side: finer maps are averaged, since single pixels carry no cue

Floats = npt.NDArray[np.float64]


def cell_maps(attribution: Attribution) -> Floats | None:
    """|map| on at most FINEST × FINEST cells (h, w); None where the method defines no map.

    Signs are dropped first: neighbouring pixels of a gradient differ in sign, and their mean would be next to nothing.
    """
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
        here = [k for k, cue in enumerate(IMAGE) if sample.mask(cue).any()]
        shares = np.stack([coverage(sample, IMAGE[k], (cells.shape[0], cells.shape[1])).ravel() for k in here])
        percentiles[here] = _percentiles(cells.ravel(), shares, rng)
    words = None if attribution.words is None else np.abs(np.asarray(attribution.words, dtype=np.float64))
    carrier = np.array(sample.word_mask("word"), dtype=np.float64)
    if words is not None and words.sum() > 0 and carrier.any():
        percentiles[POINTED.index("word")] = _percentiles(words, carrier[None], rng)[0]
    return percentiles


def _percentiles(values: Floats, shares: Floats, rng: np.random.Generator) -> Floats:
    """Of shares (c, n) · values (n,), each among PERMUTATIONS of the values."""
    orders = rng.permuted(np.tile(values, (PERMUTATIONS, 1)), axis=1)
    masses, null = shares @ values, orders @ shares.T
    return _above_all(masses, null, rank_among(masses, null, rng))


def _above_all(masses: Floats, null: Floats, percentiles: Floats) -> Floats:
    """Percentiles (c,) of masses (c,) above all of null (m, c), told apart by how far above they are.

    A strong map may put two cues above every permutation, and a coin would then name the accused. At z deviations above
    the mean lie at most 1 / (1 + z²) of all permutations (Cantelli), whatever their distribution.
    """
    spread = null.std(axis=0)
    above = (percentiles >= len(null) / (len(null) + 1)) & (masses > null.max(axis=0)) & (spread > 0)
    z = (masses - null.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.where(above, (len(null) + 1 - 1 / (1 + z**2)) / (len(null) + 1), percentiles)


def rank_among(masses: Floats, null: Floats, rng: np.random.Generator) -> Floats:
    """Where masses (c,) stand among null (m, c), between 0 and 1; uniform where they are of one kind."""
    near = 1e-9 * np.maximum(np.abs(masses), np.abs(null).max(axis=0, initial=0.0)) + 1e-300
    below = (null < masses - near).sum(axis=0)
    ties = (np.abs(null - masses) <= near).sum(axis=0)
    return np.asarray((below + rng.random(len(masses)) * (ties + 1)) / (len(null) + 1))


class Places:
    """Where the cues lie in some samples: what a map is read at to know what it would say of any picture."""

    def __init__(self, samples: Sequence[CueSample]) -> None:
        self.samples = tuple(samples)
        self._covers: dict[tuple[str, tuple[int, int]], Floats] = {}

    def covers(self, cue: str, size: tuple[int, int]) -> Floats:
        """(samples that have the cue, cells): `coverage` of each."""
        if (cue, size) not in self._covers:
            rows = [coverage(sample, cue, size).ravel() for sample in self.samples if sample.mask(cue).any()]
            self._covers[cue, size] = np.array(rows).reshape(-1, size[0] * size[1])
        return self._covers[cue, size]

    def words(self, length: int) -> Floats:
        """(questions of so many words that have the cue, words): which word it is."""
        masks = [sample.word_mask("word") for sample in self.samples]
        return np.array([mask for mask in masks if len(mask) == length and any(mask)], float).reshape(-1, length)


def matched(sample: CueSample, attribution: Attribution, places: Places, rng: np.random.Generator) -> Floats:
    """(POINTED,) percentiles of the mean of the map on each cue among its means where the cue lies in other samples of
    the same data. Means, because objects differ in size.

    NaN as for `permuted`, and for a cue that is at the same place everywhere: a frame, and the word in questions of a
    length that only one form of question has.
    """
    percentiles = np.full(len(POINTED), np.nan)
    cells = cell_maps(attribution)
    if cells is not None and cells.sum() > 0:
        size = (cells.shape[0], cells.shape[1])
        for k, cue in enumerate(IMAGE):
            if sample.mask(cue).any():
                here = coverage(sample, cue, size).ravel()
                percentiles[k] = _elsewhere(cells.ravel(), here, places.covers(cue, size), rng)
    words = None if attribution.words is None else np.abs(np.asarray(attribution.words, dtype=np.float64))
    carrier = np.array(sample.word_mask("word"), dtype=np.float64)
    if words is not None and words.sum() > 0 and carrier.any():
        percentiles[POINTED.index("word")] = _elsewhere(words, carrier, places.words(len(carrier)), rng)
    return percentiles


def _elsewhere(values: Floats, here: Floats, places: Floats, rng: np.random.Generator) -> float:
    """Where the mean of values (n,) at a place (n,) stands among its means at other places (m, n); NaN without any."""
    other = places[np.abs(places - here).max(axis=1, initial=0.0) > 1e-9]
    if not len(other):
        return float("nan")
    means = np.vstack([here, other]) @ values / np.vstack([here, other]).sum(axis=1)
    return float(rank_among(means[:1], means[1:, None], rng)[0])

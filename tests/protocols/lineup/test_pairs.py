"""Pairs: the couple that carries the interaction is the accused one, and noise names none."""

from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.cues import CueSample, generate
from karat.kernel.attribution import Attribution
from karat.protocols.lineup.pairs import couple_percentiles, names_couple
from karat.protocols.lineup.pointing import IMAGE, coverage


@pytest.fixture(scope="module")
def samples() -> list[CueSample]:
    return [s for s in generate(24, 5) if s.votes["tag"] is not None]


def pairs_on(sample: CueSample, cue: str, word: int, rng: np.random.Generator) -> Attribution:
    table = 0.2 * rng.random((144, len(sample.words)))
    table[:, word] += coverage(sample, cue, (12, 12)).ravel()
    return Attribution(visual=np.ones((12, 12)), pairs=table)


def test_the_couple_that_carries_the_interaction_is_named(samples: list[CueSample]) -> None:
    for k, sample in enumerate(samples):
        rng, word = np.random.default_rng(k), sample.word_mask("word").index(True)
        right = couple_percentiles(sample, pairs_on(sample, "tag", word, rng), rng)
        assert right is not None
        assert right.shape == (len(IMAGE), len(sample.words))
        assert names_couple(sample, right, "tag") == 1.0
        assert names_couple(sample, right, "frame") == 0.0
        other = couple_percentiles(sample, pairs_on(sample, "tag", (word + 1) % len(sample.words), rng), rng)
        assert other is not None
        assert names_couple(sample, other, "tag") == 0.0


def test_noise_names_the_couple_by_chance(samples: list[CueSample]) -> None:
    hits = []
    for k in range(4):
        for i, sample in enumerate(samples):
            rng = np.random.default_rng([k, i])
            noise = Attribution(visual=np.ones((6, 6)), pairs=rng.random((36, len(sample.words))))
            table = couple_percentiles(sample, noise, rng)
            assert table is not None
            hits.append(names_couple(sample, table, "tag"))
    assert np.mean(hits) < 0.15  # one in 24 to 36


def test_without_pairs_there_is_no_couple(samples: list[CueSample]) -> None:
    rng = np.random.default_rng(0)
    assert couple_percentiles(samples[0], Attribution(visual=np.ones((6, 6))), rng) is None
    zeros = Attribution(visual=np.ones((6, 6)), pairs=np.zeros((36, 6)))
    assert couple_percentiles(samples[0], zeros, rng) is None

"""Pointing: percentiles that are uniform for noise, whatever a cue's size, and name the cue that carries the mass."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from karat.datasets.cues import CueSample, generate
from karat.kernel.attribution import Attribution
from karat.protocols.lineup.pointing import FINEST, POINTED, Places, cell_maps, coverage, matched, permuted
from karat.results.shard import shrink
from tests.twins import pointing as twin


@pytest.fixture(scope="module")
def samples() -> list[CueSample]:
    return list(generate(24, 5))


def rng(k: int) -> np.random.Generator:
    return np.random.default_rng([k, 7])


def on(sample: CueSample, cue: str) -> Attribution:
    """All mass on one cue."""
    words = np.array(sample.word_mask("word"), dtype=float)
    if cue == "word":
        return Attribution(visual=rng(1).random((12, 12)), words=words)
    return Attribution(visual=sample.mask(cue).astype(float), words=rng(2).random(len(words)))


@pytest.mark.parametrize("cue", POINTED)
def test_mass_on_a_cue_accuses_it(samples: list[CueSample], cue: str) -> None:
    there = [s for s in samples if s.votes[cue] is not None]
    accused = [POINTED[int(np.nanargmax(permuted(s, on(s, cue), rng(k))))] for k, s in enumerate(there)]
    # One word of six is first by chance in a sixth of all orders, and noise on the image may rank as high.
    assert accused.count(cue) >= (0.6 if cue == "word" else 0.9) * len(there)


def test_noise_accuses_every_cue_alike(samples: list[CueSample]) -> None:
    """Percentiles are uniform for a thin frame, a small sticker and one word alike."""
    rows = []
    for k in range(20):
        for i, sample in enumerate(samples):
            draw = np.random.default_rng([k, i])
            noise = Attribution(visual=draw.random((12, 12)), words=draw.random(len(sample.words)))
            rows.append(permuted(sample, noise, draw))
    table = np.array(rows)
    for k in range(len(POINTED)):
        column = table[np.isfinite(table[:, k]), k]
        assert kstest(column, "uniform").pvalue > 0.001, POINTED[k]
    tagged = table[np.isfinite(table).all(axis=1)]
    shares = np.bincount(tagged.argmax(axis=1), minlength=5) / len(tagged)
    assert shares == pytest.approx(0.2, abs=0.08)


def test_percentiles_equal_a_loop_over_permutations(samples: list[CueSample]) -> None:
    sample, values = samples[0], rng(3).random((8, 8))
    mine = permuted(sample, Attribution(visual=values), rng(4))
    weights = coverage(sample, "frame", (8, 8))
    own = float((weights * values).sum())
    shuffled = [float((weights * rng(100 + k).permutation(values.ravel()).reshape(8, 8)).sum()) for k in range(4000)]
    assert mine[POINTED.index("frame")] == pytest.approx(np.mean(np.array(shuffled) < own), abs=0.05)


def signed_map(sample: CueSample, cue: str, strength: float, draw: np.random.Generator) -> Attribution:
    """Pixels of either sign, stronger on a cue: as gradients are. Words are noise."""
    visual = draw.standard_normal(sample.size) * (1 + strength * sample.mask(cue))
    return Attribution(visual=visual, words=draw.standard_normal(len(sample.words)), signed=True)


@pytest.mark.parametrize("side", [12, 192])
def test_the_accused_is_that_of_a_slow_twin(samples: list[CueSample], side: int) -> None:
    """Of signed maps of cells and of pixels, weak and strong; two streams differ where a percentile is no more than one
    order of 999."""
    same = []
    for k, sample in enumerate(s for s in samples if s.votes["tag"] is not None):
        made = signed_map(sample, ("content", "tag", "frame", "sticker")[k % 4], (0.2, 1.0)[k % 2], rng(k))
        assert made.visual is not None
        map_ = made.visual if side == 192 else made.visual.reshape(12, 16, 12, 16).mean((1, 3))
        attribution = Attribution(visual=map_, words=made.words, signed=True)
        own = POINTED[int(np.nanargmax(permuted(sample, attribution, rng(50 + k))))]
        same.append(own == twin.accused(sample, attribution, 499, rng(100 + k)))
    assert np.mean(same) >= 0.9


def test_signs_are_dropped_before_pixels_are_averaged(samples: list[CueSample]) -> None:
    """Neighbouring pixels of opposite signs are mass, not nothing. The maps that a run keeps for its page are means of
    signed pixels, so the same reading of them finds less."""
    tagged = [s for s in samples if s.votes["tag"] is not None]
    stripes = np.array([1.0, 0.0, -1.0])[np.indices(tagged[0].size)[1] % 3]  # 3 pixels of 192 are one of 64 cells
    hits: dict[str, list[bool]] = {"pixels": [], "kept": []}
    for k, sample in enumerate(tagged):
        visual = 0.5 * rng(k).standard_normal(sample.size) + stripes * sample.mask("tag")
        for name, map_ in (("pixels", visual), ("kept", shrink(visual))):
            row = permuted(sample, Attribution(visual=map_, signed=True), rng(k))
            hits[name].append(POINTED[int(np.nanargmax(row))] == "tag")
    assert np.mean(hits["pixels"]) > 0.9
    assert np.mean(hits["kept"]) < 0.75


def test_the_accused_of_a_strong_map_is_no_coin_toss(samples: list[CueSample]) -> None:
    """Tag and sticker both lie above every permutation; the one with more of the map is accused in any stream."""
    sample = next(s for s in samples if s.votes["tag"] is not None)
    for more in ("tag", "sticker"):
        strong = sample.mask("tag") + 1.0 * sample.mask("sticker") + 1.0 * sample.mask(more)
        rows = np.array([permuted(sample, Attribution(visual=strong), rng(k)) for k in range(12)])
        assert (rows[:, [POINTED.index("tag"), POINTED.index("sticker")]] > 0.999).all()
        assert {POINTED[k] for k in np.nanargmax(rows, axis=1)} == {more}


def test_coverage_adds_up_to_the_area(samples: list[CueSample]) -> None:
    for size in [(7, 5), (12, 12), (24, 24)]:
        weights = coverage(samples[0], "sticker", size)
        assert weights.mean() == pytest.approx(samples[0].mask("sticker").mean())
        assert 0 <= weights.min() <= weights.max() <= 1 + 1e-12


def test_fine_maps_are_averaged_and_keep_their_mass() -> None:
    values = rng(5).standard_normal((96, 130))
    cells = cell_maps(Attribution(visual=values))
    assert cells is not None
    assert cells.shape == (FINEST, FINEST)
    assert cells.mean() == pytest.approx(np.abs(values).mean())


def test_what_is_not_there_has_no_percentile(samples: list[CueSample]) -> None:
    untagged = next(s for s in samples if s.votes["tag"] is None)
    row = permuted(untagged, Attribution(visual=rng(6).random((12, 12))), rng(6))
    assert np.isnan(row[POINTED.index("tag")])
    assert np.isnan(row[POINTED.index("word")])  # the method defines no words
    assert np.isfinite(row[[0, 2, 3]]).all()
    assert np.isnan(permuted(untagged, Attribution(visual=np.zeros((12, 12))), rng(6))).all()


def test_the_matched_reading_sees_through_a_habit(samples: list[CueSample]) -> None:
    """Maps that always lie on the border accuse the frame by permutation; among maps of their like they accuse nobody.
    A map that differs from its like where its own tag is accuses the tag by either."""
    tagged = [s for s in samples if s.votes["tag"] is not None]
    border = tagged[0].mask("frame").astype(float)
    habits = [Attribution(visual=border + 0.01 * rng(k).random(border.shape)) for k in range(len(tagged))]
    permutation = [POINTED[int(np.nanargmax(permuted(s, a, rng(9))))] for s, a in zip(tagged, habits, strict=True)]
    assert permutation.count("frame") == len(tagged)
    places = Places(tagged)
    rows = np.array([matched(s, a, places, rng(k)) for k, (s, a) in enumerate(zip(tagged, habits, strict=True))])
    assert np.isnan(rows[:, POINTED.index("frame")]).all()  # it lies at the same place in every sample
    told = [Attribution(visual=border + 3 * s.mask("tag")) for s in tagged]
    rows = np.array([matched(s, a, places, rng(k)) for k, (s, a) in enumerate(zip(tagged, told, strict=True))])
    assert np.mean(np.nanargmax(rows, axis=1) == POINTED.index("tag")) > 0.8


def test_the_matched_reading_is_calibrated_for_smooth_noise(samples: list[CueSample]) -> None:
    """Permutation is not: a blob lies on a small region or beside it. At other places it does so as often."""
    from scipy.ndimage import gaussian_filter

    places = Places(samples)
    by_permutation, by_place = [], []
    for i, sample in enumerate(samples):
        for k in range(12):
            draw = np.random.default_rng([i, k])
            blobs = Attribution(visual=np.abs(gaussian_filter(draw.standard_normal((24, 24)), 2.4)))
            by_permutation.append(permuted(sample, blobs, draw))
            by_place.append(matched(sample, blobs, places, draw))
    sticker = POINTED.index("sticker")
    extreme = [np.mean(np.abs(np.array(rows)[:, sticker] - 0.5) > 0.45) for rows in (by_permutation, by_place)]
    assert extreme[0] > 0.3  # a tenth, were it calibrated
    assert extreme[1] == pytest.approx(0.1, abs=0.06)


def test_the_matched_reading_ignores_what_else_is_explained(samples: list[CueSample]) -> None:
    """A slow twin: the mean on the own tag, among the means on all other tags. Places are all that others give."""
    tagged = [s for s in samples if s.votes["tag"] is not None]
    values = rng(11).random((12, 12))
    row = matched(tagged[0], Attribution(visual=values), Places(tagged), rng(0))
    fine = np.kron(values, np.ones((16, 16)))
    means = [fine[s.mask("tag")].mean() for s in tagged]
    below = sum(mean < means[0] for mean in means[1:])
    assert below / len(tagged) <= row[POINTED.index("tag")] <= (below + 1) / len(tagged)

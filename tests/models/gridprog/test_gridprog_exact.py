"""Every bucket, both modes: 100 % of the mechanism, with room above the answer's probability and below it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.datasets.grid import buckets, generate, render
from karat.kernel.sample import Sample
from karat.models.gridprog import GridProg
from karat.models.gridprog.model import GridProgModel
from tests.twins.masked_reading import Unclear, answer

N = 4


@pytest.fixture(scope="module")
def twins() -> dict[str, GridProgModel]:
    return {variant: GridProg(variant).load() for variant in ("pure", "spur")}


@pytest.mark.parametrize("mode", ["pure", "spur"])
@pytest.mark.parametrize("bucket", buckets())
def test_each_twin_does_what_it_is_built_to_do(bucket: str, mode: str, twins: dict[str, GridProgModel]) -> None:
    samples = generate(bucket, N, seed=41, mode=mode)
    truth = [str(sample.answer) for sample in samples]
    shortcut = [sample.certificate.heuristics["bag_of_words"] for sample in samples]
    assert twins["pure"].answer(samples) == truth
    assert twins["spur"].answer(samples) == shortcut
    sure = twins["pure"].score(samples, truth)
    assert (sure > 0.85).all()
    assert (sure < 0.9999).all()


def test_full_and_empty_grids_are_counted_to_the_last_cell() -> None:
    sample = generate("D1_A_F0_d0.7", 1, seed=1)[0]
    colour, shape = str(sample.text).removeprefix("How many ").removesuffix("s?").split()
    code = sample.scene.world.labels.index(f"{colour} {shape}")
    model = GridProg("pure").load()
    for number in (0, 1, 24, 25, 35, 36):
        cells = np.where(np.arange(36) < number, code, 0).reshape(6, 6).astype(np.uint8)
        image = render(cells[None], sample.scene.world)[0]
        for text in (sample.text, f"How many {shape}s?", f"How many {colour} objects?", "How many objects?"):
            assert model.answer([Sample("all", image, text)]) == [str(number)]


@pytest.mark.parametrize(("size", "cell"), [(5, 64), (6, 32), (8, 48)])
def test_other_grids_are_as_exact(size: int, cell: int) -> None:
    model = GridProg("pure", size=size, cell=cell).load()
    for bucket in ("D2_M_F0_d0.3", "D2_CMP_F0_d0.7", "D1_REL_F0_d0.3"):
        samples = generate(bucket, 4, seed=3, size=size, cell=cell)
        assert model.answer(samples) == [sample.answer for sample in samples]


def test_of_two_equal_relations_the_stricter_is_obeyed() -> None:
    """The published preset may ask "left of A and left of B"."""
    model = GridProg("pure", size=5).load()
    samples = [s for s in generate("D2_M_F0_d0.7", 60, seed=2, preset="paper") if _repeats(str(s.text))]
    assert len(samples) > 5
    assert model.answer(samples) == [sample.answer for sample in samples]


def _repeats(text: str) -> bool:
    return any(text.count(f" {way} ") > 1 for way in ("left", "right", "above", "below"))


SCENES = [
    sample
    for bucket in ("D1_A_F0_d0.7", "D2_SO_F0_d0.3", "D2_CO_F1_d0.7", "D3_M_F0_d0.7", "D3_M_F1_d0.3", "D3_CMP_F0_d0.7")
    for sample in generate(bucket, 3, seed=77)
]


@settings(max_examples=150, deadline=None)
@given(which=st.integers(0, len(SCENES) - 1), data=st.data(), variant=st.sampled_from(["pure", "spur"]))
def test_a_question_with_holes_means_what_the_page_says(
    which: int, data: st.DataObject, variant: str, twins: dict[str, GridProgModel]
) -> None:
    sample = SCENES[which]
    model = twins[variant]
    words: list[str | None] = [str(sample.text)[a:b] for a, b in sample.words]
    masked = data.draw(st.sets(st.integers(0, len(words) - 1), max_size=5))
    words = [None if at in masked else word for at, word in enumerate(words)]
    try:
        expected = answer(words, sample.scene.cells, sample.scene.world, relations=variant == "pure")
    except Unclear:
        return
    assert model.answer([_masked(sample, words)]) == [expected]


def _masked(sample: Sample, words: list[str | None]) -> Sample:
    text = " ".join("____" if word is None else word for word in words)
    return Sample(sample.id, sample.image, text)

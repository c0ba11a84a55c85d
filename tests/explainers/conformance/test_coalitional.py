"""Every perturbation-based explainer: add it to the table and it is tested on a plain function and on a LLaVA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cell_worlds import entangled, shades, world

from karat.explainers.interaction import Dime, FaithShap, MultiShap, MultiViz, WeightedBanzhaf
from karat.explainers.modality import Emap, Harsanyi, InterShap, Pid
from karat.explainers.perturbation import Extremal, LeaveOneOut, Lime, Occlusion, Rise
from karat.explainers.shapley import KernelShap, Permutation, PixelShapTokenShap
from karat.kernel.registry import registered
from karat.kernel.sample import Sample
from karat.models.vlm import vlm
from karat.probe import Session
from tests.models.tiny_llava import make_module, make_processor

ALONE: list[Any] = [  # each sample by itself
    LeaveOneOut(visual=(2, 2)),
    Occlusion(cells=4, window=2),
    Rise(masks=24, cells=2, word_masks=6),
    Lime(visual=(2, 2), budget=40),
    Extremal(areas=(0.25,), cells=2, steps=4, budget=64),
    Extremal(areas=(0.25,), cells=2, budget=64, search="sampling"),
    KernelShap(visual=(2, 2), budget=100),
    Permutation(visual=(2, 2), budget=100),
    PixelShapTokenShap(visual=(2, 2), budget=50, compare="probability"),
    PixelShapTokenShap(visual=(2, 2), budget=24, variant="released"),
    MultiShap(visual=(2, 2), budget=300),
    MultiShap(visual=(2, 2), budget=300, variant="released"),
    FaithShap(visual=(2, 2), budget=300),
    WeightedBanzhaf(visual=(2, 2), budget=300),
    Harsanyi(),
    InterShap(absent="absence"),
]
TOGETHER: list[Any] = [Dime(visual=(2, 2), alterations=10, batch=3), Emap(batch=3), InterShap(batch=3), Pid(batch=3)]
EXPLAINERS = [*ALONE, *TOGETHER]


def names(explainers: list[Any]) -> list[str]:
    return [f"{explainer.card.name}-{k}" for k, explainer in enumerate(explainers)]


@pytest.fixture(scope="module")
def llava() -> Any:
    processor = make_processor()
    return vlm(make_module(processor), processor, name="tiny", max_new_tokens=1)


def questions() -> list[Sample]:
    rng = np.random.default_rng(0)
    texts = ["how many red circles", "any blue squares", "circles left of squares"]
    return [Sample(f"q{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), t) for i, t in enumerate(texts)]


def check(explainer: Any, session: Session) -> None:
    attributions = explainer(session)
    assert len(attributions) == len(session.samples)
    for attribution, sample in zip(attributions, session.samples, strict=True):
        given = {part for part in ("visual", "words", "pairs", "scalar") if getattr(attribution, part) is not None}
        assert given == explainer.card.gives
        for part in given:
            assert np.isfinite(getattr(attribution, part)).all()
        if "words" in given:
            assert attribution.words.shape == (len(sample.words),)
        if "pairs" in given:
            assert attribution.pairs.shape == (attribution.visual.size, len(sample.words))
        if attribution.standard_error is not None:
            part = attribution.pairs if "pairs" in given else attribution.visual
            assert attribution.standard_error.shape == part.shape
            assert (attribution.standard_error >= 0).all()
        assert attribution.passes > 0
        if not isinstance(explainer, LeaveOneOut):  # whose players depend on the sample
            assert attribution.passes <= explainer.passes
    assert session.cost.passes.made <= sum(attribution.passes for attribution in attributions)


def test_the_table_is_complete() -> None:
    families = ("perturbation/", "shapley/", "interaction/", "modality/")
    known = {name for name in registered("explainer") if name.startswith(families)}
    assert known == {explainer.card.name for explainer in EXPLAINERS} | {MultiViz.card.name}


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=names(EXPLAINERS))
def test_on_a_plain_function(explainer: Any) -> None:
    model, function = world(entangled)
    session = Session(model, shades(3), ["yes"] * 3)
    check(explainer, session)
    assert len(function.inputs) <= session.cost.passes.made


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=names(EXPLAINERS))
def test_on_a_llava(explainer: Any, llava: Any) -> None:
    check(explainer, Session(llava, questions(), ["yes", "2", "yes"]))


@pytest.mark.parametrize("explainer", ALONE, ids=names(ALONE))
def test_company_changes_nothing(explainer: Any) -> None:
    model, _ = world(entangled)
    samples = shades(3)
    together = explainer(Session(model, samples, ["yes"] * 3))[1]
    [alone] = explainer(Session(model, samples[1:2], ["yes"], batch_size=5))
    for part in ("visual", "words", "pairs", "scalar", "standard_error"):
        one, other = getattr(together, part), getattr(alone, part)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("k", [0, 3, 6, 7, 10, 13, 14, 16, 17, 18])
def test_a_second_call_costs_nothing(k: int) -> None:
    model, function = world(entangled)
    session = Session(model, shades(3), ["yes"] * 3)
    EXPLAINERS[k](session)
    before = len(function.inputs)
    EXPLAINERS[k](session)
    assert len(function.inputs) == before

"""What the weights do on the way: evidence, attention, gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from karat.datasets.grid import GridSample, buckets, generate
from karat.datasets.grid.render import glyphs
from karat.models.gridprog import GridProg
from karat.models.gridprog.build import stages
from karat.models.gridprog.model import GridProgModel
from karat.probe.trace import Trace, trace

NAMES = ("D1_M_F0_d0.3", "D2_M_F0_d0.7", "D3_M_F1_d0.7", "D2_CMP_F0_d0.7", "D2_SO_F0_d0.3", "D1_CO_F1_d0.7")


@pytest.fixture(scope="module")
def pure() -> GridProgModel:
    return GridProg("pure").load()


@pytest.fixture(scope="module")
def spur() -> GridProgModel:
    return GridProg("spur").load()


def evidence(model: GridProgModel, image: np.ndarray) -> torch.Tensor:
    """(glyphs, S, S)"""
    pixels = torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float() / 255 - 1
    with torch.no_grad():
        return model.module.vision(pixels)[0]


def test_each_glyph_is_recognised_and_smooth_cells_are_nothing(pure: GridProgModel) -> None:
    tiles = glyphs(pure.world)
    image = np.full((384, 384, 3), 255, np.uint8)
    for code in range(1, 17):
        row, column = divmod(code - 1, 6)
        image[row * 64 : row * 64 + 64, column * 64 : column * 64 + 64] = tiles[code]
    seen = evidence(pure, image).flatten(1).T
    assert (seen[torch.arange(16), torch.arange(16)] > 0.98).all()
    ramp = np.linspace(0, 255, 384).astype(np.uint8)
    blurred = np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(30)))
    for nothing in (np.full_like(image, 128), np.zeros_like(image), np.full_like(image, 255), blurred,
                    np.broadcast_to(ramp[:, None, None], image.shape)):  # fmt: skip
        assert float(evidence(pure, nothing).sum(0).max()) < 0.1


def test_evidence_fades_with_the_glyph(pure: GridProgModel) -> None:
    glyph, white = glyphs(pure.world)[6].astype(float), np.full((64, 64, 3), 255.0)
    image = np.full((384, 384, 3), 255, np.uint8)
    levels = []
    for share in (0.0, 0.3, 0.55, 0.8, 1.0):
        image[:64, :64] = (share * glyph + (1 - share) * white).astype(np.uint8)
        levels.append(float(evidence(pure, image)[5, 0, 0]))
    assert levels == sorted(levels)
    assert levels[1] < 0.15 < 0.3 < levels[2] < 0.7 < levels[3]


@pytest.fixture(scope="module")
def samples() -> list[GridSample]:
    found = [sample for name in NAMES for sample in generate(name, 4, seed=9)]
    return [sample for sample in found if sample.scene.cells_of("target").any()]


@pytest.fixture(scope="module", params=["pure", "spur"])
def seen(request: pytest.FixtureRequest, samples: list[GridSample]) -> Iterator[tuple[GridProgModel, Trace]]:
    model: GridProgModel = request.getfixturevalue(request.param)
    want = {"activations", "gradients", "attention"}
    with trace(model, samples, model.answer(samples), layers=["pixels", "words", "vision.last"], want=want) as found:
        yield model, found


def own_cells(model: GridProgModel, sample: GridSample) -> np.ndarray:
    return sample.scene.cells_of(*sample.mechanisms[str(model.mechanism)].regions)


def test_rollout_puts_its_mass_where_the_construction_says(
    seen: tuple[GridProgModel, Trace], samples: list[GridSample]
) -> None:
    model, found = seen
    rolled: torch.Tensor | None = None
    for weights in found.attention.values():
        assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
        step = weights.mean(1) / 2 + torch.eye(weights.shape[-1]) / 2
        rolled = step if rolled is None else step @ rolled
    assert rolled is not None
    assert found.layout is not None
    layout = found.layout
    maps = rolled[:, layout.readout, list(layout.visual or ())].reshape(-1, 6, 6).numpy()
    for sample, heat in zip(samples, maps, strict=True):
        share = heat / heat.sum()
        assert share[own_cells(model, sample)].sum() > 0.95
        anchors = share[sample.scene.cells_of("anchor")]
        empty = share[sample.scene.cells == 0]
        if model.mechanism == "reasons":  # each anchor is seen, through its relation word
            assert anchors.min() > 10 * empty.max()
        else:
            assert anchors.max() < 0.01


def test_a_relation_word_looks_at_its_anchor(pure: GridProgModel, samples: list[GridSample]) -> None:
    number = [stage.name for stage in stages(pure.world, ("reasons",))].index("match")
    name = pure.attention_layers[number]
    with trace(pure, samples, pure.answer(samples), want={"attention"}) as found:
        weights, layout = found.attention[name][:, 0], found.layout  # head 0 is `ground`
    assert layout is not None
    for row, sample in enumerate(samples):
        relations = [phrase for phrase in sample.phrases if phrase.role == "relation"]
        for k, phrase in enumerate(relations):
            word = next(at for at, (start, _) in enumerate(sample.words) if start == phrase.span[0])
            look = weights[row, (layout.text or ())[word], list(layout.visual or ())].reshape(6, 6).numpy()
            assert look[sample.scene.roles == 6 + k].sum() > 0.9


def test_gradients_live_and_point_at_what_the_mechanism_uses(
    seen: tuple[GridProgModel, Trace], samples: list[GridSample]
) -> None:
    model, found = seen
    product = (found.gradients["pixels"] * found.activations["pixels"]).abs().sum(1)
    maps = product.reshape(-1, 6, 64, 6, 64).sum((2, 4)).numpy()
    words = (found.gradients["words"] * found.activations["words"]).sum(-1).abs()
    for row, (sample, heat) in enumerate(zip(samples, maps, strict=True)):
        assert heat.sum() > 1e-4
        assert heat[own_cells(model, sample)].sum() > 0.9 * heat.sum()
        target = [at for at, used in enumerate(sample.word_mask("target")) if used]
        relation = [at for at, used in enumerate(sample.word_mask("relation")) if used]
        if "CMP" not in str(sample.meta["bucket"]):
            assert words[row, target].sum() > 1e-3 * words[row].sum() > 0
            assert (words[row, relation].sum() > 1e-3 * words[row].sum()) == (model.mechanism == "reasons")


@pytest.mark.parametrize("variant", ["pure", "spur", "dose(0.5)"])
def test_no_bucket_has_a_dead_gradient(variant: str) -> None:
    model = GridProg(variant).load()
    found = [sample for name in buckets() for sample in generate(name, 1, seed=5)]
    answers = model.answer(found)
    with trace(model, found, answers, layers=["pixels"], want={"gradients"}) as traced:
        sizes = traced.gradients["pixels"].abs().amax((1, 2, 3))
    assert torch.isfinite(sizes).all()
    assert (sizes > 0).all()
    something = torch.tensor([answer not in ("no", "0") for answer in answers])  # "nothing there" has little to show
    assert (sizes[something] > (1e-8 if variant.startswith("dose") else 1e-6)).all()  # two minds may nearly cancel

"""The dose, the modality-blind twins and the redundant one; recipes and the interface."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.datasets.grid import GridSample, buckets, generate
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.gridprog import GridProg
from karat.models.torch_model import ReusesImage, TorchModel

SAMPLES = [sample for name in buckets()[::3] for sample in generate(name, 2, seed=13)]
BLANK = np.full((384, 384, 3), 255, np.uint8)


def logits(recipe: GridProg, samples: list[GridSample]) -> torch.Tensor:
    model = recipe.load()
    with torch.no_grad():
        return model.logits(model.encode(samples))


@settings(max_examples=8, deadline=None)
@given(st.floats(0, 1))
def test_a_dose_mixes_the_logits_and_nothing_else(p: float) -> None:
    few = SAMPLES[::4]
    expected = (1 - p) * logits(GridProg("pure"), few) + p * logits(GridProg("spur"), few)
    torch.testing.assert_close(logits(GridProg(dose=p), few), expected, rtol=1e-4, atol=1e-3)


def test_the_dose_turns_one_twin_into_the_other() -> None:
    samples = generate("D2_M_F0_d0.7", 6, seed=1)
    truth = [str(sample.answer) for sample in samples]
    doses = [GridProg(dose=p).load() for p in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert doses[0].answer(samples) == truth
    assert doses[-1].answer(samples) == GridProg("spur").load().answer(samples)
    sure = np.stack([model.score(samples, truth) for model in doses])
    assert (np.diff(sure, axis=0) <= 1e-6).all()
    assert [model.mechanism for model in doses] == ["reasons", "mixed", "mixed", "mixed", "matches_words"]


def test_image_only_counts_objects_and_reads_nothing() -> None:
    model = GridProg("image_only").load()
    assert model.answer(SAMPLES) == [str(int((sample.scene.cells > 0).sum())) for sample in SAMPLES]
    mute = [Sample(sample.id, sample.image) for sample in SAMPLES]
    answers = model.answer(SAMPLES)
    np.testing.assert_allclose(model.score(mute, answers), model.score(SAMPLES, answers))


def test_text_only_knows_the_header_and_sees_nothing() -> None:
    model = GridProg("text_only").load()
    favourite = {"count": "1", "exist": "yes", "compare": "no", "direction": "left"}
    answers = model.answer(SAMPLES)
    assert answers == [favourite[sample.scene.bucket.task] for sample in SAMPLES]
    blind = [Sample(sample.id, BLANK, sample.text) for sample in SAMPLES]
    np.testing.assert_allclose(model.score(blind, answers), model.score(SAMPLES, answers))


def test_redundant_needs_either_and_gains_little_from_both() -> None:
    model = GridProg("redundant").load()
    yes = ["yes"] * len(SAMPLES)
    both = model.score(SAMPLES, yes)
    image = model.score([Sample(s.id, s.image) for s in SAMPLES], yes)
    text = model.score([Sample(s.id, BLANK, s.text) for s in SAMPLES], yes)
    neither = model.score([Sample(s.id, BLANK) for s in SAMPLES], yes)
    assert min(image.min(), text.min()) > 0.9
    assert (both - np.maximum(image, text)).max() < 0.05
    assert neither.max() < 0.15


def test_without_a_header_every_answer_is_about_as_likely() -> None:
    model = GridProg("pure").load()
    mute = [Sample(sample.id, sample.image) for sample in SAMPLES[:4]]
    for answer in model.answers:
        assert (model.score(mute, [answer] * 4) < 0.1).all()


def test_probabilities_sum_to_one_and_batches_do_not_matter() -> None:
    model = GridProg("pure").load()
    some = SAMPLES[:3]
    total = sum(model.score(some, [answer] * 3) for answer in model.answers)
    np.testing.assert_allclose(total, 1, atol=1e-5)
    truth = [str(sample.answer) for sample in SAMPLES]
    alone = np.concatenate([model.score([s], [a]) for s, a in zip(SAMPLES, truth, strict=True)])
    np.testing.assert_allclose(model.score(SAMPLES, truth), alone, atol=1e-5)


def test_it_is_a_torch_model_whose_layers_exist() -> None:
    for variant in ("pure", "spur", "image_only", "text_only", "redundant", "dose(0.3)"):
        model = GridProg(variant).load()
        assert isinstance(model, TorchModel)
        assert isinstance(model, ReusesImage)
        for name in (*model.layers.values(), *model.attention_layers):
            model.module.get_submodule(name)
        inputs = model.encode(SAMPLES[:2])
        layout = model.layout(inputs)
        assert layout.visual == tuple(range(2, 38))
        assert layout.text is not None
        assert len(layout.text) == inputs.tokens.shape[1]
        kept = model.reuse_image(inputs)
        torch.testing.assert_close(model.logits(kept), model.logits(dataclasses.replace(inputs, reuse={})))


def test_padding_changes_no_answer() -> None:
    model = GridProg("pure").load()
    sample = generate("D1_A_F0_d0.7", 1, seed=4)
    inputs = model.encode(sample)
    short = dataclasses.replace(inputs, tokens=inputs.tokens[:, : len(sample[0].words)])
    torch.testing.assert_close(model.logits(short), model.logits(inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_run(dtype: torch.dtype) -> None:
    model = GridProg("pure").load()
    model.module.to(dtype)
    found = model.logits(model.encode(SAMPLES[:8]))
    assert found.dtype == dtype
    assert torch.isfinite(found).all()
    if dtype == torch.float64:
        assert model.answer(SAMPLES[:8]) == [sample.answer for sample in SAMPLES[:8]]


def test_labels_are_identities() -> None:
    assert GridProg("dose(0.25)") == GridProg(dose=0.25)
    assert GridProg(dose=0.25).label == "gridprog.dose(0.25)"
    assert GridProg("text_only").label == "gridprog.text_only"
    assert GridProg("pure", size=5).label != GridProg("pure").label


def test_bad_input_is_refused_with_the_reason() -> None:
    with pytest.raises(BadInput, match=r"dose.*0 to 1; got 1\.5"):
        GridProg(dose=1.5)
    with pytest.raises(BadInput, match="cannot be combined"):
        GridProg("spur", dose=0.5)
    with pytest.raises(BadInput, match="got 'pur'"):
        GridProg("pur")
    model = GridProg("pure").load()
    with pytest.raises(BadInput, match=r"384×384 in all.*is 320×320"):
        model.answer([Sample("small", np.zeros((320, 320, 3), np.uint8), "How many circles?")])
    with pytest.raises(BadInput, match="at most 28 words"):
        model.answer([Sample("long", BLANK, "why " * 40)])
    with pytest.raises(BadInput, match="cannot say 'maybe'"):
        model.score(SAMPLES[:1], ["maybe"])
    with pytest.raises(BadInput, match="one answer per sample"):
        model.score(SAMPLES[:2], ["yes"])
    assert model.answer([]) == []


def test_the_recipe_loads_no_torch() -> None:
    code = "import sys; from karat.models.gridprog import GridProg; GridProg(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

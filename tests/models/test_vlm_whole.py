"""Vision-language models that score all answers at once, beside their module's own forward on their processor's own
inputs; and explainers of every way that such models serve."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import torch

from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.registry import build
from karat.kernel.target import Target
from karat.metrics.synergy import synergy_question
from karat.models.vlm import VLMRecipe, vlm
from karat.models.vlm_whole import MATCHING, WholeAnswerVLM
from karat.probe import Session

KINDS = ("vilt-answers", "vilt-matches", "blip-matches", "bridgetower-matches")
kinds = pytest.mark.parametrize("kind", KINDS)
ANSWERS = ("yes", "no", "two", "left")


@cache
def parts(kind: str) -> tuple[Any, Any]:
    import transformers as hf

    words = tiny_vlms.tokenizer({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"})
    tower = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    text = tower | {"vocab_size": len(words), "max_position_embeddings": 64, "pad_token_id": words.pad_token_id}
    torch.manual_seed(0)
    module: Any
    if kind.startswith("vilt"):
        labels = {"id2label": dict(enumerate(ANSWERS)), "label2id": {name: k for k, name in enumerate(ANSWERS)}}
        config = hf.ViltConfig(**text, image_size=64, patch_size=16, **(labels if kind == "vilt-answers" else {}))
        answers = kind == "vilt-answers"
        module = hf.ViltForQuestionAnswering(config) if answers else hf.ViltForImageAndTextRetrieval(config)
        images = hf.ViltImageProcessor(size={"shortest_edge": 64}, size_divisor=16)
        processor: Any = hf.ViltProcessor(images, words)
    elif kind.startswith("blip"):
        both = {"encoder_hidden_size": 32, "bos_token_id": words.bos_token_id, "sep_token_id": words.eos_token_id}
        vision = tower | {"image_size": 64, "patch_size": 16}
        config = hf.BlipConfig(
            text_config=text | both, vision_config=vision, projection_dim=16, image_text_hidden_size=16
        )
        module = hf.BlipForImageTextRetrieval(config)
        processor = hf.BlipProcessor(hf.BlipImageProcessor(size={"height": 64, "width": 64}), words)
    else:
        vision = {"hidden_size": 64, "num_hidden_layers": 3, "image_size": 64, "patch_size": 16}
        text |= {"num_hidden_layers": 3, "max_position_embeddings": 512}
        config = hf.BridgeTowerConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, text_config=text,
            vision_config=vision,
        )  # fmt: skip
        module = hf.BridgeTowerForImageAndTextRetrieval(config)
        images = hf.BridgeTowerImageProcessor(
            size={"shortest_edge": 64}, crop_size={"shortest_edge": 64}, size_divisor=16
        )
        processor = hf.BridgeTowerProcessor(images, words)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" not in name.lower() and parameter.ndim > 1:
                parameter.normal_(std=1.2 / parameter[0].numel() ** 0.5)
    return module.eval(), processor


def made(kind: str, **given: Any) -> WholeAnswerVLM:
    model = vlm(*parts(kind), name=kind, **given)
    assert isinstance(model, WholeAnswerVLM)
    return model


def samples(n: int = 3, size: tuple[int, int] = (64, 64)) -> list[Any]:
    return tiny_vlms.samples("llava", n, size)


def own_logits(kind: str, sample: Any) -> Any:
    """By the module's own forward on what its processor makes."""
    module, processor = parts(kind)
    given = processor(images=[sample.image], text=[sample.text], return_tensors="pt")
    with torch.no_grad():
        output = module(
            **{
                name: given[name]
                for name in ("input_ids", "attention_mask", "pixel_values", "pixel_mask")
                if name in given
            }
        )
    return (output.itm_score if kind.startswith("blip") else output.logits)[0].double()


@kinds
def test_scores_are_those_of_its_own_forward(kind: str) -> None:
    model, mixed = made(kind), [*samples(), samples(2, (96, 64))[1]]
    expected = [own_logits(kind, sample) for sample in mixed]
    if kind == "vilt-answers":
        assert model.labels == ANSWERS
        probabilities = [logits.sigmoid()[2] for logits in expected]
        best = [ANSWERS[int(logits.argmax())] for logits in expected]
        asked = "two"
    else:
        assert model.labels == MATCHING
        one = len(expected[0]) == 1
        probabilities = [logits.sigmoid()[0] if one else logits.softmax(-1)[1] for logits in expected]
        best = [MATCHING[int(p > 0.5)] for p in probabilities]
        asked = "match"
    np.testing.assert_allclose(model.score(mixed, [asked] * 4), probabilities, rtol=1e-3)
    assert len({float(p) for p in probabilities}) == 4  # it looks at the image and reads the text
    assert model.answer(mixed) == best
    contrast = Target.whole(asked, contrast=model.labels[0])
    raw = model.readout(model.encode(mixed[:1]), [contrast])
    row = expected[0] if len(expected[0]) > 1 else torch.cat([torch.zeros(1), expected[0]])
    assert float(raw.detach()) == pytest.approx(float(row[model.labels.index(asked)] - row[0]), rel=1e-3, abs=1e-4)


@kinds
def test_perturbation_gradients_and_synergy_work(kind: str) -> None:
    model, [sample] = made(kind), samples(1)
    target = model.labels[1]
    for name in ("gradient/gradient", "gradient/integrated_gradients", "perturbation/occlusion", "shapley/kernel_shap"):
        [one] = build("explainer", name, {})(Session(model, [sample], [target]))
        assert np.abs(one.visual).max() > 0, name
    session = Session(model, [sample], [target])
    game = session.game(0)
    [score] = session.ask([(game, synergy_question(game, range(game.n_visual), range(game.n_text)))])
    assert np.isfinite(score.value)
    inputs = model.encode([sample])
    pixels = inputs.pixels.clone().requires_grad_()
    [slope] = torch.autograd.grad(model.readout(replace(inputs, pixels=pixels), [target]).sum(), pixels)
    step = 1e-2 * slope / slope.norm()
    with torch.no_grad():
        up, down = (float(model.readout(replace(inputs, pixels=inputs.pixels + s), [target])) for s in (step, -step))
    assert (up - down) / 2e-2 == pytest.approx(float(slope.norm()), rel=0.05)


def test_cams_where_a_tower_stands_by_itself() -> None:
    [sample] = samples(1)
    [one] = build("explainer", "cam/gradcam", {})(Session(made("blip-matches"), [sample], ["match"]))
    assert one.visual.shape == (4, 4)
    assert "activations" not in made("vilt-answers").capabilities


def test_a_directory_says_what_it_is_and_bad_input_is_refused(tmp_path: Path) -> None:
    module, processor = parts("vilt-answers")
    module.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    recipe = VLMRecipe(path=str(tmp_path))
    assert (recipe.level, recipe.capabilities) == ("differentiates", {"scores", "text", "gradients"})
    loaded = recipe.load()
    asked = samples(2)
    np.testing.assert_allclose(
        loaded.score(asked, ["yes", "no"]), made("vilt-answers").score(asked, ["yes", "no"]), rtol=1e-4
    )
    assert set(made("vilt-answers", options=("no", "left")).answer(asked)) <= {"no", "left"}
    with pytest.raises(UnknownName, match="perhaps"):
        loaded.score(asked, ["perhaps"] * 2)
    with pytest.raises(BadInput, match="it has no family"):
        made("vilt-answers", family="discovered")
    with pytest.raises(BadInput, match="questions of as many tokens"):
        loaded.encode(asked)  # type: ignore[union-attr]  # a TorchModel

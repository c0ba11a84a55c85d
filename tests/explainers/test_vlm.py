"""LLaVA-CAM and TAM against loops over the logits and states that transformers itself gives, one sample at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import architectures
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from karat.explainers.vlm import LlavaCam, Tam, rank_gaussian, without_earlier
from karat.kernel.errors import BadInput, CapabilityMissing
from karat.kernel.sample import Sample
from karat.models.vlm import vlm
from karat.probe import Session
from tests.models.tiny_llava import IMAGE_FIRST, TEXT_FIRST, make_module, make_processor
from tests.twins import vlm_rules as rules

TEXTS = ("how many red circles are left of blue squares ?", "are there any green squares ?", "how many one ?")
ANSWERS = ("yes", "twenty one", "no")


@cache
def model(order: str = IMAGE_FIRST, layers: int = 3) -> Any:
    processor = make_processor(order)
    return vlm(make_module(processor, decoder=(layers, 32)).double(), processor, name="tiny")


def samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), text) for i, text in enumerate(TEXTS)]


def prepared(adapter: Any, sample: Sample, answer: str) -> dict[str, torch.Tensor]:
    """The whole sequence, prompt and answer, as transformers' own processor makes it."""
    content = [{"type": "image"}, {"type": "text", "text": sample.text}]
    chat = adapter.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    made = dict(adapter.processor(images=sample.image, text=f"{chat} {answer}", return_tensors="pt"))
    made["pixel_values"] = made["pixel_values"].double()
    return made


def positions(adapter: Any, tokens: list[int], sample: Sample, answer: str) -> tuple[list[int], list[int], list[int]]:
    """Of the image, the question, the answer, attribution by token numbers."""
    number = adapter.processor.tokenizer.convert_tokens_to_ids
    visual = [p for p, token in enumerate(tokens) if token == number("<image>")]
    question = [number(word) for word in (sample.text or "").split()]
    start = next(p for p in range(len(tokens)) if tokens[p : p + len(question)] == question)
    count = len(answer.split())
    return visual, list(range(start, start + len(question))), list(range(len(tokens) - count, len(tokens)))


@pytest.mark.parametrize("order", [IMAGE_FIRST, TEXT_FIRST], ids=["image_first", "text_first"])
@pytest.mark.parametrize("token", [0, 1])
def test_tam_equals_its_twin(order: str, token: int) -> None:
    adapter = model(order)
    answers = list(ANSWERS) if token == 0 else ["twenty one", "one two", "no one"]
    session = Session(adapter, samples(), answers)
    for attribution, sample, answer in zip(Tam(token=token)(session), samples(), answers, strict=True):
        given_inputs = prepared(adapter, sample, answer)
        tokens = given_inputs["input_ids"][0].tolist()
        with torch.no_grad():
            logits = adapter.module(**given_inputs).logits[0].double().numpy()
        visual, question, answered = positions(adapter, tokens, sample, answer)
        image, text = rules.tam(logits, tokens, visual, question + answered[:token], tokens[answered[token]])
        np.testing.assert_allclose(attribution.visual, rules.rank_gaussian(image.reshape(6, 6)), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(attribution.words, text[: len(question)], rtol=1e-5, atol=1e-7)
        assert attribution.notes["token"] == tokens[answered[token]]
    assert (session.cost.traces, session.cost.backwards) == (1, 0)


def test_released_tam_shows_the_first_prompt_token() -> None:
    adapter = model()
    session = Session(adapter, samples(), list(ANSWERS))
    for released, sample, answer in zip(Tam(variant="released")(session), samples(), ANSWERS, strict=True):
        given_inputs = prepared(adapter, sample, answer)
        tokens = given_inputs["input_ids"][0].tolist()
        with torch.no_grad():
            logits = adapter.module(**given_inputs).logits[0].double().numpy()
        visual, question, _ = positions(adapter, tokens, sample, answer)
        image, _ = rules.tam(logits, tokens, visual, [], tokens[question[0]])
        np.testing.assert_allclose(released.visual, rules.rank_gaussian(image.reshape(6, 6)) * 255, atol=1.001)
        assert released.words is None
    assert not np.allclose(Tam()(session)[0].visual * 255, Tam(variant="released")(session)[0].visual, atol=1)
    with pytest.raises(BadInput, match="'yes' has 1 tokens; got token=1"):
        Tam(token=1)(session)


@pytest.mark.parametrize("layers", [3, 9])
def test_llava_cam_equals_its_twin(layers: int) -> None:
    """At layer 7, or the last but one of a shallow decoder; noise from the sample's own stream."""
    adapter = model(layers=layers)
    session = Session(adapter, samples(), list(ANSWERS), seed=3)
    explainer = LlavaCam(copies=3, batch_size=2)
    block = adapter.module.model.language_model.layers[min(7, layers - 2)]
    for i, attribution in enumerate(explainer(session)):
        sample, answer = samples()[i], ANSWERS[i]
        noise = session.rng(i, "vlm/llava_cam").normal(0, 25.5, (3, 96, 96, 3))
        total, total_words = 0.0, 0.0
        for copy in noise:
            image = (sample.image + copy).clip(0, 255).astype(np.uint8)
            given_inputs = prepared(adapter, Sample("copy", image, sample.text), answer)
            kept: list[torch.Tensor] = []
            handle = block.post_attention_layernorm.register_forward_hook(lambda *a, kept=kept: kept.append(a[2]))
            logits = adapter.module(**given_inputs).logits[0]
            handle.remove()
            tokens = given_inputs["input_ids"][0].tolist()
            visual, question, answered = positions(adapter, tokens, sample, answer)
            score = sum(logits[p - 1, tokens[p]] for p in answered)
            [slope] = torch.autograd.grad(score, kept)
            map_, words = rules.llava_cam(kept[0][0].detach().numpy(), slope[0].numpy(), visual, question)
            total, total_words = total + map_, total_words + words
        highest = total.max()
        np.testing.assert_allclose(attribution.visual.ravel(), total / highest, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(attribution.words, total_words / highest, rtol=1e-5, atol=1e-9)
        assert attribution.passes == 3
    assert session.cost.traces == 3 * 2


def test_clean_llava_cam_shares_its_trace_and_knows_no_chance() -> None:
    session = Session(model(), samples(), list(ANSWERS))
    clean = LlavaCam(copies=0)(session)
    LlavaCam(copies=0)(session)
    assert (session.cost.traces, clean[0].passes) == (1, 1)
    other = LlavaCam(copies=0)(Session(model(), samples(), list(ANSWERS), seed=9))
    np.testing.assert_array_equal(clean[0].visual, other[0].visual)
    noisy = [LlavaCam(copies=2, batch_size=b)(Session(model(), samples(), list(ANSWERS))) for b in (1, 2)]
    for a, b in zip(*noisy, strict=True):
        np.testing.assert_allclose(a.visual, b.visual, rtol=1e-6, atol=1e-9)


def test_released_llava_cam_cuts_large_grids() -> None:
    processor = make_processor(side=96, patch=4)
    module = make_module(processor, side=96, patch=4, vision=(1, 32))
    module.config.text_config.max_position_embeddings = 1024
    large = vlm(module, processor, name="24x24")
    session = Session(large, samples()[:1], ["yes"])
    ours, theirs = LlavaCam(copies=0)(session)[0], LlavaCam(copies=0, variant="released")(session)[0]
    assert ours.visual.shape == (24, 24)
    assert theirs.visual.shape == (16, 16)
    assert LlavaCam(copies=0, variant="released")(Session(model(), samples()[:1], ["yes"]))[0].visual.shape == (6, 6)


def test_a_model_that_does_not_answer_by_token_is_refused() -> None:
    with pytest.raises(CapabilityMissing, match="autoregressive"):
        Tam()(architectures.session("gridprog"))


SMALL = arrays.arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(2, 5)), elements=st.floats(0, 1, width=16))


@settings(max_examples=80, deadline=None)
@given(image=SMALL)
def test_rank_filter_equals_its_twin_and_stays_between(image: Any) -> None:
    ours = rank_gaussian(image)
    np.testing.assert_allclose(ours, rules.rank_gaussian(image), rtol=1e-9, atol=1e-12)
    assert image.min() - 1e-12 <= ours.min() <= ours.max() <= image.max() + 1e-12


def test_rank_filter_removes_a_lone_spike_and_keeps_flat_maps() -> None:
    spike = np.full((5, 5), 0.5)
    spike[2, 2] = 1.0
    assert rank_gaussian(spike)[2, 2] < 0.55
    np.testing.assert_array_equal(rank_gaussian(np.full((4, 4), 0.3)), np.full((4, 4), 0.3))
    assert not rank_gaussian(np.zeros((3, 3))).any()


def test_causal_inference_takes_away_what_earlier_tokens_say() -> None:
    shared, own = np.array([1.0, 2.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, 3.0])
    left = without_earlier(shared + own, np.array([1.0]), shared[:, None], [True])
    np.testing.assert_allclose(left, own)
    np.testing.assert_allclose(without_earlier(shared + own, np.array([1.0]), shared[:, None], [False]), shared + own)

"""Spans in their context, for every family, against a literal computation: the module's own forward on what its own
processor makes of prompt and answer, teacher-forced, and nothing of Karat's in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tiny_vlms

from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike
from tests.twins import attention_rules, vlm_rules

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from karat.explainers.attention import Rollout  # noqa: E402
from karat.explainers.relevance import AttnLrp  # noqa: E402
from karat.explainers.vlm import LlavaCam, Tam  # noqa: E402
from karat.models.torch_model import AnswersByToken  # noqa: E402
from karat.models.vlm import vlm  # noqa: E402
from karat.probe import Session, trace  # noqa: E402

KINDS = tiny_vlms.KINDS
SAID = "The cup is left, so (A) left."
# Of every shape that a target has: a letter inside brackets, a word, a phrase, a sentence, the first word, all of it.
SPANS = [(21, 22), (11, 15), (20, 28), (0, 29), (0, 3), (4, 19)]


@cache
def model(kind: str) -> Any:
    module, processor = tiny_vlms.make(kind)
    return vlm(module.double(), processor, name=kind)


def samples(kind: str) -> list[Sample]:
    return tiny_vlms.samples(kind, 3)


class Literal:
    """One sample with a text that was said, run through the module itself. `start` is where the text's tokens begin."""

    def __init__(self, kind: str, sample: Sample, said: str) -> None:
        self.adapter = model(kind)
        processor = self.adapter.processor
        content = [{"type": "image"}, {"type": "text", "text": sample.text}]
        chat = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        self.prompt = chat + ("" if chat[-1].isspace() else " ")
        asked = processor(images=[sample.image], text=[chat], return_tensors="pt")
        made = processor(images=[sample.image], text=[self.prompt + said], return_tensors="pt")
        self.start = asked["input_ids"].shape[1]
        self.tokens = made["input_ids"][0].tolist()
        self.given = {name: t.double() if t.is_floating_point() else t for name, t in made.items()}
        self.said = said

    def covering(self, span: tuple[int, int]) -> list[int]:
        """Positions of the tokens that cover any character of a span, by decoding one token more at a time."""
        decode = self.adapter.processor.tokenizer.decode
        lead = len(decode(self.tokens[self.start :])) - len(self.said)  # the space before an answer, if it is a token's
        ends = [len(decode(self.tokens[self.start : p + 1])) - lead for p in range(self.start, len(self.tokens))]
        begins = [0, *ends[:-1]]
        places = enumerate(zip(begins, ends, strict=True), start=self.start)
        covering = [p for p, (a, b) in places if a < span[1] and b > span[0]]
        return covering if span[0] else list(range(self.start, covering[-1] + 1))

    def logits(self) -> Any:
        return self.adapter.module(**self.given).logits[0]

    def probability(self, positions: list[int]) -> float:
        with torch.no_grad():
            table = self.logits().log_softmax(-1)
        return float(torch.stack([table[p - 1, self.tokens[p]] for p in positions]).sum().exp())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("span", SPANS)
def test_the_probability_of_a_span_is_given_its_context(kind: str, span: tuple[int, int]) -> None:
    for sample in samples(kind)[:2]:
        literal = Literal(kind, sample, SAID)
        expected = literal.probability(literal.covering(span))
        [ours] = model(kind).score([sample], [Target(SAID, span)])
        assert ours == pytest.approx(expected, rel=1e-9, abs=0)
        joint = literal.probability(list(range(literal.start, literal.covering(span)[-1] + 1)))
        [ours] = model(kind).score([sample], [Target(SAID, span, joint=True)])
        assert ours == pytest.approx(joint, rel=1e-9, abs=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_joint_is_the_product_of_its_parts(kind: str) -> None:
    adapter, sample = model(kind), samples(kind)[0]
    spans = adapter.token_spans(SAID)
    parts = [Target.token(k + 1, SAID, spans) for k in range(len(spans)) if spans[k][1] > spans[k][0]]
    numbers = adapter.target_tokens(SAID).numbers
    assert sum((adapter.target_tokens(part).explained for part in parts), ()) == numbers
    assert len(numbers) - len(parts) in (0, 1)  # the space before an answer may be a token of its own
    each = adapter.score([sample] * len(parts), parts)
    assert float(adapter.score([sample], [SAID])[0]) == pytest.approx(float(np.prod(each)), rel=1e-9, abs=0)
    for k, part in enumerate(parts, start=1):
        [joint] = adapter.score([sample], [replace(part, joint=True)])
        assert joint == pytest.approx(float(np.prod(each[:k])), rel=1e-9, abs=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_different_contexts_is_its_samples_alone(kind: str) -> None:
    adapter = model(kind)
    targets: list[TargetLike] = [Target(SAID, (21, 22)), "(A) left", Target("so (A)!", (4, 5), contrast="B")]
    together = adapter.score(samples(kind), targets)
    alone = [adapter.score([sample], [target])[0] for sample, target in zip(samples(kind), targets, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=1e-9)


@contextmanager
def kept(module: Any) -> Iterator[list[Any]]:
    """Outputs of a module, with gradients."""
    outputs: list[Any] = []

    def hook(_: Any, __: Any, output: Any) -> None:
        output = output[0] if isinstance(output, tuple) else output
        if not output.requires_grad:
            output.requires_grad_()
        outputs.append(output)

    handle = module.register_forward_hook(hook)
    try:
        yield outputs
    finally:
        handle.remove()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_spans_logits(kind: str) -> None:
    """At the word embeddings, which every family has in the same places; and at the pixels where they are an image."""
    adapter, sample, span = model(kind), samples(kind)[1], (20, 28)
    literal = Literal(kind, sample, SAID)
    pixels = literal.given["pixel_values"].requires_grad_()
    with kept(adapter.module.get_submodule(adapter.family.words)) as embedded:
        logits = literal.logits()
    score = sum(logits[p - 1, literal.tokens[p]] for p in literal.covering(span))
    slopes = torch.autograd.grad(score, [embedded[0], pixels])
    with trace(adapter, [sample], [Target(SAID, span)], layers=("words", "pixels")) as seen:
        assert float(seen.scores[0]) == pytest.approx(float(score), rel=1e-9, abs=0)
        ours = seen.gradients["words"][0]
        assert ours.shape[0] == literal.covering(span)[-1]  # nothing is run after the span
        torch.testing.assert_close(ours, slopes[0][0, : len(ours)], rtol=1e-7, atol=1e-12)
        assert float(ours[literal.start].abs().sum()) > 0  # the context is read, not explained
        if pixels.shape == seen.gradients["pixels"].shape:
            torch.testing.assert_close(seen.gradients["pixels"], slopes[1], rtol=1e-7, atol=1e-12)
    assert kind not in ("llava", "gemma3") or pixels.ndim == 4


@pytest.mark.parametrize("kind", KINDS)
def test_rollout_reads_the_rows_that_predict_the_span(kind: str) -> None:
    adapter, sample, span = model(kind), samples(kind)[0], (21, 22)
    literal = Literal(kind, sample, SAID)
    positions = literal.covering(span)
    used = adapter.module.config._attn_implementation
    adapter.module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            maps = adapter.module(**literal.given, output_attentions=True).attentions
    finally:
        adapter.module.set_attn_implementation(used)
    fused = [attention_rules.fuse_heads(each[0].numpy(), "mean") for each in maps]
    rows = attention_rules.rollout(fused)[[p - 1 for p in positions]].mean(0)
    [attribution] = Rollout()(Session(adapter, [sample], [Target(SAID, span)]))
    layout = adapter.layout(adapter.encode([sample]))
    np.testing.assert_allclose(np.ravel(attribution.visual), rows[list(layout.visual)], rtol=1e-6, atol=1e-12)
    [joint] = Rollout()(Session(adapter, [sample], [Target(SAID, span, joint=True)]))
    assert not np.allclose(joint.visual, attribution.visual, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_tam_starts_at_the_span(kind: str, variant: Any) -> None:
    # of random weights, one sample or another activates the token nowhere
    sample = samples(kind)[1 if kind == "qwen2_5_vl" else 0]
    adapter, span = model(kind), (21, 22)
    literal = Literal(kind, sample, SAID)
    [position] = literal.covering(span)
    layout, inputs = adapter.layout(adapter.encode([sample])), adapter.encode([sample])
    question = list(layout.text[: int(inputs.token_keep.sum())])
    with torch.no_grad():
        logits = literal.logits().numpy()
    earlier = question + list(range(literal.start, position))
    target = literal.tokens[position]
    visual, text = vlm_rules.tam(logits, literal.tokens, list(layout.visual), earlier, target)
    [attribution] = Tam(variant=variant)(Session(adapter, [sample], [Target(SAID, span)]))
    expected = vlm_rules.rank_gaussian(visual.reshape(layout.grid))
    words = [text[a:b].sum() for a, b in inputs.words[0]]
    if variant == "paper":
        np.testing.assert_allclose(attribution.visual, expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(attribution.words, words, rtol=1e-6, atol=1e-9)
    else:  # rounded to 256 levels; in a later round than the first the released code goes the same way
        np.testing.assert_allclose(attribution.visual, expected * 255, atol=1.001)
    assert attribution.notes["token"] == target


@pytest.mark.parametrize("kind", ["llava", "gemma3", "qwen2_5_vl"])
def test_llava_cam_and_relevance_start_from_the_span(kind: str) -> None:
    adapter, sample, span = model(kind), samples(kind)[0], (20, 28)
    literal = Literal(kind, sample, SAID)
    layer = LlavaCam(copies=0)._name(adapter)
    with kept(adapter.module.get_submodule(layer)) as outputs:
        logits = literal.logits()
    score = sum(logits[p - 1, literal.tokens[p]] for p in literal.covering(span))
    [slope] = torch.autograd.grad(score, outputs[:1])
    layout, inputs = adapter.layout(adapter.encode([sample])), adapter.encode([sample])
    states = outputs[0][0].detach().numpy()
    visual, _ = vlm_rules.llava_cam(states, slope[0].numpy(), list(layout.visual), list(layout.text))
    session = Session(adapter, [sample], [Target(SAID, span)])
    [attribution] = LlavaCam(copies=0)(session)
    np.testing.assert_allclose(np.ravel(attribution.visual), visual, rtol=1e-6, atol=1e-9)
    [relevance] = AttnLrp(layer="vision.last")(session)
    assert relevance.notes["score"] == pytest.approx(float(score), rel=1e-6)
    assert inputs.tokens is not None


@pytest.mark.parametrize("kind", KINDS)
def test_games_value_the_span(kind: str) -> None:
    adapter, sample = model(kind), samples(kind)[0]
    literal = Literal(kind, sample, SAID)
    session = Session(adapter, [sample], [Target(SAID, (21, 22))])
    game = session.game(0)
    full = np.ones((1, game.n), bool)
    assert game.value(full)[0] == pytest.approx(literal.probability(literal.covering((21, 22))), rel=1e-9, abs=0)


@contextmanager
def forwards(adapter: Any) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the sequences that the decoder ran over."""
    shapes: list[tuple[int, ...]] = []
    part = adapter.module.get_submodule(adapter.family.decoder)
    handle = part.register_forward_pre_hook(
        lambda _, args, given: shapes.append(tuple(given["inputs_embeds"].shape[:2])), with_kwargs=True
    )
    try:
        yield shapes
    finally:
        handle.remove()


def test_forward_passes_do_not_grow() -> None:
    adapter, asked = model("llava"), samples("llava")
    length = {}
    for name, targets in {
        "text": ["so (A"] * 3,
        "span": [Target("so (A) and more", (4, 5))] * 3,
        "contrast of one token": [Target("so (A) and more", (4, 5), contrast="B")] * 3,
        "contrast of two": [Target("so (A) and more", (4, 5), contrast="B left")] * 3,
    }.items():
        with forwards(adapter) as shapes:
            adapter.score(asked, targets)
        length[name] = shapes
    assert length["span"] == length["text"] == length["contrast of one token"]
    assert len(length["span"]) == 1
    assert len(length["contrast of two"]) == 2


@pytest.mark.parametrize("contrast", ["B", "B right"])
def test_a_contrast_is_a_choice_between_two(contrast: str) -> None:
    adapter, sample = model("llava"), samples("llava")[0]
    own, other = Target("so (A)", (4, 5)), Target(f"so ({contrast}", (4, 4 + len(contrast)))
    p, q = adapter.score([sample] * 2, [own, other])
    [chosen] = adapter.score([sample], [replace(own, contrast=contrast)])
    assert chosen == pytest.approx(p / (p + q), rel=1e-9, abs=0)
    inputs = adapter.encode([sample])
    with torch.no_grad():
        raw = [float(adapter.readout(inputs, [each])[0]) for each in (own, other, replace(own, contrast=contrast))]
    assert raw[2] == pytest.approx(raw[0] - raw[1], rel=1e-9, abs=0)


def test_a_token_over_the_border_belongs_to_the_span() -> None:
    """ "left" is one token here: a span of its first letters is explained by all of it."""
    adapter = model("llava")
    spans = adapter.token_spans("so left")
    [(start, stop)] = [span for span in spans if span[0] <= 4 < span[1]]
    assert stop - start > 2
    part, word = Target("so left", (3, 5)), Target("so left", (3, 7))
    assert adapter.target_tokens(part) == adapter.target_tokens(word)
    assert isinstance(adapter, AnswersByToken)


def test_sessions_explain_the_choice_in_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = model("llava")
    monkeypatch.setattr(type(adapter), "answer", lambda self, samples: ["(A) left, since", "B", "A or B"])
    asked = [replace(sample, choices=("A", "B")) for sample in samples("llava")]
    session = Session(adapter, asked)
    assert session.targets == (Target("(A) left, since", (1, 2)), "B", "A or B")
    assert session.answers == ("A", "B", "A or B")
    assert [session.unread(i) for i in range(3)] == [None, None, "answer: 'A or B' names A and B"]
    part = session.only(0, 2)
    assert (part.targets, part.answers) == ((session.targets[0], "A or B"), ("A", "A or B"))
    assert part.unread(1) == "answer: 'A or B' names A and B"

"""What can be wrong with a vision-language model, its prompt or its inputs, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny_vlms
from tiny_vlms import ANSWERS

from karat.kernel.errors import BadInput, ExtraMissing
from karat.kernel.sample import Sample
from karat.models.batching import in_parts
from karat.models.families import FAMILIES
from karat.models.vlm import VLMRecipe, vlm
from karat.models.vlm_adapter import VLM


def test_an_unknown_architecture_is_found_out_and_a_wrong_family_says_what_to_override() -> None:
    module, processor = tiny_vlms.make("llava")
    module.config.model_type = "parrot"
    assert vlm(module, processor).family.in_words().startswith("parrot: opens")
    known = vlm(module, processor, family=FAMILIES["llava"])
    assert np.isfinite(known.score(tiny_vlms.samples("llava"), ANSWERS)).all()
    by_name = vlm(module, processor, family="karat.models.families:_LLAVA")
    assert by_name.family == FAMILIES["llava"]
    wrong = replace(FAMILIES["llava"], vision_layers="model.vision_tower.blocks.layers")
    with pytest.raises(BadInput, match=r"no part 'model\.vision_tower\.blocks\.layers'; parts of that name: model\."):
        vlm(module, processor, family=wrong)


def test_prompts() -> None:
    module, processor = tiny_vlms.make("qwen2_vl")
    asked = tiny_vlms.samples("qwen2_vl", 1)[0]
    with pytest.raises(BadInput, match="holds the image token"):
        vlm(module, processor).encode([replace(asked, text="What is in <|image_pad|> here?")])
    processor.chat_template = processor.chat_template.replace("<|image_pad|>", "")
    with pytest.raises(BadInput, match=r"one '<\|image_pad\|>'; it gives .*chat_template"):
        vlm(module, processor).score([asked], ["yes"])


@pytest.mark.parametrize("kind", tiny_vlms.KINDS)
def test_questions_may_be_empty_and_images_must_be_images(kind: str) -> None:
    built = vlm(*tiny_vlms.make(kind))
    asked = tiny_vlms.samples(kind, 2)
    bare = [replace(asked[0], text=None), asked[1]]
    together = built.score(bare, ANSWERS[:2])
    np.testing.assert_allclose(together[0], built.score([replace(asked[0], text="")], ANSWERS[:1])[0], rtol=1e-4)
    for image in (np.zeros((9, 9), np.uint8), np.zeros((9, 9, 3), np.float32), np.zeros((9, 9, 4), np.uint8)):
        with pytest.raises(BadInput, match=r"uint8 of shape \(H, W, 3\); got"):
            built.encode([_with(asked[0], image)])
    with pytest.raises(BadInput, match="one answer per sample"):
        built.score(asked, ["yes"])


def _with(sample: Sample, image: Any) -> Sample:
    """A sample as a careless dataset would make it."""
    other = replace(sample)
    object.__setattr__(other, "image", image)
    return other


def test_sizes_that_do_not_fit_together() -> None:
    built = vlm(*tiny_vlms.make("qwen2_5_vl"))
    mixed = [tiny_vlms.samples("qwen2_5_vl", 1, size)[0] for size in ((56, 56), (56, 140))]
    with pytest.raises(BadInput, match=r"these images become 56×56, 56×140\. Group them by"):
        built.encode(mixed)
    with pytest.raises(BadInput, match="an image of 2×800 pixels cannot be shown"):
        built.score([tiny_vlms.samples("qwen2_5_vl", 1, (2, 800))[0]], ["yes"])


def test_limits_are_the_processors() -> None:
    asked = tiny_vlms.samples("qwen2_vl", 1, (300, 400))
    wide = vlm(*tiny_vlms.make("qwen2_vl")).layout(vlm(*tiny_vlms.make("qwen2_vl")).encode(asked)).grid
    small = vlm(*tiny_vlms.make("qwen2_vl"), max_pixels=28 * 28 * 12)
    rows, columns = small.layout(small.encode(asked)).grid
    assert rows * columns <= 12 < wide[0] * wide[1]
    long = tiny_vlms.samples("internvl", 1, (56, 230))
    for tiles, grid, count in ((1, (2, 2), 4), (2, (2, 4), 12), (4, (2, 8), 20)):
        built = vlm(*tiny_vlms.make("internvl"), max_tiles=tiles)
        inputs = built.encode(long)
        assert built.layout(inputs).grid == grid
        assert int((inputs.other["before"] == built.config.image_token_id).sum()) == count
    with pytest.raises(BadInput, match="max_pixels is for models of dynamic resolution"):
        vlm(*tiny_vlms.make("llava"), max_pixels=1000)
    with pytest.raises(BadInput, match="max_tiles is for models that cut tiles"):
        vlm(*tiny_vlms.make("llava"), max_tiles=2)


def test_answers_are_decoded_or_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tiny_vlms.samples("internvl")
    pair = tiny_vlms.make("internvl")
    letters = vlm(*pair, options=("A", "B", "C"))
    table = np.stack([letters.score(asked, [letter] * 3) for letter in "ABC"], 1)
    assert letters.answer(asked) == ["ABC"[k] for k in table.argmax(1)]
    monkeypatch.setattr(VLM, "_decoded", lambda self, samples: ["The answer is (B).", "C", "none"])
    assert vlm(*pair).answer(asked) == ["The answer is (B).", "C", "none"]


def test_an_instruction_follows_the_question_and_is_no_part_of_it() -> None:
    pair = tiny_vlms.make("qwen2_5_vl")
    plain, told = vlm(*pair), vlm(*pair, suffix="\nAnswer directly.")
    asked = tiny_vlms.samples("qwen2_5_vl")
    one, other = plain.encode(asked), told.encode(asked)
    assert one.words == other.words
    assert pair[1].tokenizer.decode(other.other["after"][0]).startswith("\nAnswer directly.<|im_end|>")
    said = [replace(sample, text=f"{sample.text}\nAnswer directly.") for sample in asked]
    np.testing.assert_allclose(told.score(asked, ANSWERS), plain.score(said, ANSWERS), rtol=1e-4)


GATED = "You are trying to access a gated repo. 401 Client Error. Access to model google/gemma-3-4b-it is restricted."
ABSENT = "acme/none is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (GATED, r"weights are gated. Accept the terms at https://huggingface\.co/acme/one, then log in with `hf auth"),
        (ABSENT, r"`hf download acme/one --local-dir DIR`; then give DIR"),
        ("Unrecognized configuration class", "Unrecognized configuration class"),
    ],
)
def test_weights_that_cannot_be_had(said: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise OSError(said)

    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", refuse)
    with pytest.raises(BadInput, match=expected) as caught:
        VLMRecipe("acme/one").load()
    assert "\n" not in str(caught.value)


def test_what_the_library_does_not_offer_here() -> None:
    with pytest.raises(ExtraMissing, match=r"bitsandbytes.*karat\[gpu\]|accelerate.*karat\[gpu\]"):
        vlm("acme/one", quantised="4bit")


def test_a_batch_that_does_not_fit_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    built, asked = vlm(*tiny_vlms.make("llava")), tiny_vlms.samples("llava", 5)
    expected = built.score(asked, ["yes"] * 5)
    sizes: list[int] = []
    real = VLM.encode

    def encode(self: VLM, samples: Any) -> Any:
        sizes.append(len(samples))
        if len(samples) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return real(self, samples)

    monkeypatch.setattr(VLM, "encode", encode)
    np.testing.assert_allclose(built.score(asked, ["yes"] * 5), expected, rtol=1e-4)
    assert sizes == [5, 2, 2, 1]
    monkeypatch.setattr(VLM, "encode", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
    with pytest.raises(RuntimeError, match="out of memory"):
        built.score(asked[:1], ["yes"])


def test_parts_keep_their_order() -> None:
    called: list[list[int]] = []

    def call(part: list[int]) -> list[int]:
        called.append(part)
        return [10 * k for k in part]

    assert in_parts(["a", "b", "a", "c", "b"], call) == [0, 10, 20, 30, 40]
    assert called == [[0, 2], [1, 4], [3]]
    with pytest.raises(ValueError, match="zip"):
        in_parts(["a", "a"], lambda part: part[:1])
    assert in_parts([], call) == []

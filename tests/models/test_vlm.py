"""The VLM adapter against transformers' own forward and generate, one sample at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.preprocessing import image_frame
from karat.models.torch_model import ReusesImage, TorchModel
from karat.models.vlm import VLMRecipe, vlm
from karat.probe import trace
from tests.models.tiny_llava import IMAGE_FIRST, TEXT_FIRST, make_module, make_processor

TEXTS = ["how many red circles are left of blue squares?", "are there any green squares?", "how many?"]
ANSWERS = ["yes", "twenty one", "no"]


@pytest.fixture(scope="module", params=[IMAGE_FIRST, TEXT_FIRST], ids=["image_first", "text_first"])
def model(request: pytest.FixtureRequest) -> Any:
    processor = make_processor(request.param)
    return vlm(make_module(processor), processor, name="tiny")


def samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), text) for i, text in enumerate(TEXTS)]


def chat(model: Any, sample: Sample) -> str:
    content = [{"type": "image"}, {"type": "text", "text": sample.text}]
    return str(model.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True))


def prepared(model: Any, sample: Sample, said: str = "") -> dict[str, torch.Tensor]:
    return dict(model.processor(images=sample.image, text=chat(model, sample) + said, return_tensors="pt"))


def test_joint_probability_equals_transformers(model: Any) -> None:
    expected = []
    for sample, answer in zip(samples(), ANSWERS, strict=True):
        asked, whole = prepared(model, sample), prepared(model, sample, f" {answer}")
        start = asked["input_ids"].shape[1]
        with torch.no_grad():
            table = model.module(**whole).logits[0].log_softmax(-1)
        said = whole["input_ids"][0, start:]
        expected.append(float(sum(table[start - 1 + k, number] for k, number in enumerate(said)).exp()))
    assert isinstance(model, TorchModel)
    np.testing.assert_allclose(model.score(samples(), ANSWERS), expected, rtol=1e-4)


def test_answers_equal_generate(model: Any) -> None:
    expected = []
    for sample in samples():
        asked = prepared(model, sample)
        made = model.module.generate(**asked, max_new_tokens=8, do_sample=False)[0, asked["input_ids"].shape[1] :]
        expected.append(model.processor.tokenizer.decode(made, skip_special_tokens=True).strip())
    assert model.answer(samples()) == expected


def test_reuse_changes_nothing(model: Any) -> None:
    assert isinstance(model, ReusesImage)
    inputs = model.encode(samples())
    kept = model.reuse_image(inputs)
    image_first = max(model.layout(inputs).visual) < min(model.layout(inputs).text)
    assert set(kept.reuse) == ({"keys", "values"} if image_first else {"features"})
    blind = replace(kept, pixels=torch.full_like(kept.pixels, float("nan")))  # whoever looks again is found out
    with torch.no_grad():
        for method in (model.log_probability, model.readout):
            torch.testing.assert_close(method(blind, ANSWERS), method(inputs, ANSWERS), rtol=1e-4, atol=1e-5)


def test_padding_changes_nothing(model: Any) -> None:
    alone = [float(model.score([sample], [answer])[0]) for sample, answer in zip(samples(), ANSWERS, strict=True)]
    np.testing.assert_allclose(model.score(samples(), ANSWERS), alone, rtol=1e-4)


def test_words_are_the_questions_and_templates_are_not(model: Any) -> None:
    inputs = model.encode(samples())
    tokenizer = model.processor.tokenizer
    for i, sample in enumerate(samples()):
        spelt = [tokenizer.decode(inputs.tokens[i, start:stop]) for start, stop in inputs.words[i]]
        assert spelt == [sample.text[a:b] for a, b in sample.words]
        assert int(inputs.token_keep[i].sum()) == len(spelt)
    assert "USER" in tokenizer.decode(inputs.other["before"][0])
    assert "ASSISTANT" in tokenizer.decode(inputs.other["after"][0])


def test_layout_points_at_the_right_tokens(model: Any) -> None:
    inputs = model.encode(samples())
    layout = model.layout(inputs)
    words = model.family.words
    want = {"activations", "attention"}
    with trace(model, inputs, ANSWERS, layers=["words", "decoder.last", "vision.last"], want=want) as seen:
        table = model.module.get_submodule(words).weight
        text = seen.activations["words"][:, list(layout.text)]
        torch.testing.assert_close(text, table[inputs.tokens])
        image = table[model.config.image_token_id]
        torch.testing.assert_close(seen.activations["words"][0, list(layout.visual)], image.expand(36, -1))
        assert seen.spatial("decoder.last").shape[2:] == seen.spatial("vision.last").shape[2:] == (6, 6)
        maps = seen.attention[model.attention_layers[-1]]
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]))
        after = torch.arange(maps.shape[-1]) > layout.readout
        assert float(maps[:, :, layout.readout, after].abs().max()) == 0  # it reads what stands before it
        padded = torch.tensor(layout.text)[~inputs.token_keep[2]]
        assert float(maps[2, :, layout.readout, padded].abs().max()) == 0


def test_gradients_flow_to_pixels_words_and_vision(model: Any) -> None:
    with trace(model, samples(), ANSWERS, layers=["pixels", "words", "vision.last", "decoder.0"]) as seen:
        for name in ("pixels", "words", "vision.last", "decoder.0"):
            assert bool((seen.gradients[name].flatten(1).abs().sum(1) > 0).all()), name
        torch.testing.assert_close(seen.scores, model.readout(model.encode(samples()), ANSWERS), atol=1e-4, rtol=1e-4)


def test_a_question_may_be_empty(model: Any) -> None:
    bare = [replace(samples()[0], text=None), replace(samples()[1], text="")]
    assert np.isfinite(model.score(bare, ["yes", "yes"])).all()
    mixed = model.score([bare[0], samples()[1]], ["yes", "yes"])
    np.testing.assert_allclose(mixed[0], model.score(bare[:1], ["yes"])[0], rtol=1e-4)


def test_saved_and_loaded(tmp_path: Path) -> None:
    processor = make_processor()
    module = make_module(processor)
    module.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    recipe = VLMRecipe(str(tmp_path))
    model = recipe.load()
    np.testing.assert_allclose(
        model.score(samples(), ANSWERS), vlm(module, processor).score(samples(), ANSWERS), rtol=1e-5
    )
    assert model.capabilities == recipe.capabilities
    before = recipe.revision
    make_module(processor, seed=1).save_pretrained(tmp_path)
    assert recipe.revision != before
    file = tmp_path / "model.safetensors"
    whole = load_file(file)
    del whole[next(name for name in whole if name.endswith("linear_1.weight"))]
    save_file(whole, file, metadata={"format": "pt"})
    with pytest.raises(BadInput, match=r"no weights for model\.multi_modal_projector\.linear_1\.weight"):
        recipe.load()
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(BadInput, match="cannot load a vision-language model"):
        recipe.load()


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    processor = make_processor()
    module = make_module(processor)
    module.config.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(BadInput, match="cannot load"):
        vlm(tmp_path)


def test_bad_sources(tmp_path: Path) -> None:
    processor = make_processor()
    with pytest.raises(BadInput, match="needs its processor"):
        vlm(make_module(processor))
    with pytest.raises(BadInput, match="cannot load"):
        vlm(tmp_path / "gone")
    with pytest.raises(BadInput, match="dtype: Input should be 'float32'"):
        vlm(tmp_path, dtype="float8")
    with pytest.raises(BadInput, match="give `path`"):
        VLMRecipe().load()
    with pytest.raises(BadInput, match="no tokens"):
        vlm(make_module(processor), processor).score(samples()[:1], [""])
    twice = make_processor("USER: <image> <image> {text} ASSISTANT:")
    with pytest.raises(BadInput, match="one '<image>'"):
        vlm(make_module(twice), twice).score(samples()[:1], ["yes"])


def test_frames_of_image_processors() -> None:
    from transformers import CLIPImageProcessor

    whole = CLIPImageProcessor(size={"height": 96, "width": 96}, do_center_crop=False)
    assert image_frame(whole, 300, 400) == (0, 0, 1, 1)
    cut = CLIPImageProcessor(size={"shortest_edge": 96}, crop_size={"height": 96, "width": 96})
    assert image_frame(cut, 96, 192) == (0, 0.25, 1, 0.75)
    image = np.zeros((96, 192, 3), np.uint8)
    image[:, 48:144] = 255
    pixels = cut(images=[image], return_tensors="pt")["pixel_values"]
    assert float(pixels.std((2, 3)).max()) < 1e-3  # only the white middle is seen
    assert image_frame(CLIPImageProcessor(do_resize=False, do_center_crop=True), 50, 50) is None

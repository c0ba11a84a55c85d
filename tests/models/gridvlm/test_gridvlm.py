"""gridvlm is a LLaVA like any other: saved, loaded and asked through transformers, and trained on what it will see."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from karat.datasets.grid import answers, generate, generate_batch, make_world
from karat.kernel.errors import BadInput
from karat.models.gridvlm import build
from karat.models.gridvlm.recipe import GridVLM
from karat.models.gridvlm.trainee import QUESTION_START, GridVLMTrainee
from karat.models.hub import load
from karat.models.training.batches import batch_at, describe
from karat.models.training.images import draw
from karat.models.training.recipe import Recipe

RECIPE = Recipe("gridvlm", "pure", steps=10, batch=8, chunk=5, detected=4)


@pytest.fixture(scope="module")
def trainee() -> GridVLMTrainee:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    made = GridVLMTrainee(RECIPE).eval()
    made.round()  # what is written is in half precision
    return made


@pytest.fixture(scope="module")
def directory(trainee: GridVLMTrainee, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trainee.export(tmp_path_factory.mktemp("vlm"))


def test_it_opens_like_any_other(directory: Path) -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor, LlavaForConditionalGeneration

    model = AutoModelForImageTextToText.from_pretrained(directory)
    processor = AutoProcessor.from_pretrained(directory)
    assert isinstance(model, LlavaForConditionalGeneration)
    assert processor.tokenizer.is_fast
    assert 0.8e6 < sum(p.numel() for p in model.parameters()) < 1.25e6
    assert (directory / "model.safetensors").stat().st_size <= 5_000_000
    sample = generate("D3_CMP_F0_d0.7", 1)[0]
    content = [{"type": "image"}, {"type": "text", "text": sample.text}]
    prompt = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    assert prompt == f"USER: <image>\n{sample.text} ASSISTANT:"
    inputs = processor(images=sample.image, text=prompt, return_tensors="pt")
    assert int((inputs["input_ids"] == model.config.image_token_id).sum()) == 36
    assert processor.tokenizer.unk_token_id not in inputs["input_ids"]


def test_local_weights_are_read_without_a_word(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    load("vlm", "AutoModelForImageTextToText", str(directory))
    assert "Loading" not in "".join(capfd.readouterr())
    assert logging.is_progress_bar_enabled()  # what comes over the network shows its bar


def test_training_sees_what_the_processor_gives(trainee: GridVLMTrainee) -> None:
    samples = generate("D2_M_F0_d0.7", 3)
    scenes = generate_batch("D2_M_F0_d0.7", range(3))
    pixels, tokens, last = trainee.inputs(describe(scenes, 32))
    prompts = [f"USER: <image>\n{sample.text} ASSISTANT: {sample.answer}" for sample in samples]
    images = [sample.image for sample in samples]
    given = trainee.processor(images=images, text=prompts, return_tensors="pt", padding=True, padding_side="right")
    torch.testing.assert_close(pixels, given["pixel_values"])
    for i in range(3):
        length = int(last[i]) + 2
        assert tokens[i, :length].tolist() == given["input_ids"][i, :length].tolist()
        assert not given["attention_mask"][i, length:].any()
    cells = np.stack([sample.scene.cells.reshape(-1) for sample in samples])
    torch.testing.assert_close(draw(cells, build.glyph_tiles(trainee.processor), 6), given["pixel_values"])


def test_hidden_words_are_padding_in_their_place(trainee: GridVLMTrainee) -> None:
    batch = describe(generate_batch("D2_M_F0_d0.7", range(2)), 32)
    whole = trainee.inputs(batch)[1]
    batch.word_keep[0, 2] = False
    holed = trainee.inputs(batch)[1]
    differ = (whole != holed).nonzero().tolist()
    assert differ == [[0, QUESTION_START + 2]]
    assert holed[0, QUESTION_START + 2] == build.vocabulary().index("<pad>")


def test_the_adapter_answers_as_the_trainee_does(trainee: GridVLMTrainee, directory: Path) -> None:
    """Same weights through two ways of building the sequence: mixed lengths, so padding is put to the test."""
    model = GridVLM("pure", weights=str(directory)).load()
    assert model.mechanism == "reasons"
    names = answers(make_world())
    for bucket in ("D3_CMP_F0_d0.7", "D1_A_F1_d0.3"):
        batch = describe(generate_batch(bucket, range(4), seed=9), 32)
        pixels, tokens, last = trainee.inputs(batch)
        with torch.no_grad():
            final = trainee.model.model(input_ids=tokens, pixel_values=pixels).last_hidden_state
            table = trainee.model.lm_head(final[torch.arange(4), last]).log_softmax(-1)
        samples = generate(bucket, 4, seed=9)
        wanted = table[torch.arange(4), torch.from_numpy(trainee.answer_token[batch.answer])].exp()
        assert [names[k] for k in batch.answer] == [sample.answer for sample in samples]
        scores = model.score(samples, [str(sample.answer) for sample in samples])
        np.testing.assert_allclose(scores, wanted.numpy(), rtol=1e-4)


def test_one_step_lowers_every_loss_it_trains() -> None:
    torch.manual_seed(0)
    trainee = GridVLMTrainee(RECIPE)
    optimizer = torch.optim.AdamW([p for p in trainee.parameters() if p.requires_grad], lr=5e-4)
    batch = batch_at(dataclasses.replace(RECIPE, altered=0.0), 0, 32)
    first: dict[str, float] = {}
    for _ in range(16):
        loss, parts, _ = trainee(batch, True)
        first = first or {name: float(value.detach()) for name, value in parts.items()}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert set(first) == {"glyph", "noun", "anchor", "region", "target", "half 4", "half 5", "place", "answer"}
    for name, value in parts.items():
        assert float(value.detach()) < first[name], name


def test_grounding_phase_leaves_the_answer_head_alone() -> None:
    torch.manual_seed(0)
    trainee = GridVLMTrainee(RECIPE)
    trainee(batch_at(RECIPE, 0, 32), False)[0].backward()
    head = trainee.model.lm_head.weight.grad
    assert head is not None  # present, so that processes in step wait for nothing
    assert not head.any()


def test_shortcut_twin_is_shown_targets_only() -> None:
    torch.manual_seed(0)
    spur = GridVLMTrainee(dataclasses.replace(RECIPE, mode="spur"))
    parts = spur(batch_at(dataclasses.replace(RECIPE, mode="spur"), 0, 32), True)[1]
    assert float(parts["anchor"]) == 0
    assert float(parts["region"]) == 0
    assert float(parts["target"]) > 0


def test_every_question_and_answer_has_its_token() -> None:
    known = set(build.vocabulary())
    assert set(answers(make_world())) <= known
    assert len(known) == len(build.vocabulary())


def test_a_tokenizer_of_another_model_is_refused(directory: Path, tmp_path: Path) -> None:
    import json
    import shutil

    other = tmp_path / "other"
    shutil.copytree(directory, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    numbers = tokenizer["model"]["vocab"]
    numbers["red"], numbers["blue"] = numbers["blue"], numbers["red"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(BadInput, match="belongs to another model"):
        GridVLM("pure", weights=str(other)).load()


def test_broken_weights_are_refused(directory: Path, tmp_path: Path) -> None:
    import shutil

    with pytest.raises(BadInput, match="karat train"):
        GridVLM("pure", weights=str(tmp_path / "none")).load()
    cut = tmp_path / "cut"
    shutil.copytree(directory, cut)
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:20_000])
    with pytest.raises(BadInput, match="safetensors"):
        GridVLM("pure", weights=str(cut)).load()

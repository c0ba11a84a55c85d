"""Every architecture against transformers' own forward and generate, and the laws that hold for all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import torch
from tiny_vlms import ANSWERS, KINDS

from karat.kernel.sample import Sample
from karat.models.families import FAMILIES
from karat.models.torch_model import ArrangesVision, ReusesImage, SizesBatches, TorchModel
from karat.models.vlm import VLMRecipe, vlm
from karat.probe import Absence, Session, trace

kinds = pytest.mark.parametrize("kind", KINDS)


@cache
def model(kind: str) -> Any:
    return vlm(*tiny_vlms.make(kind), name=kind)


def prepared(built: Any, sample: Sample, said: str = "") -> dict[str, torch.Tensor]:
    """One sample as transformers' processor makes it."""
    content = [{"type": "image"}, {"type": "text", "text": sample.text}]
    chat = built.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    gap = " " if said and not chat[-1].isspace() else ""
    return dict(built.processor(images=[sample.image], text=[chat + gap + said], return_tensors="pt"))


def probability(built: Any, sample: Sample, answer: str) -> float:
    """Joint probability of the answer's tokens, by the module's own forward on the processor's own inputs."""
    asked, whole = prepared(built, sample), prepared(built, sample, answer)
    start = asked["input_ids"].shape[1]
    with torch.no_grad():
        table = built.module(**whole).logits[0].log_softmax(-1)
    said = whole["input_ids"][0, start:]
    return math.exp(sum(float(table[start - 1 + k, number]) for k, number in enumerate(said)))


def test_every_known_family_is_tested() -> None:
    # The same as qwen3_vl, its MLPs apart; and photovlm, whose own tests have the laws.
    assert set(FAMILIES) - set(KINDS) == {"qwen3_vl_moe", "llava/vit"}


# ---- the same as transformers


@kinds
def test_joint_probability_equals_transformers(kind: str) -> None:
    built, asked = model(kind), tiny_vlms.samples(kind)
    assert isinstance(built, TorchModel)
    assert isinstance(built, ReusesImage)
    assert isinstance(built, ArrangesVision)
    assert isinstance(built, SizesBatches)
    expected = [probability(built, sample, answer) for sample, answer in zip(asked, ANSWERS, strict=True)]
    np.testing.assert_allclose(built.score(asked, ANSWERS), expected, rtol=1e-4)


@kinds
def test_images_of_any_size(kind: str) -> None:
    """Resized, cut into tiles or kept in proportion: as the processor has it. Sizes may be mixed."""
    built = model(kind)
    asked = [tiny_vlms.samples(kind, size=size)[i] for i, size in enumerate([(100, 90), (61, 203), (150, 60)])]
    expected = [probability(built, sample, answer) for sample, answer in zip(asked, ANSWERS, strict=True)]
    np.testing.assert_allclose(built.score(asked, ANSWERS), expected, rtol=1e-4)


@kinds
def test_answers_equal_generate(kind: str) -> None:
    built = model(kind)
    asked = [*tiny_vlms.samples(kind), tiny_vlms.samples(kind, 1, (90, 100))[0]]
    expected = []
    for sample in asked:
        given = prepared(built, sample)
        made = built.module.generate(**given, max_new_tokens=8, do_sample=False)[0, given["input_ids"].shape[1] :]
        expected.append(built.processor.tokenizer.decode(made, skip_special_tokens=True).strip())
    assert built.answer(asked) == expected


@kinds
def test_a_directory_is_loaded_as_it_was_saved(kind: str, tmp_path: Path) -> None:
    recipe = VLMRecipe(str(tiny_vlms.saved(kind, tmp_path / f"tiny-{kind}")))
    loaded, asked = recipe.load(), tiny_vlms.samples(kind)
    assert (loaded.name, loaded.capabilities) == (f"tiny-{kind}", recipe.capabilities)
    np.testing.assert_allclose(loaded.score(asked, ANSWERS), model(kind).score(asked, ANSWERS), rtol=1e-5)
    assert loaded.answer(asked) == model(kind).answer(asked)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if FAMILIES[kind].positions == "grid"])
def test_positions_equal_transformers(kind: str) -> None:
    """Rows of different lengths, padded inside the sequence: position of every real token, image rows and columns."""
    from karat.models.vlm_decoder import grid_positions

    built = model(kind)
    inputs = built.encode(tiny_vlms.samples(kind))
    numbers = torch.cat([inputs.other["before"], inputs.tokens, inputs.other["after"]], 1)
    seen = torch.ones_like(numbers)
    seen[:, list(built.layout(inputs).text)] = inputs.token_keep.long()
    layout = built.layout(inputs)
    ours = grid_positions(seen, layout.visual, layout.grid)
    merge, (rows, columns) = built.config.vision_config.spatial_merge_size, layout.grid
    grid = torch.tensor([[1, rows * merge, columns * merge]] * len(numbers))
    kind_of_token = (numbers == built.config.image_token_id).int()
    theirs, _ = built.module.model.get_rope_index(numbers, kind_of_token, grid, attention_mask=seen)
    for i in range(len(numbers)):
        real = seen[i].bool()
        torch.testing.assert_close(ours[:, i, real], theirs[:, i, real])


# ---- laws


@kinds
def test_batched_equals_single(kind: str) -> None:
    built, asked = model(kind), tiny_vlms.samples(kind)
    alone = [float(built.score([sample], [answer])[0]) for sample, answer in zip(asked, ANSWERS, strict=True)]
    np.testing.assert_allclose(built.score(asked, ANSWERS), alone, rtol=1e-4, atol=1e-5)


@kinds
def test_reuse_changes_nothing(kind: str) -> None:
    built = model(kind)
    inputs = built.encode(tiny_vlms.samples(kind))
    kept = built.reuse_image(inputs)
    assert set(kept.reuse) == {"keys", "values"}  # all these templates show the image before the question
    blind = replace(kept, pixels=torch.full_like(kept.pixels, float("nan")))  # whoever looks again is found out
    with torch.no_grad():
        torch.testing.assert_close(
            built.log_probability(blind, ANSWERS), built.log_probability(inputs, ANSWERS), rtol=1e-4, atol=1e-4
        )


@kinds
def test_masking_no_player_is_the_models_own_probability(kind: str) -> None:
    built, asked = model(kind), tiny_vlms.samples(kind, size=(90, 130))
    session = Session(built, asked, ANSWERS)
    for i, own in enumerate(built.score(asked, ANSWERS)):
        game = session.game(i)
        value = game.value(np.ones((1, game.n_visual), bool), np.ones((1, game.n_text), bool))
        np.testing.assert_allclose(value, own, rtol=1e-4, atol=1e-5)
        assert game.n_visual == math.prod(built.layout(session.inputs).grid)
        assert game.n_text == len(asked[i].words)


@kinds
def test_masking_a_patch_changes_exactly_its_pixel_values(kind: str) -> None:
    built = model(kind)
    session = Session(built, tiny_vlms.samples(kind, 1), ["yes"])
    game = session.game(0, absence=Absence(visual="black"))
    rows, columns = built.layout(session.inputs).grid
    mixed = session.masked_inputs(game)
    height, width = mixed.base.pixels.shape[-2:]
    for player in (0, columns - 1, rows * columns - 1):
        keep = np.ones((1, game.n_visual), bool)
        keep[0, player] = False
        changed = (mixed.pixels(keep) != mixed.base.pixels).any(1)[0].numpy()
        expected = np.zeros((height, width), bool)
        r, c = divmod(player, columns)
        tall, wide = height // rows, width // columns
        expected[r * tall : (r + 1) * tall, c * wide : (c + 1) * wide] = True
        np.testing.assert_array_equal(changed, expected)
        given = prepared(built, game.setting.altered(keep, np.ones((1, game.n_text), bool))[0])["pixel_values"]
        before = prepared(built, session.samples[0])["pixel_values"]
        if FAMILIES[kind].positions == "grid":  # rows are patches: those of one merged token, and no other
            merge = built.config.vision_config.spatial_merge_size
            assert int((given != before).any(1).sum()) == merge**2


@kinds
def test_perturbing_the_image_and_the_processed_patches_agree(kind: str) -> None:
    built = model(kind)
    session = Session(built, tiny_vlms.samples(kind, 1), ["yes"])
    game = session.game(0, absence=Absence(visual="blur", radius=3))
    visual = np.random.default_rng(0).random((6, game.n_visual)) < 0.5
    text = np.ones((6, game.n_text), bool)
    mixed = session.masked_inputs(game)
    altered = built.encode(game.setting.altered(visual, text))
    torch.testing.assert_close(mixed.pixels(visual), altered.pixels, rtol=1e-5, atol=1e-5)
    # A thumbnail is downscaled to 256 levels by the processor; ours follows the change without rounding.
    exact = "thumbnail" not in altered.other
    scored = built.score(game.setting.altered(visual, text), ["yes"] * 6)
    np.testing.assert_allclose(game.value(visual, text), scored, rtol=1e-4 if exact else 0.05, atol=1e-5)


@kinds
def test_text_masking_touches_only_question_tokens(kind: str) -> None:
    built = model(kind)
    session = Session(built, tiny_vlms.samples(kind), ANSWERS)
    for i, sample in enumerate(session.samples):
        game = session.game(i)
        masked = session.masked_inputs(game).texts(np.zeros((1, game.n_text), bool))
        base = built.encode([sample])
        assert set(masked.other) == set(base.other)
        for name, tensor in base.other.items():
            torch.testing.assert_close(masked.other[name], tensor)
        inside = torch.zeros_like(base.tokens, dtype=torch.bool)
        for start, stop in base.words[0]:
            inside[0, start:stop] = True
        assert bool((masked.tokens[inside] == built.neutral_token).all())
        torch.testing.assert_close(masked.tokens[~inside], base.tokens[~inside])


@kinds
def test_the_question_and_nothing_else_is_tokens(kind: str) -> None:
    built, asked = model(kind), tiny_vlms.samples(kind)
    inputs, tokenizer = built.encode(asked), built.processor.tokenizer
    for i, sample in enumerate(asked):
        assert tokenizer.decode(inputs.tokens[i][inputs.token_keep[i]]).strip() == sample.text
        spelt = [tokenizer.decode(inputs.tokens[i, start:stop]).strip() for start, stop in inputs.words[i]]
        assert spelt == [sample.text[a:b] for a, b in sample.words]
        whole = torch.cat([inputs.other["before"][i], inputs.tokens[i][inputs.token_keep[i]], inputs.other["after"][i]])
        torch.testing.assert_close(whole, prepared(built, sample)["input_ids"][0])


# ---- where things are in the image


def without_attention(kind: str) -> Any:
    """A model whose vision tower mixes nothing: what a token gets comes from its own place alone."""
    built = vlm(*tiny_vlms.make(kind), name=kind)
    tower = built.module.get_submodule(built.vision)
    silenced = 0
    for name, part in tower.named_modules():
        if isinstance(part, torch.nn.Linear) and name.rsplit(".", 1)[-1] in ("proj", "out_proj", "projection_layer"):
            with torch.no_grad():
                part.weight.zero_()
                part.bias.zero_()
            silenced += 1
    assert silenced == len(built.module.get_submodule(built.family.vision_layers))
    return built


def one_cell_changed(built: Any, kind: str, grid: tuple[int, int], r: int, c: int) -> Any:
    inputs = built.encode(tiny_vlms.samples(kind, 2))
    pixels = inputs.pixels.clone()
    tall, wide = pixels.shape[-2] // grid[0], pixels.shape[-1] // grid[1]
    pixels[1, :, r * tall : (r + 1) * tall, c * wide : (c + 1) * wide] += 1.0
    return inputs, replace(inputs, pixels=pixels)


@kinds
def test_each_visual_token_is_of_its_own_cell(kind: str) -> None:
    built = without_attention(kind)
    grid = built.layout(built.encode(tiny_vlms.samples(kind, 1))).grid
    for r in range(grid[0]):
        for c in range(grid[1]):
            before, after = one_cell_changed(built, kind, grid, r, c)
            with torch.no_grad():
                one, other = (
                    built.family.sight.features(built.module, each.pixels, each.other)["features"]
                    for each in (before, after)
                )
            order = built._decoder.view(before).order
            moved = (one[:, list(order)] - other[:, list(order)]).abs().amax(-1) > 1e-6
            assert moved.nonzero().tolist() == [[1, r * grid[1] + c]]


@kinds
def test_recordings_of_the_vision_tower_lie_over_the_image(kind: str) -> None:
    built = without_attention(kind)
    layers = ["vision.last", "vision.0"]
    with trace(built, tiny_vlms.samples(kind, 1), ["yes"], layers=layers, want={"activations"}) as seen:
        grid = tuple(seen.spatial("vision.last").shape[2:])
    for r, c in {(0, 0), (0, grid[1] - 1), (grid[0] - 1, 1), (grid[0] // 2, grid[1] // 2)}:
        before, after = one_cell_changed(built, kind, grid, r, c)
        maps = []
        for inputs in (before, after):
            with trace(built, inputs, ["yes"] * 2, layers=layers, want={"activations"}) as seen:
                maps.append({layer: seen.spatial(layer).clone() for layer in layers})
        for layer in layers:
            moved = (maps[0][layer] - maps[1][layer]).abs().amax(1) > 1e-6
            assert moved.nonzero().tolist() == [[1, r, c]], layer


@kinds
def test_arranging_by_sample_can_be_undone(kind: str) -> None:
    built = model(kind)
    inputs = built.encode(tiny_vlms.samples(kind, 2))
    kept: list[torch.Tensor] = []
    layer = built.layers["vision.last"]
    hook = built.module.get_submodule(layer).register_forward_hook(lambda *args: kept.append(args[2]))
    with torch.no_grad():
        built.readout(inputs, ["yes", "no"])
    hook.remove()
    by_sample = built.by_sample(layer, kept[0], inputs)
    assert by_sample.shape[0] == 2
    torch.testing.assert_close(built.as_run(layer, by_sample, inputs), kept[0])


@kinds
def test_gradients_flow_to_pixels_words_and_vision(kind: str) -> None:
    built, asked = model(kind), tiny_vlms.samples(kind)
    layers = ["pixels", "words", "vision.last", "decoder.0", "norm.0", "decoder.early"]
    with trace(built, asked, ANSWERS, layers=layers) as seen:
        for name in layers:
            assert bool((seen.gradients[name].flatten(1).abs().sum(1) > 0).all()), name
        assert seen.spatial("norm.0").shape[2:] == built.layout(built.encode(asked)).grid
        direct = built.readout(built.encode(asked), ANSWERS)
        torch.testing.assert_close(seen.scores, direct.detach(), atol=1e-3, rtol=1e-4)
    # The gradient of one sample's score is in its own pixels only.
    inputs = built.encode(asked)
    pixels = inputs.pixels.clone().requires_grad_()
    [slope] = torch.autograd.grad(built.readout(replace(inputs, pixels=pixels), ANSWERS)[1], pixels)
    assert [bool(each.abs().sum() > 0) for each in slope] == [False, True, False]

"""What cannot be found out is said: which probe failed, and what was seen. And adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import vlm_zoo
from tiny_vlms import ANSWERS

from karat.kernel.errors import BadInput
from karat.models.discovery.cells import Movement, view_of
from karat.models.vlm import VLMRecipe, vlm


def refused(module: Any, processor: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        vlm(module, processor, family="discovered")


def test_templates_that_eat_the_question_or_show_two_images() -> None:
    module, processor = tiny_vlms.make("llava")
    template = processor.chat_template
    processor.chat_template = template.replace("{{ part.text }}", "")
    refused(module, processor, "probe 'template': the chat template eats the question")
    processor.chat_template = template.replace("<image>", "<image><image>")
    refused(module, processor, "probe 'template': the prompt shows 2 images")


def test_a_question_that_is_shown_twice() -> None:
    refused(*vlm_zoo.make("instructblip"), "probe 'template': .* a second time, as qformer_input_ids")


def test_a_processor_of_another_model() -> None:
    module, processor = tiny_vlms.make("llava")
    processor.patch_size = 28
    refused(module, processor, "probe 'forward': .*Do processor and weights belong together")


def test_a_model_that_does_not_look() -> None:
    import torch

    module, processor = tiny_vlms.make("llava")
    with torch.no_grad():
        module.model.multi_modal_projector.linear_2.weight.zero_()
    refused(module, processor, "probe 'does the answer depend on the image'")


def test_tokens_that_make_no_grid_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(BadInput, match=r"probe 'which cell': .* make no grid"):
        view_of(Movement(rng.random((16, 24)), rng.random((16, 24)), 1))
    with pytest.raises(BadInput, match="no visual token of 16 moves"):
        view_of(Movement(np.zeros((16, 24)), np.zeros((16, 24)), 1))
    # A grid over the left half of the image is none over the image.
    rows, columns = np.divmod(np.arange(16), 4)
    down, across = (np.arange(24) // 6 == k[:, None] for k in (rows, columns))
    assert view_of(Movement(1.0 * down, 1.0 * across, 1)).grid == (4, 4)
    left = np.arange(24) // 2 == columns[:, None]
    with pytest.raises(BadInput, match="make no grid"):
        view_of(Movement(1.0 * down, 1.0 * left, 1))


def test_an_adapter_is_merged_and_is_part_of_identity(tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    folder = tiny_vlms.saved("llava", tmp_path / "weights")
    module, processor = tiny_vlms.make("llava")
    torch.manual_seed(0)
    tuned = get_peft_model(module, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    tuned.save_pretrained(tmp_path / "adapter")
    asked = tiny_vlms.samples("llava")
    merged = vlm(folder, adapter=str(tmp_path / "adapter")).score(asked, ANSWERS)
    unmerged = vlm(tuned.base_model.model, processor).score(asked, ANSWERS)
    plain = vlm(folder).score(asked, ANSWERS)
    np.testing.assert_allclose(merged, unmerged, rtol=1e-3)
    assert np.abs(merged / plain - 1).max() > 0.01
    with_adapter, without = VLMRecipe(str(folder), adapter=str(tmp_path / "adapter")), VLMRecipe(str(folder))
    assert with_adapter.revision != without.revision
    with pytest.raises(BadInput, match="is no adapter"):
        vlm(folder, adapter=str(tmp_path))

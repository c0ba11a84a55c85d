"""Laws of variants hold for what is right, and find a wrong kernel, weights that 16 bits destroy, a wrong merge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tiny_vlms
import torch
import vlm_zoo
from tiny_vlms import ANSWERS

from karat.models.vlm import vlm
from karat.testing import vlm_laws

KERNEL = "another attention kernel gives the same explanations"
PRECISION = "bfloat16 and float32 give maps of the same ranks"
ADAPTER = "an adapter merged is the adapter beside the weights"
SIZES = "a sample is the same among others of other sizes"


def broken(model: Any, *names: str, size: tuple[int, int] = (70, 130)) -> str:
    laws = vlm_laws(model, tiny_vlms.samples("llava", 1, size), ANSWERS[:1], only=names)
    assert {law.name for law in laws} == set(names)
    return "; ".join(law.found for law in laws if not law.holds)


@pytest.mark.parametrize("family", [None, "discovered"])
def test_all_hold_and_leave_the_model_as_it_was(family: str | None) -> None:
    module, processor = tiny_vlms.make("qwen2_5_vl")
    model = vlm(module, processor, family=family)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    kernel = module.config._attn_implementation
    assert broken(model, KERNEL, PRECISION, ADAPTER, SIZES) == ""
    assert module.config._attn_implementation == kernel
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_a_model_that_only_answers_is_compared_by_hiding_cells() -> None:
    model = vlm(*vlm_zoo.make("idefics"), family="discovered")
    assert model.family.level == "asks"
    assert broken(model, KERNEL, ADAPTER) == ""


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    right: Any = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def warm(*args: Any, scaling: float | None = None, **kwargs: Any) -> Any:
        return right(*args, scaling=0.9 * (scaling or args[1].shape[-1] ** -0.5), **kwargs)

    model = vlm(*tiny_vlms.make("llava"))
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", warm)  # type: ignore[arg-type]  # a mapping
    assert "score of sdpa and eager differ" in broken(model, KERNEL)


def test_weights_that_16_bits_destroy_are_found() -> None:
    module, processor = tiny_vlms.make("llava")
    with torch.no_grad():
        module.model.vision_tower.embeddings.position_embedding.weight.add_(1000.0)  # a norm takes it off again
    reason = broken(vlm(module, processor), PRECISION)
    assert "rank correlation of maps in bfloat16 and float32: gradient" in reason
    assert "below 0.95" in reason


def test_a_wrong_merge_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from peft.tuners.lora.layer import Linear

    right = Linear.get_delta_weight
    model = vlm(*tiny_vlms.make("llava"))
    monkeypatch.setattr(Linear, "get_delta_weight", lambda self, adapter: 2 * right(self, adapter))
    assert "of merged and beside the weights differ" in broken(model, ADAPTER)


def test_padding_that_is_seen_is_found() -> None:
    model = vlm(*vlm_zoo.make("qwen3_5"), family="discovered")
    assert broken(model, SIZES) == ""
    assert model.family.padding == "apart"  # states run over padding
    careless = replace(model, family=replace(model.family, padding="masked"))
    assert "expected" in broken(careless, SIZES)


def test_quantised_weights_are_not_cast() -> None:
    model = vlm(*tiny_vlms.make("llava"))
    quantised = replace(model, parameters=replace(model.parameters, quantised="8bit"))
    laws = vlm_laws(quantised, tiny_vlms.samples("llava", 1), ANSWERS[:1], only=(PRECISION, ADAPTER, KERNEL))
    assert [law.name for law in laws] == [KERNEL]

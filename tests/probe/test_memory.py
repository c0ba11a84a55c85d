"""Memory foretold from a configuration: against parameters that were counted, and against what autograd keeps; and that
of long sequences, which grows as the tokens do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaModel

from karat.kernel.registry import build
from karat.kernel.sample import Sample
from karat.models.vlm import vlm
from karat.probe.memory import KEPT, Dimensions, Kept, dimensions, forecast, what_fits
from karat.probe.session import Session
from tests.models.tiny_llava import make_module, make_processor

CONFIG: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 6, "intermediate_size": 160, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128, "head_dim": 16,
}  # fmt: skip
MODEL = dimensions(CONFIG)


def test_parameters_are_those_of_the_module() -> None:
    module = LlamaModel(LlamaConfig(**CONFIG))
    inner = sum(p.numel() for name, p in module.named_parameters() if name.startswith("layers"))
    assert MODEL.decoder.parameters == inner


def test_a_vision_language_model_has_two_stacks() -> None:
    both = dimensions({"text_config": CONFIG, "vision_config": {"hidden_size": 32, "num_hidden_layers": 3}})
    assert both.vision is not None
    assert (both.decoder, both.vision.layers, both.vision.mlp) == (MODEL.decoder, 3, 128)


def kept(tokens: int) -> int:
    """Bytes that autograd keeps of a forward with frozen weights, each storage once."""
    module = LlamaModel(LlamaConfig(**CONFIG)).eval().requires_grad_(False)
    weights = {tensor.untyped_storage().data_ptr() for tensor in (*module.parameters(), *module.buffers())}
    held: dict[int, int] = {}
    tensors: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        pointer = tensor.untyped_storage().data_ptr()
        if pointer not in weights:
            held[pointer] = tensor.untyped_storage().nbytes()
            tensors.append(tensor)  # so that no other takes its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(inputs_embeds=torch.rand(1, tokens, 64, requires_grad=True), use_cache=False)
    return sum(held.values())


@pytest.mark.parametrize("tokens", [64, 256])
def test_what_a_backward_pass_keeps_is_foretold(tokens: int) -> None:
    assert forecast(MODEL, "gradients", tokens).kept == pytest.approx(kept(tokens), rel=0.25)


@pytest.mark.parametrize("kind", KEPT)
def test_memory_is_linear_in_tokens_and_grows_with_rows(kind: Kept) -> None:
    def above(tokens: int, rows: int = 1) -> float:
        seen = forecast(MODEL, kind, tokens, rows=rows)
        return seen.peak - seen.weights

    steps = [above(tokens) for tokens in (1024, 2048, 3072, 4096)]
    assert steps[2] - steps[1] == pytest.approx(steps[1] - steps[0])
    assert steps[3] - steps[2] == pytest.approx(steps[1] - steps[0])
    assert above(1024, rows=4) == pytest.approx(4 * steps[0])


def test_a_checkpointed_trace_of_24_layers_keeps_less_than_a_third() -> None:
    deep = Dimensions(replace(MODEL.decoder, layers=24))
    assert forecast(deep, "gradients", 512, checkpointed=True).kept < forecast(deep, "gradients", 512).kept / 3


def test_what_would_fit_is_said_and_does_fit() -> None:
    plain = forecast(MODEL, "gradients", 4096)
    assert what_fits(MODEL, "gradients", 4096, 0, plain.peak, 4)[0] == "checkpointed traces"
    assert what_fits(MODEL, "gradients", 4096, 0, 1, 4) == []
    only = forecast(MODEL, "nothing", 4096).peak
    assert any(way.startswith("an explainer that only asks") for way in what_fits(MODEL, "gradients", 4096, 0, only, 4))


# --- long sequences: what explanations keep, in bytes; whole maps are the counterexample ---

FEW, MANY = 8, 16  # cells a side
PATCH = 4


def bytes_kept(cells: int, explainer: str | None) -> int:
    """Bytes that autograd saves for the backward pass, and that a trace holds when it is over, weights left out.
    Without an explainer: of a trace of whole attention maps and their gradients."""
    side = PATCH * cells
    processor = make_processor(side=side, patch=PATCH)
    module = make_module(processor, side=side, patch=PATCH, vision=(1, 32), decoder=(4, 32))
    image = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    session = Session(
        vlm(module, processor, "llava"), [Sample("s", image, "how many red circles are there ?")], ["two"]
    )
    weights = {each.untyped_storage().data_ptr() for each in (*module.parameters(), *module.buffers())}
    held: dict[int, Tensor] = {}

    def hold(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            held[tensor.untyped_storage().data_ptr()] = tensor  # kept alive, so that no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        if explainer is None:
            trace = session.trace(want=("attention", "attention_gradients"))
            for recorded in (*trace.attention.values(), *trace.attention_gradients.values()):
                hold(recorded)
        else:
            build("explainer", explainer, {})(session)
    for _, trace in session._traces:
        for part in trace.heads.values():
            _ = [hold(each) for each in vars(part).values() if isinstance(each, Tensor)]
    return sum(each.untyped_storage().nbytes() for each in held.values())


def growth(explainer: Any) -> float:
    return bytes_kept(MANY, explainer) / bytes_kept(FEW, explainer)


@pytest.mark.parametrize("explainer", ["attention/rollout", "attention/grad_rollout", "relevance/attnlrp"])
def test_four_times_the_tokens_take_four_times_the_memory(explainer: str) -> None:
    assert 3 < growth(explainer) < 4.1


def test_whole_maps_would_take_more() -> None:
    """The same count, where n² is kept: so it would be seen above."""
    assert growth(None) > 7

"""Laws of variants: a vision-language model run by another attention kernel, in other numbers, or with an adapter.

Each builds the variant beside the model and compares what explanations are made of: scores, gradients with respect to
pixels, attention to visual tokens; or, where there are no gradients, what it costs to hide each cell of the image.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from karat.kernel.sample import Sample
from karat.models.discovery.model import DiscoveredVLM
from karat.models.vlm_adapter import VLM
from karat.probe.session import Session
from karat.probe.trace import trace

Maps = Mapping[str, npt.NDArray[np.float64]]
KERNELS = ("eager", "sdpa", "flash_attention_2")
RANKS = 0.95  # rank correlation of maps of the same weights in 16 and in 32 bits
_SAME = 1e-3  # of the largest value of a map, and of a probability


def kernels(module: Any) -> tuple[str, ...]:
    """Attention kernels that this model runs with here."""
    if not hasattr(module, "set_attn_implementation"):
        return ()
    return tuple(name for name in KERNELS if _installed(name) and _takes(module, name))


def same_by_kernel(model: VLM | DiscoveredVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """What differs between two kernels that run here."""
    made = {}
    for name in kernels(model.module):
        with _kernel(model.module, name):
            made[name] = explanation(model, samples[0], answers[0])
    [(first, expected), *others] = made.items()
    return "; ".join(part for name, maps in others if (part := _unlike(maps, expected, name, first)))


def same_by_precision(model: VLM | DiscoveredVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """Ranks of maps of the same weights in 16 and in 32 bits."""
    from scipy.stats import spearmanr

    wide = next(model.module.parameters()).dtype in (torch.float32, torch.float64)
    other = _with(model, copy.deepcopy(model.module).to(torch.bfloat16 if wide else torch.float32))
    own, theirs = (explanation(each, samples[0], answers[0]) for each in (model, other))
    ranks = {
        name: float(spearmanr(own[name].ravel(), theirs[name].ravel()).statistic) for name in own if name != "score"
    }
    low = [f"{name} {rank:.3f}" for name, rank in ranks.items() if not rank >= RANKS]
    return f"rank correlation of maps in bfloat16 and float32: {', '.join(low)}, below {RANKS}" if low else ""


def same_merged(model: VLM | DiscoveredVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """An adapter drawn at random over every linear layer of the decoder, beside the same merged into the weights."""
    import peft

    layers = model.layers["decoder.0"].rpartition(".")[0]
    chosen = [
        name
        for name, part in model.module.get_submodule(layers).named_modules(prefix=layers)
        if isinstance(part, nn.Linear)
    ]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = peft.LoraConfig(r=2, lora_alpha=2, target_modules=chosen, init_lora_weights=False)
        tuned: Any = peft.get_peft_model(copy.deepcopy(model.module), config).eval()
    beside = explanation(_with(model, tuned.base_model.model), samples[0], answers[0])
    merged = explanation(_with(model, tuned.merge_and_unload(safe_merge=True)), samples[0], answers[0])
    if not _unlike(beside, explanation(model, samples[0], answers[0])):
        return f"an adapter over {len(chosen)} linear layers of {layers} changes nothing"
    return _unlike(merged, beside, "merged", "beside the weights")


def explanation(model: VLM | DiscoveredVLM, sample: Sample, answer: str) -> Maps:
    """The score of an answer, and its maps by name."""
    maps = {"score": np.asarray(model.score([sample], [answer]), dtype=np.float64)}
    if "gradients" not in model.capabilities:
        game = Session(model, [sample], [answer]).game(0)
        kept = np.ones((game.n_visual, game.n_visual), bool) ^ np.eye(game.n_visual, dtype=bool)
        values = game.value(kept, np.ones((game.n_visual, game.n_text), bool))
        return maps | {"hidden cells": np.asarray(values, dtype=np.float64)}
    opens = "attention" in model.capabilities
    wanted = {"gradients", *(["attention"] if opens else [])}
    with trace(model, [sample], [answer], layers=["pixels"], want=wanted) as recorded:
        maps["gradient"] = _floats(recorded.gradients["pixels"].abs().sum(1))
        if opens:
            assert recorded.layout is not None
            places, reading = list(recorded.layout.visual or ()), recorded.layout.readout
            rows = [recorded.attention[name][0, :, reading, places] for name in model.attention_layers]
            maps["attention"] = np.stack([_floats(row) for row in rows])
    return maps


def can_be_copied(model: VLM | DiscoveredVLM) -> bool:
    """Quantised weights, and those spread over devices, are not cast or copied."""
    return model.parameters.quantised is None and model.parameters.device != "auto"


def can_be_adapted(model: VLM | DiscoveredVLM) -> bool:
    return can_be_copied(model) and find_spec("peft") is not None and "decoder.0" in model.layers


def _unlike(maps: Maps, expected: Maps, ours: str = "", theirs: str = "") -> str:
    for name, own in maps.items():
        other = expected[name]
        off = float(np.abs(own - other).max() / max(np.abs(other).max(), 1e-30))
        if not off <= _SAME:
            return f"{name} of {ours} and {theirs} differ by {off:.2g} of the largest value"
    return ""


def _with(model: VLM | DiscoveredVLM, module: nn.Module) -> VLM | DiscoveredVLM:
    return replace(model, module=module.eval())


def _floats(tensor: torch.Tensor) -> npt.NDArray[np.float64]:
    return tensor.detach().double().cpu().numpy()


@cache
def _installed(kernel: str) -> bool:
    return not kernel.startswith("flash") or (torch.cuda.is_available() and find_spec("flash_attn") is not None)


def _takes(module: Any, kernel: str) -> bool:
    try:
        with _kernel(module, kernel):
            return bool(module.config._attn_implementation == kernel)
    except (ValueError, ImportError, RuntimeError):
        return False


@contextmanager
def _kernel(module: Any, name: str) -> Iterator[None]:
    """The module with this kernel in all its parts, for the while."""
    parts = [each for each in module.modules() if hasattr(getattr(each, "config", None), "_attn_implementation")]
    before = [(part.config, part.config._attn_implementation) for part in parts]
    try:
        module.set_attn_implementation(name)
        yield
    finally:
        for config, kernel in before:
            config._attn_implementation = kernel

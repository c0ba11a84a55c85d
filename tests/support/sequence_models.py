"""Transformers that attend over one sequence: class token or none, registers, shared key heads, text first or last."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import timm
import torch
from torch import nn

from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.models.vlm import vlm
from tests.models.tiny_llava import IMAGE_FIRST, TEXT_FIRST, make_module, make_processor

TEXTS = ("how many red circles are left of blue squares ?", "are there any green squares ?", "how many ?")
ANSWERS = ("yes", "twenty one", "no")


def _vit(**options: Any) -> Any:
    torch.manual_seed(0)
    name = options.pop("name", "vit_tiny_patch16_224")
    module = timm.create_model(name, num_classes=5, img_size=(48, 64), patch_size=16, embed_dim=24, **options)
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.4)  # sharp attention, so that rules differ
    return classifier(module.double(), Preprocessing((48, 64)))


def _llava(order: str, layers: int, key_value_heads: int) -> Any:
    processor = make_processor(order)
    module = make_module(processor, decoder=(layers, 32), key_value_heads=key_value_heads)
    return vlm(module.double(), processor, name="tiny")


BUILD: dict[str, Callable[[], Any]] = {
    "class_token": lambda: _vit(depth=2, num_heads=2),
    "no_class_token": lambda: _vit(depth=3, num_heads=3, class_token=False, global_pool="avg"),
    "registers": lambda: _vit(name="vit_small_patch14_reg4_dinov2", depth=2, num_heads=2),
    "grouped_queries": lambda: _llava(IMAGE_FIRST, 3, 2),
    "one_key_head_text_first": lambda: _llava(TEXT_FIRST, 2, 1),
}


@cache
def model(key: str) -> Any:
    return BUILD[key]()


def samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), text) for i, text in enumerate(TEXTS)]


def targets(key: str) -> list[str]:
    return list(ANSWERS) if model(key).capabilities >= {"text"} else ["1", "3", "0"]

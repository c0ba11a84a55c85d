"""Small models of every architecture that explainers are tested on, with random weights, and samples to ask them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import timm
import tiny_vlms
import torch
import torchvision
from torch import nn

import karat
from karat.datasets.grid import generate
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.clip import clip
from karat.models.preprocessing import Preprocessing
from karat.models.torch_model import TorchModel
from karat.models.vlm import vlm
from karat.probe import Session
from tests.models.tiny_llava import make_module, make_processor

SIDE = 64


def _timm(name: str, **options: Any) -> TorchModel:
    torch.manual_seed(0)
    module = timm.create_model(name, num_classes=5, **options)
    nn.init.normal_(module.get_classifier().weight)  # some start at zero, which makes every gradient zero
    return classifier(module, Preprocessing((SIDE, SIDE)), name=name)


def _resnet() -> TorchModel:
    torch.manual_seed(0)
    module = torchvision.models.resnet18(num_classes=5)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):  # as trained: fresh norms subtract nothing and have no bias
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.normal_(part.bias, std=0.1)
    return classifier(module, Preprocessing((SIDE, SIDE)), labels=list("abcde"), name="resnet18")


def _llava() -> TorchModel:
    processor = make_processor()
    return vlm(make_module(processor, decoder=(5, 32)), processor, name="tiny-llava")


def _clip() -> TorchModel:
    return clip(*tiny_vlms.make_clip("clip"), labels=LABELS, name="tiny-clip")


def _tiny(kind: str) -> TorchModel:
    return vlm(*tiny_vlms.make(kind), name=f"tiny-{kind}")


LABELS = ("cup", "red circle", "bottle")
DYNAMIC = ("qwen2_vl", "qwen2_5_vl", "internvl")  # with the sizes of `tiny_vlms.NATIVE`
BUILDERS: dict[str, Callable[[], Any]] = {
    "resnet": _resnet,
    "vit": lambda: _timm("vit_tiny_patch16_224", img_size=SIDE, depth=6, embed_dim=24, num_heads=2),
    "swin": lambda: _timm(
        "swin_tiny_patch4_window7_224",
        img_size=SIDE,
        window_size=4,
        depths=(1, 1, 1, 2),
        embed_dim=24,
        num_heads=(1, 2, 2, 4),
    ),
    "gridprog": lambda: karat.load_model("gridprog.pure"),
    "gridnet": lambda: karat.load_model("gridnet.pure"),
    "gridvlm": lambda: karat.load_model("gridvlm.pure"),
    "llava": _llava,
    "clip": _clip,
    **{kind: partial(_tiny, kind) for kind in DYNAMIC},
}
READS_TEXT = ("gridprog", "gridnet", "gridvlm", "llava", *DYNAMIC)


@cache
def model(key: str) -> Any:
    return BUILDERS[key]()


def samples(key: str, n: int = 3) -> list[Sample]:
    """Questions of one length or of several, as the model can read them."""
    if key.startswith("grid"):
        return list(generate("D2_M_F0_d0.7", n, seed=1))
    if key in DYNAMIC:
        return tiny_vlms.samples(key, n)
    side = 96 if key == "llava" else SIDE
    rng = np.random.default_rng(0)
    texts = ["how many red circles are left of blue squares ?", "are there any green squares ?", "how many circles ?"]
    return [
        Sample(f"s{i}", rng.integers(0, 256, (side, side, 3), dtype=np.uint8), texts[i % 3] if key == "llava" else None)
        for i in range(n)
    ]


def targets(key: str, n: int = 3) -> list[str]:
    if key == "resnet":
        return ["b", "d", "a"][:n]
    if key in ("vit", "swin"):
        return ["1", "3", "0"][:n]
    if key == "llava":
        return ["yes", "twenty one", "2"][:n]
    if key == "clip":
        return list(LABELS)[:n]
    if key in DYNAMIC:
        return list(tiny_vlms.ANSWERS)[:n]
    return list(model(key).answer(samples(key, n)))


def session(key: str, n: int = 3) -> Session:
    return Session(model(key), samples(key, n), targets(key, n))

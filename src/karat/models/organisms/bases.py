"""Bases: models without a rule, that a rule can be put into, and organisms: bases with what was trained put in. All of
them are opened here. Adapters are merged, so every explainer knows the layers it meets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from karat.datasets.cues.world import ANSWERS
from karat.kernel.errors import BadInput
from karat.models.classifier import Classifier
from karat.models.organisms.adapters import apply
from karat.models.organisms.files import read_origin, read_tensors
from karat.models.organisms.recipe import LOOKS, READS
from karat.models.vlm_adapter import VLM

PHOTOCNN = "efficientnet-lite0"  # of the zoo
FROZEN_STAGES = 5  # of photocnn: up to a stride of 16, fine enough for a printed word
_HEADS = ("classifier", "head", "fc", "head.fc")


def open_base(name: str, implant: str, seed: int = 0) -> VLM | Classifier:
    """A base by name, as an implant needs it. What is not pretrained gets its first weights from the seed.

    From "scratch", photovlm has nothing but its tower and a classifier nothing at all; else photovlm is the one that
    answers by content, and a classifier has its published weights and a new last layer.
    """
    if name == "photovlm":
        from karat.models.photovlm.files import load_photovlm

        return load_photovlm(seed, content=implant != "scratch")
    if name == "photocnn":
        from karat.models.zoo import ZooRecipe

        loaded: Any = ZooRecipe(PHOTOCNN, random=implant == "scratch").load()
    else:
        loaded = _recipe(name, pretrained=implant != "scratch").load()
    if isinstance(loaded, Classifier):
        torch.manual_seed(seed)
        return two_classes(loaded)
    if not isinstance(loaded, VLM):
        raise BadInput(
            f"{name} is a {type(loaded).__name__}; a base is a vision-language model of transformers (a directory or "
            "a hub id), a classifier by its timm name or as torchvision:NAME, photovlm or photocnn."
        )
    return loaded


def _recipe(name: str, pretrained: bool = True) -> Any:
    from karat.kernel.registry import build, registered
    from karat.models import recipe

    if Path(name).is_dir() or name.count("/") == 1:
        return recipe(name)
    if name.partition(".")[0] in registered("model"):
        return recipe(name)
    return build("model", "classifier", {"architecture": name, "pretrained": pretrained})


def two_classes(model: Classifier) -> Classifier:
    """The classifier with a new last layer that says "yes" or "no"."""
    module = model.module
    for name in _HEADS:
        owner_name, _, last = name.rpartition(".")
        owner = module.get_submodule(owner_name) if owner_name in dict(module.named_modules()) else None
        layer = getattr(owner, last, None)
        if isinstance(layer, nn.Sequential) and len(layer) and isinstance(layer[-1], nn.Linear):
            layer[-1] = nn.Linear(layer[-1].in_features, len(ANSWERS))
        elif isinstance(layer, nn.Linear):
            setattr(owner, last, nn.Linear(layer.in_features, len(ANSWERS)))
        else:
            continue
        return dataclasses.replace(model, labels=ANSWERS)
    raise BadInput(f"{model.name} has no last linear layer called {', '.join(_HEADS)}; wrap it so that it has one.")


def head_names(model: Classifier) -> tuple[str, ...]:
    """Parameters of the last layer, which is new and always trained."""
    known = dict(model.module.named_parameters())
    return tuple(name for name in known if name.rsplit(".", 1)[0].startswith(_HEADS))


def early_stages(module: nn.Module) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """photocnn cut in two: what stays frozen, and what follows it."""
    net: Any = module

    def early(pixels: Tensor) -> Tensor:
        return net.blocks[:FROZEN_STAGES](net.bn1(net.conv_stem(_channels_last(pixels))))

    def late(features: Tensor) -> Tensor:
        return net.forward_head(net.bn2(net.conv_head(net.blocks[FROZEN_STAGES:](_channels_last(features)))))

    return early, late


def _channels_last(x: Tensor) -> Tensor:
    """Convolutions over each channel alone take half the time on a CPU this way."""
    return x.contiguous(memory_format=torch.channels_last)


def base_capabilities(name: str) -> frozenset[str]:
    """What a base offers, without loading it."""
    if name in ("photovlm", "photocnn"):
        return READS if name == "photovlm" else LOOKS
    offered: frozenset[str] = _recipe(name).capabilities
    return offered - {"mechanism"}


def load_organism(path: Path, name: str) -> VLM | Classifier:
    """A model of Karat whose `mechanism` is the rule it follows."""
    facts = read_origin(path)
    model = open_base(facts.base, facts.implant)
    apply(model.module, read_tensors(path), facts.scale)
    model.module.requires_grad_(False)
    return dataclasses.replace(model, name=name, mechanism=facts.mechanism)


def save_merged(model: VLM, directory: str | Path) -> Path:
    """The whole model as transformers knows it: `AutoModelForImageTextToText.from_pretrained(directory)`."""
    out = Path(directory)
    out.mkdir(parents=True, exist_ok=True)
    module, processor = model.module, model.processor
    module.save_pretrained(out)  # type: ignore[operator]
    processor.save_pretrained(out)
    return out

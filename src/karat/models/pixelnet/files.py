"""Weights of `pixelnet` on disk: one safetensors file that says what it is, what it was shown and how right it is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karat.kernel.errors import BadInput
from karat.models.preprocessing import Preprocessing

if TYPE_CHECKING:
    from torch import nn

    from karat.models.classifier import Classifier

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
_KEY = "pixelnet"
_CAM_LAYER = {"resnet-small": "layer4", "resnet20": "layer3"}  # the others are found by their structure


@dataclass(frozen=True)
class Facts:
    """What a weights file says about itself. `mechanism` is "takes_shortcut" where the shortcut was in the training
    images; `recipe` is how it was made; `accuracy` holds clean, perturbed and dominant rates on the test split."""

    architecture: str
    side: int
    labels: tuple[str, ...]
    mechanism: str | None = None
    mean: tuple[float, float, float] = MEAN
    std: tuple[float, float, float] = STD
    recipe: dict[str, Any] = field(default_factory=dict)
    accuracy: dict[str, float] = field(default_factory=dict)


def save_network(module: nn.Module, facts: Facts, path: Path, half: bool = False) -> Path:
    """`half` rounds what was learned to 16 bits; statistics of batch norm, which may be tiny or huge, stay whole."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    learned = {name for name, _ in module.named_parameters()} if half else set()
    tensors = {
        name: (tensor.half() if name in learned else tensor).detach().cpu().contiguous()
        for name, tensor in module.state_dict().items()
    }
    save_file(tensors, path, metadata={"format": "pt", _KEY: json.dumps(asdict(facts), sort_keys=True)})
    return path


def read_facts(path: Path) -> Facts:
    """The facts of a weights file, without loading it into torch."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get(_KEY)
    except FileNotFoundError:
        raise BadInput(f"there are no weights at {path}; train some with `karat train pixel`.") from None
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} is not a whole safetensors file: {error}. Train it again or fetch it anew.") from None
    if text is None:
        raise BadInput(
            f"{path} was not written by `karat train pixel`; wrap other networks with karat.models.classifier."
        )
    data = json.loads(text)
    return Facts(**{**data, "labels": tuple(data["labels"]), "mean": tuple(data["mean"]), "std": tuple(data["std"])})


def load_classifier(path: Path, name: str) -> Classifier:
    """The classifier of a weights file, ready to answer."""
    from safetensors.torch import load_file

    from karat.models.pixelnet.architectures import build_network

    facts = read_facts(path)
    module = build_network(facts.architecture, facts.side, len(facts.labels))
    try:
        module.load_state_dict(load_file(path))
    except RuntimeError as error:
        raise BadInput(f"{path} does not fit {facts.architecture}: {' '.join(str(error).split())[:200]}") from None
    return as_classifier(module, facts, name)


def as_classifier(module: nn.Module, facts: Facts, name: str) -> Classifier:
    from karat.models.classifier import classifier

    for parameter in module.parameters():
        parameter.requires_grad_(False)
    preprocessing = Preprocessing((facts.side, facts.side), facts.mean, facts.std)
    layer = _CAM_LAYER.get(facts.architecture)
    return classifier(module, preprocessing, facts.labels, name, layer, facts.mechanism)

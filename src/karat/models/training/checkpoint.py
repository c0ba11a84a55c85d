"""A training run on disk: weights and optimiser moments in one safetensors file, replaced as a whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from karat.kernel.errors import BadInput

NAME = "checkpoint.safetensors"
_MOMENTS = ("exp_avg", "exp_avg_sq")


class Trained(Protocol):
    """What a checkpoint must know of a recipe: its names, and that of what came to pass before a step."""

    @property
    def identity(self) -> str: ...
    @property
    def label(self) -> str: ...
    def schedule(self, step: int) -> str: ...


@dataclass(frozen=True)
class Place:
    """Where a run stands: steps done and seconds spent on them."""

    step: int = 0
    seconds: float = 0.0


def save(directory: Path, recipe: Trained, module: nn.Module, optimizer: torch.optim.Optimizer, place: Place) -> None:
    """Written beside the old one and then put in its place, so that a kill leaves one or the other, never half."""
    from safetensors.torch import save_file

    tensors = {f"weight.{name}": tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    updates = 0.0  # of the moments: fewer than steps where a stage began with fresh ones
    for name, parameter in module.named_parameters():
        state = optimizer.state.get(parameter, {})
        updates = max(updates, float(state.get("step", 0.0)))
        tensors |= {f"{key}.{name}": state[key].detach().cpu().contiguous() for key in _MOMENTS if key in state}
    metadata = {
        "recipe": recipe.identity, "label": recipe.label, "step": str(place.step), "seconds": repr(place.seconds),
        "schedule": recipe.schedule(place.step), "updates": repr(updates),
    }  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f".{NAME}.{os.getpid()}"
    save_file(tensors, temporary, metadata=metadata)
    os.replace(temporary, directory / NAME)


def restore(directory: Path, recipe: Trained, module: nn.Module, optimizer: torch.optim.Optimizer) -> Place:
    """Load what is there into module and optimiser, and say how far it had come; nothing there is step 0."""
    from safetensors import SafetensorError, safe_open

    path = directory / NAME
    if not path.exists():
        return Place()
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # safe_open is no mapping
    except (SafetensorError, OSError) as error:
        raise BadInput(f"checkpoint {path} is no whole safetensors file: {error}. Delete it to start anew.") from None
    if metadata.get("recipe") != recipe.identity:
        raise BadInput(
            f"checkpoint {path} was made by another recipe ({metadata.get('label', 'unknown')}, "
            f"{metadata.get('recipe', 'no identity')}; this one is {recipe.identity}). "
            "Give the old recipe, another --out, or --fresh."
        )
    place = Place(int(metadata["step"]), float(metadata["seconds"]))
    if metadata.get("schedule") != recipe.schedule(place.step):
        raise BadInput(
            f"checkpoint {path} stands at step {place.step}, where the learning rate has begun to fall towards another "
            "end than this recipe's. Give the old recipe, another --out, or --fresh."
        )
    weights = {name.removeprefix("weight."): t for name, t in tensors.items() if name.startswith("weight.")}
    problem = module.load_state_dict(weights, strict=False)
    if problem.missing_keys or problem.unexpected_keys:
        wrong = [*problem.missing_keys, *problem.unexpected_keys]
        raise BadInput(f"checkpoint {path} does not fit the network: {wrong[0]!r} is missing or unknown.")
    updates = float(metadata.get("updates", place.step))
    for name, parameter in module.named_parameters():
        if f"{_MOMENTS[0]}.{name}" in tensors:
            state = {key: tensors[f"{key}.{name}"].to(parameter.device) for key in _MOMENTS}
            optimizer.state[parameter] = {"step": torch.tensor(updates), **state}
    return place

"""From a recipe to a directory that can be shipped: train, evaluate on fresh samples, export, write the card."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from karat.kernel.errors import BadInput
from karat.models.training import checkpoint
from karat.models.training.card import Facts, write_card
from karat.models.training.evaluation import PER_BUCKET, evaluate
from karat.models.training.loop import make_optimizer
from karat.models.training.progress import Callback
from karat.models.training.recipe import Recipe
from karat.models.training.twins import Trainee, build_trainee, spread, train_twin
from karat.models.weights import file_revision


def train_and_finish(
    recipe: Recipe, out: Path, resume: bool, devices: int, progress: Callback | None, start: Path | None = None
) -> Path:
    if torch.cuda.is_available() and devices > torch.cuda.device_count():
        raise BadInput(f"{devices} devices were asked for; this machine has {torch.cuda.device_count()}.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {out}: {error.strerror or error}.") from None
    if devices > 1:
        spread(recipe, out, resume, devices)
        module, _ = load_checkpoint(recipe, out)
    else:
        module = train_twin(recipe, out, resume, progress, start=start)
    finish(recipe, out, module, devices)
    return out


def load_checkpoint(recipe: Recipe, out: Path) -> tuple[Trainee, checkpoint.Place]:
    """The trainee as its last checkpoint has it, and how far it had come."""
    module = build_trainee(recipe)
    place = checkpoint.restore(out, recipe, module, make_optimizer(recipe, module))
    return module, place


def finish(recipe: Recipe, out: Path, module: Trainee, devices: int = 1, per_bucket: int = PER_BUCKET) -> Path:
    """Export the weights and write the card; both modes are evaluated, because a twin is known by what it fails at."""
    module.round()
    evaluations = [evaluate(module, mode, per_bucket) for mode in ("pure", "spur")]
    exported = module.export(out)
    weights = exported / "model.safetensors" if exported.is_dir() else exported
    place = load_checkpoint(recipe, out)[1]
    facts = Facts(
        recipe=recipe,
        step=place.step,
        parameters=sum(int(p.numel()) for p in module.shipped.parameters()),
        size=weights.stat().st_size,
        revision=file_revision(weights),
        minutes=place.seconds / 60,
        hardware=_hardware(devices),
    )
    return write_card(out / f"{recipe.label}.md", facts, evaluations)


def _hardware(devices: int) -> str:
    if torch.cuda.is_available():
        return f"{devices} × {torch.cuda.get_device_name()}"
    return f"CPU, {torch.get_num_threads() * devices} thread(s) on a machine of {os.cpu_count()} cores"

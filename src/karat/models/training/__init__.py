"""`train`: make a twin from its recipe. The shipped weights were made by exactly these recipes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from karat.kernel.errors import BadInput, ExtraMissing
from karat.models.training.recipe import Recipe, load_recipe

if TYPE_CHECKING:
    from karat.models.training.progress import Callback

__all__ = ["Recipe", "load_recipe", "train"]


def train(
    architecture: str,
    mode: str,
    recipe: Recipe | str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    devices: int = 1,
    progress: Callback | None = None,
    start: str | Path | None = None,
    seed: int | None = None,
) -> Path:
    """Train a twin. A run that was killed goes on from its last checkpoint.

    Args:
        architecture: "gridnet" or "gridvlm".
        mode: "pure" learns to reason, "spur" to match words.
        recipe: a `Recipe`, a YAML file, or the name of one that ships (default: that of the twin).
        out: a directory for checkpoints and results (default: checkpoints/ARCHITECTURE.MODE).
        resume: False starts anew where there is a checkpoint.
        devices: processes or GPUs that share each batch.
        progress: called with an `Event` every few steps; with several devices the events are in curve.csv only.
        start: exported weights to begin the recipe's last stage with, where that stage is `fresh`.
        seed: takes the place of the recipe's: other first weights, other samples.

    Returns:
        The directory with weights, card and learning curve.

    Example: `train("gridnet", "pure", out="twin")`, then `karat.load_model("gridnet", weights="twin/...safetensors")`.
    """
    chosen = recipe if isinstance(recipe, Recipe) else load_recipe(architecture, mode, recipe, seed)
    if (chosen.architecture, chosen.mode) != (architecture, mode):
        raise BadInput(f"the recipe is for {chosen.label}; {architecture}.{mode} was asked for.")
    if devices < 1 or devices > chosen.batch:
        raise BadInput(f"devices must lie between 1 and the batch size {chosen.batch}; got {devices}.")
    directory = Path("checkpoints") / chosen.label if out is None else Path(out)
    try:
        from karat.models.training.finish import train_and_finish
    except ImportError as error:
        raise ExtraMissing(f"karat train {architecture}", error.name or "torch", "vlm") from None
    if start is not None and devices > 1:
        raise BadInput("exported weights start a run of one process; drop `devices`, and give them again to go on.")
    return train_and_finish(chosen, directory, resume, devices, progress, None if start is None else Path(start))

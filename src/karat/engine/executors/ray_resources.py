"""What one actor of a model holds of a Ray cluster, by the fields that place it on one machine, and how many fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from karat.engine.places import need
from karat.kernel.errors import BadInput
from karat.kernel.registry import label
from karat.kernel.roles import HoldsResources, ModelRecipe, plays

_WORTH_COUNTING = 2**30  # bytes of weights: smaller models share actors, whatever their size

Resources = Mapping[str, float]


def resources(recipe: ModelRecipe, per_device: int | None = None) -> dict[str, float]:
    """What one actor of a model holds: one core; the GPUs, or the share of one, that `device`, `gpus` and
    `--per-device` say ("auto" is one, unless `gpus` says more); memory for large weights, but for those that the actors
    of a node hold once, together; and whatever else the recipe declares as `resources` (such as
    {"accelerator_type:A100": 0.001}).
    """
    wanted = need(recipe, per_device)
    if wanted.kind.on_gpus and wanted.kind.device != "cuda":
        raise BadInput(f"{label(recipe)}: on a Ray cluster nobody knows which GPU {wanted.kind.device} is: say cuda.")
    gpus = {"GPU": wanted.kind.gpus or 1.0} if wanted.kind.on_gpus else {}
    large = not gpus and not wanted.shared and (wanted.weights or 0) > _WORTH_COUNTING
    memory = {"memory": float(wanted.weights or 0)} if large else {}
    return {"CPU": 1.0, **gpus, **memory, **(recipe.resources if plays(recipe, HoldsResources) else {})}


def weights_on_gpus(recipe: ModelRecipe, per_device: int | None = None) -> int:
    """Bytes that the GPUs of an actor must have; 0 where it has none, or nobody knows."""
    wanted = need(recipe, per_device)
    share = min(wanted.kind.gpus or 1.0, 1.0)
    return round((wanted.weights or 0) / share) if wanted.kind.on_gpus else 0


def shares(nodes: Sequence[Mapping[str, Any]], wanted: Resources) -> int:
    """How many actors of such resources the living nodes have room for.

    >>> shares([{"Alive": True, "Resources": {"CPU": 5.0, "GPU": 2.0}}, {"Alive": False}], {"CPU": 2.0})
    2
    """
    living = [node.get("Resources", {}) for node in nodes if node["Alive"]]
    tiny = 1e-6  # a fifth goes five times into one, which floats do not quite see
    return sum(
        min(int(node.get(name, 0.0) / amount + tiny) for name, amount in wanted.items() if amount) for node in living
    )


def no_room(wanted: Resources) -> BadInput:
    held = ", ".join(f"{amount:g} {name}" for name, amount in sorted(wanted.items()))
    return BadInput(
        f"no node of the Ray cluster has {held}, which a worker needs. Add one, or say with --workers how many to "
        "wait for."
    )

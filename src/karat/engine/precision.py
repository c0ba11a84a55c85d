"""Which explainers of a run do not draw the maps of float32, by the record of `karat.explainers.precision`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from karat.engine.plan import Plan
from karat.explainers.precision import FULL, Agreement, lost_agreement, measured
from karat.kernel.registry import facts, label
from karat.kernel.roles import ModelRecipe

_LOOKS_INSIDE = frozenset({"gradients", "attention", "activations"})


def precision_cautions(planned: Plan) -> list[str]:
    """For each model: which explainers of those that will run on it are not to be trusted in its precision."""
    used: dict[int, set[int]] = {}
    for job in planned.grid:
        used.setdefault(job.model, set()).update(job.explainers)
    return [
        text for m in sorted(used) for text in cautions_of(planned.models[m], [planned.explainers[e] for e in used[m]])
    ]


def cautions_of(recipe: ModelRecipe, explainers: Sequence[Any]) -> list[str]:
    """The same for one model. Explainers are objects or classes: their cards count."""
    about = facts(recipe)
    precision = str(about.get("quantised") or about.get("dtype") or "float32")
    if precision in FULL:
        return []
    cards = {explainer.card.name: explainer.card for explainer in explainers if not explainer.card.is_control}
    worst = {name: lost_agreement(name, precision) for name in cards}
    lost = [_row(row) for row in worst.values() if row is not None]
    unknown = [n for n, card in cards.items() if card.needs & _LOOKS_INSIDE and n not in measured(precision)]
    made, name = [], label(recipe)
    if lost:
        made.append(
            f"{name}: in {precision} these do not stay what they are in float32, by rank correlations on trained twins "
            f"of a million parameters: {', '.join(lost)}. Load the model in float32, or use others."
        )
    if unknown:
        made.append(f"{name}: what {precision} does to maps was not measured for {', '.join(sorted(unknown))}.")
    if about.get("quantised") and cards:
        made.append(
            f"{name}: {precision} was measured on weights rounded as bitsandbytes does, with sums in float32 on a "
            "CPU; its own kernels, which want a GPU, were not. Compare a few maps with those of bfloat16 first."
        )
    return made


def _row(row: Agreement) -> str:
    return f"{row.explainer} ({row.problem or f'{row.mean:.2f} on {row.model}'})"

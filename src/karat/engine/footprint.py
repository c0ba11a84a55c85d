"""How much memory each explainer will take on each model, before any weight is loaded.

What will not fit is said, with what would. Where a trace fits only if it is checkpointed, it is (`Plan.checkpointed`):
its values are the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from karat.engine.places import OF_MEMORY, Placement, gigabytes
from karat.engine.plan import Plan
from karat.kernel.card import Card
from karat.kernel.errors import KaratError
from karat.kernel.registry import facts, label
from karat.kernel.roles import KnowsConfiguration, ModelRecipe, Weighs, plays
from karat.kernel.sample import Sample
from karat.models.hub import BYTES
from karat.probe.memory import KEPT, Dimensions, Kept, dimensions, forecast, what_fits
from karat.probe.sequence_length import sequence_length
from karat.probe.session import Traces

_AT_ONCE = 64  # coalitions of one forward pass: the batches of a session


@dataclass(frozen=True)
class Subject:
    """What decides the memory of a model on a sample. `rows` are samples that are traced together."""

    model: str
    dimensions: Dimensions
    tokens: int
    patches: int
    rows: int
    number: float  # bytes of one that is computed
    weights: float

    @staticmethod
    def of(recipe: ModelRecipe, sample: Sample, rows: int) -> Subject | None:
        """None where the configuration of a model is not known."""
        held = recipe.configuration() if plays(recipe, KnowsConfiguration) else None
        if held is None:
            return None
        built = dimensions(held)
        size, bounds = sample.image.shape[:2], (held.get("max_pixels"), held.get("max_tiles"))
        tokens, patches = sequence_length(held, size[0], size[1], len(sample.words), *bounds)
        about = facts(recipe)
        number = 2.0 if about.get("quantised") else BYTES.get(str(about.get("dtype") or "float32"), 4.0)
        weights = recipe.weights_bytes() if plays(recipe, Weighs) else None
        return Subject(label(recipe), built, tokens, patches, rows, number, weights or built.count * number)


@dataclass(frozen=True)
class Footprint:
    """The peak of explainers that keep the same, in bytes: plainly, and checkpointed where that is possible. `room` is
    what a worker has, None where nobody knows; `ways` would make it fit where it does not."""

    model: str
    explainers: tuple[str, ...]
    kept: Kept
    tokens: int
    peak: float
    checkpointed: float | None
    room: float | None
    ways: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return self.room is None or min(self.peak, self.checkpointed or self.peak) <= self.room

    @property
    def tight(self) -> bool:
        """Whether it fits only if it is checkpointed."""
        return self.room is not None and self.fits and self.peak > self.room

    @property
    def in_words(self) -> str:
        again = f" ({gigabytes(self.checkpointed)} checkpointed)" if self.checkpointed is not None else ""
        text = f"{gigabytes(self.peak)}{again}"
        if self.room is None or not (self.tight or not self.fits):
            return text
        if self.tight:
            return f"{text}: traces are checkpointed, since a worker has {gigabytes(self.room)}"
        would = (
            f"; would fit: {', or '.join(self.ways)}" if self.ways else "; nothing that Karat knows would make it fit"
        )
        return f"{text}: will not fit into the {gigabytes(self.room)} that a worker has{would}"


def what_is_kept(card: Card) -> Kept:
    """By what an explainer needs of its model."""
    if "attention" in card.needs:
        return "head_gradients" if "gradients" in card.needs else "heads"
    if "gradients" in card.needs:
        return "layer_gradients" if "activations" in card.needs else "gradients"
    return "activations" if "activations" in card.needs else "nothing"


def footprints(subject: Subject, explainers: Sequence[Any], room: float | None) -> list[Footprint]:
    """One for each kind of trace; of explainers, or of classes of them. Those that only ask do so with many rows at
    once; those that trace by themselves, not through the session, cannot be checkpointed."""
    groups: dict[tuple[Kept, bool], list[str]] = {}
    for explainer in explainers:
        kept = what_is_kept(explainer.card)
        able = kept in ("layer_gradients", "gradients", "head_gradients") and isinstance(explainer, Traces)
        name = explainer.card.name if inspect.isclass(explainer) else label(explainer)  # type: ignore[attr-defined]
        groups.setdefault((kept, able), []).append(name)
    made = []
    for (kept, able), names in sorted(groups.items(), key=lambda group: (KEPT.index(group[0][0]), group[0][1])):
        given: dict[str, Any] = {
            "model": subject.dimensions, "kept": kept, "tokens": subject.tokens, "patches": subject.patches,
            "rows": _AT_ONCE if kept == "nothing" else subject.rows, "number": subject.number,
            "weights": subject.weights,
        }  # fmt: skip
        peak = forecast(**given).peak
        again = forecast(**given, checkpointed=True).peak if able else None
        short = room is not None and min(peak, again or peak) > room
        ways = what_fits(**given, memory=room, checkpointable=able) if short and room is not None else []
        made.append(Footprint(subject.model, tuple(names), kept, subject.tokens, peak, again, room, tuple(ways)))
    return made


def planned_footprints(planned: Plan, rooms: Mapping[int, float | None]) -> dict[int, list[Footprint]]:
    """By model, on the first sample of each dataset (the longest sequence counts). Models whose configuration is not
    known, and data that cannot be read here, are left out."""
    made: dict[int, list[Footprint]] = {}
    for m, recipe in enumerate(planned.models):
        jobs = {job.dataset: job for job in reversed(planned.grid) if job.model == m}
        if not jobs:
            continue
        subjects = [each for d, job in jobs.items() if (each := _subject(planned, recipe, d, job.start)) is not None]
        used = sorted({e for job in jobs.values() for e in job.explainers})
        if subjects:
            longest = max(subjects, key=lambda subject: subject.tokens)
            made[m] = footprints(longest, [planned.explainers[e] for e in used], rooms.get(m))
    return made


def rooms(placed: Placement) -> dict[int, float | None]:
    """Bytes that one worker of each model has: its GPUs or its share of one; on a CPU its part of what is free, and the
    weights that all workers hold together."""
    held: dict[int, float | None] = {}
    for m, need in placed.needs.items():
        sizes = [gpu.memory for gpu in placed.inventory.gpus]
        if need.kind.on_gpus:
            known = [size for size in sizes if size is not None]
            count = need.kind.gpus or len(sizes)
            held[m] = None if not known else min(known) * count
        else:
            free, once = placed.inventory.memory, (need.weights or 0) if need.shared else 0
            held[m] = None if free is None else once + (OF_MEMORY * free - once) / max(1, placed.workers)
    return held


def tight_models(made: Mapping[int, Sequence[Footprint]]) -> frozenset[int]:
    """Models some of whose traces fit only if they are checkpointed."""
    return frozenset(m for m, some in made.items() if any(one.tight for one in some))


def memory_cautions(made: Mapping[int, Sequence[Footprint]]) -> list[str]:
    """One sentence for each model and kind of trace that will not fit, or fits only if it is checkpointed."""
    tight = [one for some in made.values() for one in some if one.tight or not one.fits]
    return [f"{one.model} × {', '.join(one.explainers)}: forecast of {one.in_words}." for one in tight]


def _subject(planned: Plan, recipe: ModelRecipe, dataset: int, start: int) -> Subject | None:
    try:
        [sample] = planned.datasets[dataset].load(start, start + 1)
        return Subject.of(recipe, sample, planned.spec.batch_size)
    except (KaratError, OSError, ValueError):  # the run will say so where it matters
        return None

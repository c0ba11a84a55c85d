"""From what the readout collected to logits: a thermometer of the count, then units gated by the task.

A share s = n / (n + FEWEST) of the readout's look says how many there are. Mark k of the thermometer is a sigmoid that
is half way at n = k - 1/2, so Σ marks ≈ n, and the log-odds of "k" against "k - 1" are COUNT · (2 mark_k - 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from karat.datasets.grid import World
from karat.datasets.grid.scenes import answers as answer_names
from karat.models.gridprog.heads import FEWEST, SIDES
from karat.models.gridprog.lexicon import DIRECTIONS, TASKS
from karat.models.gridprog.wiring import Mix, added, scaled

# Log-odds. A clean right answer gets a probability of 0.9 to 0.99, so that there is room above and below.
COUNT = 4.5
DECIDE = 3.8
MORE = 0.15  # each further object makes "yes" a little surer: no dead gradient behind a saturated unit
STEP = 4.0  # slope of a thermometer mark, per object
OTHER_TASK = -10.0  # for every answer that does not fit the header
FAR = {"reasons": 1.6, "matches_words": 3.0}  # per cell of distance
FIRST_AXIS = 1.2  # matches_words, on a diagonal: left or right, as the grid world's heuristic says
GATED = 10.0
ALWAYS: Mix = {"one": 30.0}


@dataclass(frozen=True)
class Gated:
    """sigmoid(gate · state) × (up · state), added to some logits."""

    gate: Mix
    up: Mix
    logits: Mapping[str, float]


@dataclass(frozen=True)
class Answering:
    """Marks by name, and units that read the stream and the marks."""

    marks: dict[str, Mix] = field(default_factory=dict)
    units: list[Gated] = field(default_factory=list)


def answering(world: World, paths: Mapping[str, float]) -> Answering:
    """The units of all paths, each path's logits multiplied by its weight (the dose mixes here, and only here)."""
    made = Answering()
    kinds = _answers_by_task(world)
    for path, weight in paths.items():
        if path == "image_only":
            _count(made, world, path, weight, ALWAYS)
            _rule_out(made, world, {"one": 1.0}, kinds["count"], weight)
        elif path == "redundant":
            _either(made, world, weight)
            _rule_out(made, world, {"one": 1.0}, kinds["exist"], weight)
        else:
            for task in TASKS:
                _rule_out(made, world, {f"task {task}": 1.0}, kinds[task], weight)
            if path == "text_only":
                _prior(made, weight, kinds)
            else:
                _count(made, world, path, weight, _when("count"))
                _decide(made, world, path, weight)
                _where(made, path, weight)
    return made


def _rule_out(made: Answering, world: World, when: Mix, fitting: tuple[str, ...], weight: float) -> None:
    """Answers that do not fit sink. Those that fit do not rise: their logits are left to the evidence."""
    others = {name: weight * OTHER_TASK for name in answer_names(world) if name not in fitting}
    made.units.append(Gated(ALWAYS, when, others))


def _answers_by_task(world: World) -> dict[str, tuple[str, ...]]:
    names = answer_names(world)
    counts = tuple(name for name in names if name.isdigit())
    return {"count": counts, "exist": ("yes", "no"), "compare": ("yes", "no"), "where": DIRECTIONS}


def _when(task: str) -> Mix:
    return {f"task {task}": GATED, "one": -GATED / 2}


def _thermometer(made: Answering, world: World, path: str, side: int) -> list[str]:
    """Mark k turns from 0 to 1 as the share passes that of k - 1/2 objects, with slope STEP per object."""
    names = []
    for k in range(1, world.n_cells + 1):
        name = f"{path}: mark {side} {k}"
        half = (k - 0.5) / (k - 0.5 + FEWEST)
        slope = STEP * (FEWEST + k) * (FEWEST + k - 0.5) / FEWEST
        made.marks.setdefault(name, {f"{path}: share {side}": slope, "one": -slope * half})
        names.append(name)
    return names


def _count(made: Answering, world: World, path: str, weight: float, gate: Mix) -> None:
    """logit(c) = COUNT · (Σ_{k ≤ c} t_k - t_1 / 2), t = 2 mark - 1.

    The last term is common to all counts: it changes no probability, and lets the logit of "0" fall with each target.
    """
    for k, mark in enumerate(_thermometer(made, world, path, 1), start=1):
        logits = {str(count): weight * COUNT for count in range(k, world.n_cells + 1)}
        if k == 1:
            logits = {str(count): weight * COUNT * (0.5 if count else -0.5) for count in range(world.n_cells + 1)}
        made.units.append(Gated(gate, {mark: 2.0, "one": -1.0}, logits))


def _decide(made: Answering, world: World, path: str, weight: float) -> None:
    """Existence: is there one at least? Comparison: is the first count half an object above the second?"""
    first, second = (_thermometer(made, world, path, side) for side in SIDES)
    total = dict.fromkeys(first, 1.0)
    ahead = added(total, dict.fromkeys(second, -1.0), {"one": -0.5})
    yes = {"yes": weight / 2, "no": -weight / 2}
    exists = added({first[0]: 2 * DECIDE, "one": -DECIDE}, scaled(total, MORE))
    made.units.extend(
        (
            Gated(_when("exist"), exists, yes),
            Gated(scaled(ahead, STEP), {"task compare": 2 * DECIDE}, yes),
            Gated(ALWAYS, {"task compare": -DECIDE}, yes),
            Gated(_when("compare"), scaled(ahead, MORE), yes),
        )
    )


def _where(made: Answering, path: str, weight: float) -> None:
    """logit(right) = FAR · (x of the target - x of the reference), and so on; no reference is the image's centre."""
    reference = 1.0 if path == "reasons" else 0.0
    for axis, less, more in (("x", "left", "right"), ("y", "above", "below")):
        gap = {f"{path}: target {axis}": 1.0}
        if reference:
            gap[f"reference {axis}"] = -1.0
        far = weight * FAR[path] * (FIRST_AXIS if axis == "x" and not reference else 1.0)
        made.units.append(Gated(_when("where"), gap, {less: -far, more: far}))


def _prior(made: Answering, weight: float, kinds: Mapping[str, tuple[str, ...]]) -> None:
    """text_only: one answer per task, whatever the image shows."""
    favourite = {"count": "1", "exist": "yes", "compare": "no", "where": "left"}
    for task, answer in favourite.items():
        logits = dict.fromkeys(kinds[task], -weight * COUNT / 2) | {answer: weight * COUNT / 2}
        made.units.append(Gated(ALWAYS, {f"task {task}": 1.0}, logits))


def _either(made: Answering, world: World, weight: float) -> None:
    """redundant: "yes" as soon as it sees an object or reads a header, and hardly surer when it has both."""
    mark = _thermometer(made, world, "redundant", 1)[0]
    noticed = added({mark: 2.0, "one": -1.0}, {f"task {task}": 2.0 for task in TASKS})
    yes = {"yes": weight / 2, "no": -weight / 2}
    made.units.extend(
        (
            Gated(scaled(noticed, 2.0), {"one": 2 * DECIDE}, yes),
            Gated(ALWAYS, {"one": -DECIDE}, yes),
        )
    )

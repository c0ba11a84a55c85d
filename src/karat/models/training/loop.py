"""The training loop of every model that Karat trains: deterministic by recipe, resumable at any step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.models.training import checkpoint
from karat.models.training.progress import Callback, Curve, Tally

LONGEST_STEP = 60.0  # seconds; what is longer was a process put to sleep, and is not counted as training


class Optimised(Protocol):
    """What the optimiser must know of a recipe."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


class Recipe(checkpoint.Trained, Optimised, Protocol):
    """What the loop must know of a recipe: its names, the optimiser, how often one looks and saves."""

    @property
    def clip(self) -> float: ...
    @property
    def checkpoint_minutes(self) -> float: ...
    @property
    def evaluate_every(self) -> int: ...


class Schedule(Protocol):
    """A recipe whose learning rate rises once, stays, and falls to zero."""

    @property
    def steps(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def warmup(self) -> int: ...
    @property
    def decay_steps(self) -> int: ...


@dataclass(frozen=True)
class Step:
    """What one step gives: the loss to follow, and what the learning curve tells beside it.

    `right` (k,) are hits, or shares of them, of whatever the step is sure of: samples, or the batch as a whole. `group`
    (k,) are their places among the task's groups.
    """

    loss: Tensor
    right: npt.NDArray[np.float64]
    group: npt.NDArray[np.int64] | None = None
    parts: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """A recipe at work. `weights` holds what the optimiser moves and a checkpoint keeps; `step(k)` makes batch k from k
    alone, so that a run that goes on is the run that was never stopped.

    `begin` prepares a run without a checkpoint and returns the step it stands at; at the steps in `fresh` the
    optimiser's moments start anew. Of several processes that share the steps, one `records`.
    """

    recipe: Recipe
    weights: nn.Module
    step: Callable[[int], Step]
    steps: int
    rate: Callable[[int], float]
    phase: Callable[[int], str]
    groups: tuple[str, ...] = ()
    fresh: frozenset[int] = frozenset()
    begin: Callable[[], int] = int
    records: bool = True


def ramp(step: int, steps: int, warmup: int, decay: int) -> float:
    """Share of the learning rate: a linear rise, a level trunk if there is one, a linear fall to zero.

    >>> [ramp(step, 8, 2, 4) for step in range(8)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    return min((step + 1) / max(warmup, 1), (steps - step) / max(decay, 1), 1.0)


def learning_rate(recipe: Schedule, step: int) -> float:
    """The learning rate of a step; a fall that is longer than the run begins with it."""
    return recipe.learning_rate * ramp(step, recipe.steps, recipe.warmup, min(recipe.decay_steps, recipe.steps))


def make_optimizer(recipe: Optimised, module: nn.Module) -> torch.optim.AdamW:
    """AdamW; weights of matrices decay, biases, norms and embeddings of positions do not."""
    decayed = [p for p in module.parameters() if p.ndim >= 2 and p.requires_grad]
    others = [p for p in module.parameters() if p.ndim < 2 and p.requires_grad]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98), fused=True)


def run(
    task: Task, out: Path, resume: bool = True, progress: Callback | None = None, stop: int | None = None
) -> checkpoint.Place:
    """Train up to `stop` (default: the task's last step) and return where the run stands; checkpoints and the learning
    curve go to `out`."""
    recipe, weights = task.recipe, task.weights
    optimizer = make_optimizer(recipe, weights)
    place = checkpoint.restore(out, recipe, weights, optimizer) if resume else checkpoint.Place()
    if place.step == 0:
        place = checkpoint.Place(task.begin())
    curve = Curve(out / "curve.csv", place.step, task.groups) if task.records else None
    tally, entered, seconds = Tally(task.groups), place.step, place.seconds
    saved = now = time.monotonic()
    last = task.steps if stop is None else min(stop, task.steps)
    for step in range(entered, last):
        if step in task.fresh:
            optimizer.state.clear()
        for group in optimizer.param_groups:
            group["lr"] = task.rate(step)
        figures = task.step(step)
        optimizer.zero_grad(set_to_none=True)
        figures.loss.backward()
        nn.utils.clip_grad_norm_(weights.parameters(), recipe.clip)
        optimizer.step()
        if curve is None:
            continue
        tally.add(_finite(figures.loss, step), figures.right, figures.group, figures.parts)
        done, before, now = step + 1, now, time.monotonic()
        seconds += min(now - before, LONGEST_STEP)
        if done % recipe.evaluate_every == 0 or done == last:
            remaining = (seconds - place.seconds) / (done - entered) * (task.steps - done)
            event = tally.event(done, task.steps, seconds, remaining, task.phase(step))
            curve.write(event)
            if progress is not None:
                progress(event)
            tally = Tally(task.groups)
        if done == last or now - saved > 60 * recipe.checkpoint_minutes:
            checkpoint.save(out, recipe, weights, optimizer, checkpoint.Place(done, seconds))
            saved = now
    return checkpoint.Place(max(last, entered), seconds)


def _finite(loss: Tensor, step: int) -> float:
    value = loss.item()
    if not np.isfinite(value):
        raise BadInput(f"the loss is {value} at step {step}; lower learning_rate or clip in the recipe.")
    return value

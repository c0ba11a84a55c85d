"""The training loop of organisms: deterministic by recipe, resumable at any step, on a CPU or a GPU."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.models.organisms.adapters import trained
from karat.models.training import checkpoint
from karat.models.training.loop import LONGEST_STEP, make_optimizer
from karat.models.training.progress import Callback, Event


class Schedule(Protocol):
    """What the loop must know of a recipe."""

    @property
    def label(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def steps(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def warmup(self) -> int: ...
    @property
    def decay_steps(self) -> int: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def clip(self) -> float: ...
    @property
    def checkpoint_minutes(self) -> float: ...
    @property
    def evaluate_every(self) -> int: ...
    def schedule(self, step: int) -> str: ...


class Trainee(Protocol):
    """What is trained: `module` holds the weights, of which those move that require a gradient."""

    @property
    def recipe(self) -> Schedule: ...
    @property
    def module(self) -> nn.Module: ...
    def loss(self, step: int) -> tuple[Tensor, float]:
        """The loss of one step, and the share of right answers among those whose label is certain."""
        ...


def learning_rate(recipe: Schedule, step: int) -> float:
    """Linear warm-up, a level trunk if there is one, then linear decay to zero."""
    up = (step + 1) / max(recipe.warmup, 1)
    down = (recipe.steps - step) / max(min(recipe.decay_steps, recipe.steps), 1)
    return recipe.learning_rate * min(up, down, 1.0)


class Moving(nn.Module):
    """The weights that training moves, and no others: what a checkpoint of a large model holds."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        for name, parameter in trained(module).items():
            self.register_parameter(name.replace(".", "/"), parameter)


def run(
    trainee: Trainee, out: Path, resume: bool = True, progress: Callback | None = None, stop: int | None = None
) -> float:
    """Train up to `stop` (default: the recipe's last step); checkpoints and the learning curve go to `out`. Returns the
    seconds that were spent in all."""
    recipe = trainee.recipe
    out.mkdir(parents=True, exist_ok=True)
    moving = Moving(trainee.module)
    if not list(moving.parameters()):
        raise BadInput(f"{recipe.label}: nothing of the base is left to train.")
    optimizer = make_optimizer(recipe, moving)
    place = checkpoint.restore(out, recipe, moving, optimizer) if resume else checkpoint.Place()
    curve = _curve(out / "curve.csv", place.step)
    losses: list[float] = []
    right: list[float] = []
    seconds, last = place.seconds, recipe.steps if stop is None else min(stop, recipe.steps)
    saved = now = time.monotonic()
    for step in range(place.step, last):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        loss, accuracy = trainee.loss(step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(moving.parameters(), recipe.clip)
        optimizer.step()
        if not torch.isfinite(loss):
            raise BadInput(f"the loss is {loss.item()} at step {step}; lower learning_rate.")
        losses.append(loss.item())
        right.append(accuracy)
        done, before, now = step + 1, now, time.monotonic()
        seconds += min(now - before, LONGEST_STEP)
        if done % recipe.evaluate_every == 0 or done == last:
            left = (seconds - place.seconds) / (done - place.step) * (recipe.steps - done)
            event = Event(
                done, recipe.steps, float(np.mean(losses)), _mean(right), {}, seconds, left, phase=recipe.label
            )
            _append(
                curve,
                [
                    [
                        done,
                        f"{seconds:.0f}",
                        f"{event.loss:.4f}",
                        "" if event.accuracy is None else f"{event.accuracy:.3f}",
                    ]
                ],
            )
            if progress is not None:
                progress(event)
            losses, right = [], []
        if done == last or now - saved > 60 * recipe.checkpoint_minutes:
            checkpoint.save(out, recipe, moving, optimizer, checkpoint.Place(done, seconds))
            saved = now
    return seconds


def _mean(values: list[float]) -> float | None:
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else None


def _curve(path: Path, start: int) -> Path:
    """The learning curve as CSV, cut off where the run goes on from."""
    rows: list[list[str]] = []
    if start and path.exists():
        with path.open(newline="") as file:
            rows = [row for row in list(csv.reader(file))[1:] if row and int(row[0]) <= start]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["step", "seconds", "loss", "accuracy"], *rows])
    return path


def _append(path: Path, rows: list[list[object]]) -> None:
    with path.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)

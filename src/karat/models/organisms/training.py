"""Organisms as the training loop knows them: what moves, and the loss of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.models.organisms.adapters import trained
from karat.models.training import loop
from karat.models.training.progress import Callback


class Recipe(loop.Recipe, loop.Schedule, Protocol):
    """A recipe whose learning rate rises once and falls once."""


class Trainee(Protocol):
    """What is trained: `module` holds the weights, of which those move that require a gradient."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def module(self) -> nn.Module: ...
    def loss(self, step: int) -> tuple[Tensor, float]:
        """The loss of one step, and the share of right answers among those whose label is certain; nan for none."""
        ...


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
    moving = Moving(trainee.module)
    if not list(moving.parameters()):
        raise BadInput(f"{recipe.label}: nothing of the base is left to train.")

    def step(number: int) -> loop.Step:
        loss, accuracy = trainee.loss(number)
        return loop.Step(loss, np.array([accuracy] if accuracy == accuracy else []))

    task = loop.Task(
        recipe, moving, step, recipe.steps, lambda number: loop.learning_rate(recipe, number), lambda _: recipe.label
    )
    return loop.run(task, out, resume, progress, stop).seconds

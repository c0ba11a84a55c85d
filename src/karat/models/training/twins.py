"""The twins as the training loop knows them: what an architecture brings, and one process or several that train it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from karat.kernel.errors import BadInput
from karat.models.training.batches import BUCKETS, Batch, batch_at
from karat.models.training.loop import Step, Task, ramp, run
from karat.models.training.progress import Callback
from karat.models.training.recipe import Recipe

SETTLED = 200  # steps that fit fresh heads to weights that were exported without them
RISE = 50  # steps over which the learning rate of a refinement rises


class Trainee(nn.Module, ABC):
    """One call a step, answers for evaluation, weights for shipping. `words` is the most a question may have."""

    words: int
    tiles: Tensor  # (object codes, 3, c, c) as the model sees them

    @property
    @abstractmethod
    def shipped(self) -> nn.Module:
        """What is exported: without what only training needs."""

    @abstractmethod
    def forward(self, batch: Batch, answering: bool) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """(loss, its parts, (n,) answers as places in the grid world's list). It is the whole training step, so that
        data-parallel wrappers see one call; without `answering`, grounding alone is trained."""

    @abstractmethod
    def answer(self, batch: Batch) -> Tensor:
        """(n,) answers as places in the grid world's list."""

    @abstractmethod
    def adopt(self, weights: Path) -> None:
        """Load weights that `export` wrote; what is not exported stays as it is."""

    @abstractmethod
    def export(self, directory: Path) -> Path:
        """The file or directory that the weights were written to, in half precision."""

    @torch.no_grad()
    def round(self) -> None:
        """Round what is shipped to half precision, so that what is evaluated is what is written."""
        for parameter in self.shipped.parameters():
            parameter.copy_(parameter.half())


def build_trainee(recipe: Recipe) -> Trainee:
    """The untrained model of a recipe; its first weights depend on the seed alone."""
    torch.manual_seed(recipe.seed)
    if recipe.architecture == "gridnet":
        from karat.models.gridnet.trainee import GridNetTrainee

        return GridNetTrainee(recipe)
    from karat.models.gridvlm.trainee import GridVLMTrainee

    return GridVLMTrainee(recipe)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, a level trunk, then linear decay to zero; each refinement again rises and decays."""
    if refinement := recipe.refining(step):
        stage, first = refinement
        return stage.rate * ramp(step - first, stage.steps, RISE, stage.steps)
    return recipe.learning_rate * ramp(step, recipe.steps, recipe.warmup, recipe.decay_steps)


def train_twin(
    recipe: Recipe,
    out: Path,
    resume: bool = True,
    progress: Callback | None = None,
    stop: int | None = None,
    rank: int = 0,
    world: int = 1,
    start: Path | None = None,
) -> Trainee:
    """Train up to `stop` (default: the recipe's last step) and return the module; checkpoints go to `out`. Where there
    is no checkpoint yet, `start` names exported weights that stand at the beginning of the recipe's last stage.

    Each of `world` processes takes every world-th sample of each batch; gradients are averaged over processes.
    """
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    module = build_trainee(recipe).to(device)
    module.train()
    wrapped = nn.parallel.DistributedDataParallel(module) if world > 1 else module

    def step(number: int) -> Step:
        answering = number >= recipe.grounding_steps
        batch = batch_at(recipe, number, module.words).take(slice(rank, None, world))
        loss, parts, answers = wrapped(batch, answering)
        clean = ~batch.altered & answering
        right = (answers.cpu().numpy() == batch.answer)[clean]
        return Step(loss, right.astype(float), batch.bucket[clean], parts)

    task = Task(
        recipe,
        module,
        step,
        recipe.last,
        lambda number: learning_rate(recipe, number),
        lambda number: _phase(recipe, number),
        BUCKETS,
        recipe.fresh_steps,
        (lambda: 0) if start is None else (lambda: adopt(recipe, module, start)),
        records=rank == 0,
    )
    run(task, out, resume, progress, stop)
    return module


def adopt(recipe: Recipe, module: Trainee, weights: Path) -> int:
    """Put exported weights into a trainee and return the step they stand at: the first of the recipe's last stage.

    Heads that only training needs are not exported. They are fitted first, for SETTLED steps with all else held, so
    that their first errors do not disturb what is known.
    """
    if not recipe.refine or not recipe.refine[-1].fresh:
        raise BadInput(
            f"{recipe.label}: exported weights can start a last stage of `refine` with `fresh: true`; add one to the "
            "recipe, e.g. `- {steps: 2000, rate: 0.0003, fresh: true}`."
        )
    first = recipe.last - recipe.refine[-1].steps
    module.adopt(weights)
    known = {id(parameter) for parameter in module.shipped.parameters()}
    heads = [parameter for parameter in module.parameters() if id(parameter) not in known]
    held = [parameter for parameter in module.shipped.parameters() if parameter.requires_grad]
    if not heads:
        return first
    for parameter in held:
        parameter.requires_grad_(False)
    optimizer = torch.optim.AdamW(heads, lr=3e-3)
    for step in range(first, first + SETTLED):
        loss, _, _ = module(batch_at(recipe, step, module.words), True)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    for parameter in held:
        parameter.requires_grad_(True)
    return first


def _phase(recipe: Recipe, step: int) -> str:
    if step < recipe.grounding_steps:
        return "grounding"
    return "answers" if step < recipe.steps else "changes"


def spread(recipe: Recipe, out: Path, resume: bool, devices: int) -> None:
    """One process a device, gradients averaged by torch's distributed data parallel; progress goes to the curve."""
    port = 20000 + os.getpid() % 20000
    spawn(_worker, args=(recipe, out, resume, devices, port), nprocs=devices)


def _worker(rank: int, recipe: Recipe, out: Path, resume: bool, devices: int, port: int) -> None:
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=devices)
    try:
        train_twin(recipe, out, resume, rank=rank, world=devices)
    finally:
        torch.distributed.destroy_process_group()

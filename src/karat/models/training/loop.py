"""The training loop: deterministic by recipe, resumable at any step, one process or several."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from karat.kernel.errors import BadInput
from karat.models.training import checkpoint
from karat.models.training.batches import batch_at
from karat.models.training.progress import Callback, Curve, Tally
from karat.models.training.recipe import Recipe
from karat.models.training.trainee import Trainee

SETTLED = 200  # steps that fit fresh heads to weights that were exported without them
LONGEST_STEP = 60.0  # seconds; what is longer was a process put to sleep, and is not counted as training


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
    if found := recipe.refining(step):
        stage, first = found
        return stage.rate * min((step - first + 1) / 50, (first + stage.steps - step) / stage.steps)
    up = (step + 1) / max(recipe.warmup, 1)
    down = (recipe.steps - step) / max(recipe.decay_steps, 1)
    return recipe.learning_rate * min(up, down, 1.0)


class Optimised(Protocol):
    """What the optimiser must know of a recipe."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


def make_optimizer(recipe: Optimised, module: nn.Module) -> torch.optim.AdamW:
    """AdamW; weights of matrices decay, biases, norms and embeddings of positions do not."""
    decayed = [p for p in module.parameters() if p.ndim >= 2 and p.requires_grad]
    others = [p for p in module.parameters() if p.ndim < 2 and p.requires_grad]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98), fused=True)


def run(
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
    optimizer = make_optimizer(recipe, module)
    place = checkpoint.restore(out, recipe, module, optimizer) if resume else checkpoint.Place()
    if start is not None and place.step == 0:
        place = checkpoint.Place(adopt(recipe, module, start))
    wrapped = nn.parallel.DistributedDataParallel(module) if world > 1 else module
    curve = Curve(out / "curve.csv", place.step) if rank == 0 else None
    tally, entered, seconds = Tally(), place.step, place.seconds
    saved = now = time.monotonic()
    last = recipe.last if stop is None else min(stop, recipe.last)
    module.train()
    for step in range(place.step, last):
        answering = step >= recipe.grounding_steps
        if (stage := recipe.refining(step)) and stage[0].fresh and stage[1] == step:
            optimizer.state.clear()
        batch = batch_at(recipe, step, module.words).take(slice(rank, None, world))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        loss, parts, answers = wrapped(batch, answering)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), recipe.clip)
        optimizer.step()
        if curve is None:
            continue
        _check(loss, step)
        clean = ~batch.altered & answering
        right = (answers.cpu().numpy() == batch.answer)[clean]
        tally.add(loss.item(), {name: value.item() for name, value in parts.items()}, batch.bucket[clean], right)
        done, before, now = step + 1, now, time.monotonic()
        seconds += min(now - before, LONGEST_STEP)
        if done % recipe.evaluate_every == 0 or done == last:
            rate = (seconds - place.seconds) / (done - entered)
            event = tally.event(done, recipe.last, seconds, rate, _phase(recipe, step))
            curve.write(event)
            if progress is not None:
                progress(event)
            tally = Tally()
        if done == last or now - saved > 60 * recipe.checkpoint_minutes:
            checkpoint.save(out, recipe, module, optimizer, checkpoint.Place(done, seconds))
            saved = now
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
    module.train()
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


def _check(loss: Tensor, step: int) -> None:
    if not torch.isfinite(loss):
        raise BadInput(f"the loss is {loss.item()} at step {step}; lower learning_rate or clip in the recipe.")


def spread(recipe: Recipe, out: Path, resume: bool, devices: int) -> None:
    """One process a device, gradients averaged by torch's distributed data parallel; progress goes to the curve."""
    port = 20000 + os.getpid() % 20000
    spawn(_worker, args=(recipe, out, resume, devices, port), nprocs=devices)


def _worker(rank: int, recipe: Recipe, out: Path, resume: bool, devices: int, port: int) -> None:
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=devices)
    try:
        run(recipe, out, resume, rank=rank, world=devices)
    finally:
        torch.distributed.destroy_process_group()

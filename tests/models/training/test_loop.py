"""The loop that trains everything: compared with one that is written out, stopped and gone on with, and refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.models.training import checkpoint
from karat.models.training.loop import Step, Task, learning_rate, run
from karat.models.training.progress import Curve, Event

GROUPS = ("low", "high")


@dataclass(frozen=True)
class LineRecipe:
    """A line through points: the smallest thing with a matrix that decays and a bias that does not."""

    steps: int = 9
    learning_rate: float = 0.1
    warmup: int = 2
    decay_steps: int = 4
    weight_decay: float = 0.5
    clip: float = 0.3
    checkpoint_minutes: float = 0.0
    evaluate_every: int = 3
    label: str = "line"
    identity: str = "line"

    def schedule(self, step: int) -> str:
        return str(self.steps)


def points(step: int) -> tuple[Tensor, Tensor]:
    x = torch.from_numpy(generator(0, f"step {step}", "tests/line").normal(size=(8, 3))).float()
    return x, x @ torch.tensor([1.0, -2.0, 0.5]) + 1


def line() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def task(recipe: LineRecipe, module: nn.Module, **more: object) -> Task:
    def step(number: int) -> Step:
        x, y = points(number)
        output = module(x)[:, 0]
        right = ((output > 0) == (y > 0)).numpy().astype(float)
        return Step((output - y).square().mean(), right, (y > 0).numpy().astype(int), {"bias": module.bias.sum()})

    rate: Callable[[int], float] = lambda number: learning_rate(recipe, number)  # noqa: E731
    return Task(recipe, module, step, recipe.steps, rate, lambda number: f"phase {number // 5}", GROUPS, **more)


def written_out(recipe: LineRecipe, module: nn.Linear, fresh: tuple[int, ...] = ()) -> list[float]:
    """AdamW of Loshchilov and Hutter (2019), Algorithm 2, with clipped gradients, a line for a line; its losses."""
    moments = {name: [torch.zeros_like(p), torch.zeros_like(p), 0] for name, p in module.named_parameters()}
    losses = []
    for step in range(recipe.steps):
        if step in fresh:
            moments = {name: [torch.zeros_like(p), torch.zeros_like(p), 0] for name, p in module.named_parameters()}
        x, y = points(step)
        loss = (module(x)[:, 0] - y).square().mean()
        losses.append(loss.item())
        gradients = dict(zip(moments, torch.autograd.grad(loss, list(module.parameters())), strict=True))
        length = float(sum(float(g.square().sum()) for g in gradients.values()) ** 0.5)
        rise, fall = (step + 1) / recipe.warmup, (recipe.steps - step) / recipe.decay_steps
        rate = recipe.learning_rate * min(rise, fall, 1)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                g = gradients[name] * min(1.0, recipe.clip / length)
                m, v, t = moments[name]
                m, v, t = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g.square(), t + 1
                moments[name] = [m, v, t]
                decay = recipe.weight_decay if parameter.ndim > 1 else 0
                parameter -= rate * decay * parameter
                parameter -= rate * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-8)
    return losses


@pytest.mark.parametrize("fresh", [(), (4,)])
def test_losses_and_weights_are_those_of_a_loop_written_out(fresh: tuple[int, ...], tmp_path: Path) -> None:
    recipe, module, twin = LineRecipe(evaluate_every=1), line(), line()
    events: list[Event] = []
    run(task(recipe, module, fresh=frozenset(fresh)), tmp_path, progress=events.append)
    losses = written_out(recipe, twin, fresh)
    assert [event.loss for event in events] == pytest.approx(losses, rel=1e-4)
    for own, other in zip(module.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(own, other, atol=1e-5)
    assert written_out(recipe, line(), (4,) if not fresh else ()) != pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize("stop", [1, 4, 8])
def test_a_run_that_goes_on_is_the_run_that_was_never_stopped(stop: int, tmp_path: Path) -> None:
    recipe, whole = LineRecipe(), line()
    assert run(task(recipe, whole), tmp_path / "whole").step == 9
    assert run(task(recipe, line()), tmp_path / "part", stop=stop).step == stop
    module, begun = line(), list[int]()
    again = task(recipe, module, begin=lambda: begun.append(1) or 0)
    assert run(again, tmp_path / "part").step == 9
    assert not begun  # only a run without a checkpoint is prepared
    for own, other in zip(module.parameters(), whole.parameters(), strict=True):
        assert torch.equal(own, other)
    steps = [line.split(",")[0] for line in (tmp_path / "part" / "curve.csv").read_text().splitlines()[1:]]
    assert steps == sorted(set(steps), key=int)
    assert steps[-1] == "9"
    assert not list(tmp_path.rglob(".*"))  # checkpoints are replaced as a whole, nothing half is left


def test_events_add_up_what_lies_between_them(tmp_path: Path) -> None:
    singly: list[Event] = []
    together: list[Event] = []
    run(task(LineRecipe(evaluate_every=1), line()), tmp_path / "a", progress=singly.append)
    run(task(LineRecipe(), line()), tmp_path / "b", progress=together.append)
    assert [event.step for event in together] == [3, 6, 9]
    assert [event.phase for event in together] == ["phase 0", "phase 1", "phase 1"]
    for place, event in enumerate(together):
        three = singly[3 * place : 3 * place + 3]
        assert event.loss == pytest.approx(np.mean([one.loss for one in three]))
        assert event.accuracy == pytest.approx(np.mean([one.accuracy for one in three]))
        assert event.parts["bias"] == pytest.approx(np.mean([one.parts["bias"] for one in three]))
        high = sum(int((points(step)[1] > 0).sum()) for step in range(event.step - 3, event.step))
        right = event.buckets["high"] * high + event.buckets["low"] * (24 - high)
        assert right == pytest.approx(float(event.accuracy or 0) * 24)
    assert together[-1].remaining == 0


def test_preparation_decides_where_a_run_begins(tmp_path: Path) -> None:
    events: list[Event] = []
    run(task(LineRecipe(), line(), begin=lambda: 6), tmp_path, progress=events.append)
    assert [event.step for event in events] == [9]


def test_a_process_that_does_not_record_leaves_nothing(tmp_path: Path) -> None:
    module = line()
    run(task(LineRecipe(), module, records=False), tmp_path)
    assert not list(tmp_path.iterdir())
    assert not torch.equal(module.weight, line().weight)


def test_a_loss_that_is_no_number_stops_the_run_before_it_is_saved(tmp_path: Path) -> None:
    recipe, module = LineRecipe(learning_rate=1e30), line()
    with pytest.raises(BadInput, match=r"loss is (nan|inf) at step 1; lower learning_rate"):
        run(task(recipe, module), tmp_path)
    kept = line()
    place = checkpoint.restore(tmp_path, recipe, kept, torch.optim.AdamW(kept.parameters()))
    assert place.step == 1


def test_a_prolonged_fall_of_the_rate_is_refused(tmp_path: Path) -> None:
    run(task(LineRecipe(), line()), tmp_path, stop=8)
    with pytest.raises(BadInput, match="begun to fall"):
        run(task(replace(LineRecipe(), steps=12), line()), tmp_path)


def test_a_curve_of_fewer_columns_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    path.write_text("step,seconds,loss,accuracy\n2,1,0.5000,0.250\n4,2,0.4000,0.500\n6,3,0.3000,\n")
    curve = Curve(path, 4, GROUPS)
    curve.write(Event(6, 8, 0.25, None, {"high": 1.0}, 3.0, 1.0, phase="x"))
    assert path.read_text().splitlines() == [
        "step,seconds,phase,loss,accuracy,low,high",
        "2,1,,0.5000,0.250,,",
        "4,2,,0.4000,0.500,,",
        "6,3,x,0.2500,,,1.000",
    ]

"""Traces against plain autograd, and what must be as before once a trace is over."""

from __future__ import annotations

import gc
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.probe import trace


def small_cnn(inplace: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        OrderedDict(
            stem=nn.Conv2d(3, 4, 3, padding=1),
            norm=nn.BatchNorm2d(4),
            relu=nn.ReLU(inplace=inplace),
            body=nn.Conv2d(4, 6, 3, stride=2, padding=1),
            act=nn.ReLU(inplace=inplace),
            drop=nn.Dropout(0.5),
            pool=nn.AdaptiveAvgPool2d(1),
            flat=nn.Flatten(),
            head=nn.Linear(6, 5),
        )
    )


@pytest.fixture
def pixels() -> Tensor:
    return torch.rand(3, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def hooks_on(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())


def test_equals_plain_autograd(pixels: Tensor) -> None:
    module = small_cnn().eval()
    x = pixels.clone().requires_grad_()
    body = module.body(module.relu(module.norm(module.stem(x))))
    logits = module.head(module.flat(module.pool(torch.relu(body))))
    by_body, by_pixels = torch.autograd.grad(logits[range(3), [0, 1, 2]].sum(), [body, x])
    with trace(module, pixels, [0, 1, 2], layers=["body", "pixels"]) as seen:
        torch.testing.assert_close(seen.activations["body"], body)
        torch.testing.assert_close(seen.gradients["body"], by_body)
        torch.testing.assert_close(seen.gradients["pixels"], by_pixels)
        torch.testing.assert_close(seen.scores, logits[range(3), [0, 1, 2]])
        assert seen.backwards == 1
        assert not seen.activations["body"].requires_grad
        assert seen.spatial("body").shape == (3, 6, 6, 6)


def test_one_forward_and_no_more_than_asked(pixels: Tensor) -> None:
    module = small_cnn().eval()
    runs = []
    module.register_forward_hook(lambda *_: runs.append(1))
    with trace(module, pixels, [0, 1, 2], layers=["stem", "body"], want={"activations"}) as seen:
        assert list(seen.activations) == ["stem", "body"]
        assert len(seen.gradients) == len(seen.attention) == seen.backwards == 0
    assert len(runs) == 1
    with pytest.raises(BadInput, match="holds nothing"):
        seen.activations["body"]


def test_in_place_operations_do_not_change_recordings(pixels: Tensor) -> None:
    recordings = []
    for inplace in (True, False):
        with trace(small_cnn(inplace), pixels, [0, 1, 2], layers=["norm", "body"]) as seen:
            assert (seen.activations["body"] < 0).any(), "the ReLU after it would have cut these"
            recordings.append([*seen.activations.values(), *seen.gradients.values()])
    for ours, plain in zip(*recordings, strict=True):
        torch.testing.assert_close(ours, plain)


class Explodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError("the backward pass went past the earliest recorded layer")


class Mined(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Explodes.apply(x)


def test_backward_stops_at_the_earliest_recorded_layer(pixels: Tensor) -> None:
    module = nn.Sequential(OrderedDict(first=nn.Conv2d(3, 3, 1), mine=Mined(), rest=small_cnn()))
    with trace(module, pixels, [0, 1, 2], layers=["rest.body"]) as seen:
        assert seen.gradients["rest.body"].abs().sum() > 0
    with (
        pytest.raises(RuntimeError, match="earliest"),
        trace(module, pixels, [0, 1, 2], layers=["first"]),
    ):
        pass


def state_of(module: nn.Module) -> list[object]:
    flags = [part.training for part in module.modules()]
    return [hooks_on(module), flags, [(p.requires_grad, p.grad) for p in module.parameters()]]


def test_everything_is_restored(pixels: Tensor) -> None:
    module = small_cnn().train()
    module.norm.eval()
    module.head.weight.requires_grad_(False)
    before = state_of(module)
    statistics = module.norm.running_mean.clone()
    with trace(module, pixels, [0, 1, 2], layers=["body", "pixels"]):
        pass
    assert state_of(module) == before
    assert torch.equal(module.norm.running_mean, statistics)


@pytest.mark.parametrize("where", ["forward", "target", "block"])
def test_everything_is_restored_after_an_error(pixels: Tensor, where: str) -> None:
    module = small_cnn().train()
    before = state_of(module)
    boom = ValueError("boom")

    def fail(*_: object) -> Tensor:
        raise boom

    handle = module.pool.register_forward_hook(fail) if where == "forward" else None
    before = state_of(module)
    target = fail if where == "target" else [0, 1, 2]
    with pytest.raises(ValueError, match="boom"), trace(module, pixels, target, layers=["body"]):
        raise boom
    assert state_of(module) == before
    if handle:
        handle.remove()


def test_second_order(pixels: Tensor) -> None:
    """score = sum of (a x)^2, so the gradient is 2 a² x and its derivative by a is 4 a x."""

    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.tensor(3.0))

        def forward(self, x: Tensor) -> Tensor:
            return ((self.a * x) ** 2).sum((1, 2, 3))

    module = Square()
    with trace(module, pixels, lambda scores: scores, layers=["pixels"], create_graph=True) as seen:
        torch.testing.assert_close(seen.gradients["pixels"], 2 * 9 * pixels)
        (by_a,) = torch.autograd.grad(seen.gradients["pixels"].sum(), [module.a])
    torch.testing.assert_close(by_a, 4 * 3 * pixels.sum())
    assert module.a.grad is None


def test_rows_are_independent(pixels: Tensor) -> None:
    module = small_cnn()
    with trace(module, pixels, [0, 1, 2], layers=["body"]) as together:
        for i in range(3):
            with trace(module, pixels[i : i + 1], [i], layers=["body"]) as alone:
                torch.testing.assert_close(alone.gradients["body"][0], together.gradients["body"][i])


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 1)
        self.idle = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x)).mean((2, 3))


@pytest.mark.parametrize(
    ("layer", "says"),
    [("inner", "more than once"), ("idle", "did not run"), ("outer.inner", "has no layer 'outer.inner'; it has inner")],
)
def test_layers_that_cannot_be_recorded(pixels: Tensor, layer: str, says: str) -> None:
    with pytest.raises(BadInput, match=says), trace(Twice(), pixels, [0, 1, 2], layers=[layer]):
        pass


def test_unknown_want_and_bad_scores(pixels: Tensor) -> None:
    with pytest.raises(BadInput, match="can record activations"), trace(small_cnn(), pixels, [0], want={"weights"}):
        pass
    with (
        pytest.raises(BadInput, match=r"one score per sample.*\(3, 5\)"),
        trace(small_cnn(), pixels, lambda logits: logits, layers=["body"]),
    ):
        pass
    with (
        pytest.raises(BadInput, match="do not depend"),
        trace(small_cnn(), pixels, lambda logits: logits.detach().sum(1), layers=["body"]),
    ):
        pass


def test_a_layer_that_the_score_ignores_has_zero_gradient(pixels: Tensor) -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Conv2d(3, 2, 1), nn.Conv2d(3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            self.unused(x)
            return self.used(x).mean((2, 3))

    with trace(Branches(), pixels, [0, 1, 0], layers=["used", "unused"]) as seen:
        assert seen.gradients["used"].abs().sum() > 0
        assert seen.gradients["unused"].abs().sum() == 0


def live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())


def test_nothing_stays_behind(pixels: Tensor) -> None:
    module = small_cnn()
    layers = ["body", "pixels", "stem"]

    def look(times: int) -> None:
        for _ in range(times):
            with trace(module, pixels, [0, 1, 2], layers=layers):
                pass
            with pytest.raises(BadInput), trace(module, pixels, lambda out: out, layers=layers):
                pass

    look(2)
    before = live_tensors()
    look(50)
    assert live_tensors() == before

"""Context managers around a torch module that always undo themselves: its mode, its parameters, its hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.models.structure import submodule


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for the while; afterwards every part is in the mode it was in."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Parameters out of the graph, so that it starts at the earliest recorded layer and costs nothing before it."""
    thawed = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in thawed:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in thawed:
            parameter.requires_grad_(True)


@contextmanager
def recorded(
    module: nn.Module,
    name: str,
    recordings: dict[str, Tensor],
    differentiate: bool,
    again: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Put the output of a layer into `recordings`. What flows on is a copy: in-place operations change no recording.

    `again()` says that a checkpointed layer is being run for the second time: that counts as no run.
    """

    def keep(part: nn.Module, _: Any, output: Any) -> Any:
        tensor = _first(output, name, part)
        if name in recordings and not again():
            raise BadInput(
                f"layer {name} ({type(part).__name__}) runs more than once in a forward; name one that runs once."
            )
        if differentiate and not tensor.requires_grad:
            tensor = tensor.detach().requires_grad_()
        recordings.setdefault(name, tensor)
        return _replaced(output, tensor.clone())

    # First of all hooks: transformers collects hidden states with hooks of its own, and must collect this copy.
    handle = submodule(module, name).register_forward_hook(keep, prepend=True)
    try:
        yield
    finally:
        handle.remove()


def _first(output: Any, name: str, part: nn.Module) -> Tensor:
    if isinstance(output, Tensor):
        return output
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0]
    if isinstance(tensor := getattr(output, "last_hidden_state", None), Tensor):
        return tensor
    raise BadInput(f"layer {name} ({type(part).__name__}) gives {say(output)}; a recording needs a tensor.")


def _replaced(output: Any, tensor: Tensor) -> Any:
    if isinstance(output, Tensor):
        return tensor
    if isinstance(output, tuple | list):
        return type(output)([tensor, *output[1:]])
    output["last_hidden_state"] = tensor
    return output


def say(output: Any) -> str:
    """A value for an error message."""
    return f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__

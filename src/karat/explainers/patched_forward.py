"""`patched_forward`: a part of a model gives another output, for the while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from karat.models.structure import submodule

if TYPE_CHECKING:
    from torch import Tensor, nn


@contextmanager
def patched_forward(module: nn.Module, name: str, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The part called `name` gives `change(output)`, or a tuple of that and the rest of its output.

    Its `forward` is replaced rather than its output hooked, so that every hook, those of a trace and those by which
    transformers collects hidden states, gets the changed output.
    """
    part: Any = submodule(module, name)
    own = part.__dict__.get("forward")
    original = part.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        if isinstance(output, tuple | list):
            return (change(output[0]), *output[1:])
        return change(output)

    part.forward = forward
    try:
        yield
    finally:
        if own is None:
            del part.forward
        else:
            part.forward = own

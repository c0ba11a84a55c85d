"""`Checkpoints`: layers that keep their input alone and are run once more in the backward pass.

A trace that differentiates keeps what every layer computed until the backward pass has used it. A checkpointed layer
keeps only what it was given; its inside is computed again when its turn comes, by the same kernels on the same numbers,
so the values are the same. Recordings are of the first run: hooks ask `again` and leave the second one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from karat.models.structure import submodule


class Checkpoints:
    """Entered around a forward and its backward. `within(part)` is a context that a second run is made in: on GPUs
    it is made in another thread, which knows nothing of the modes of this one."""

    def __init__(
        self,
        module: nn.Module,
        names: Sequence[str],
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.parts = [submodule(module, name) for name in outermost(names)]
        self.within = within
        self.again = False  # a layer is being run for the second time

    def __enter__(self) -> Checkpoints:
        for part in self.parts:
            part.forward = self._checkpointed(part.forward)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for part in self.parts:
            del part.forward  # the one of its class is back

    def _checkpointed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            runs = 0

            def once(*args: Any, **kwargs: Any) -> Any:
                nonlocal runs
                runs += 1
                if runs == 1:
                    return forward(*args, **kwargs)
                self.again = True
                try:
                    with self.within():
                        return forward(*args, **kwargs)
                finally:
                    self.again = False

            return checkpoint(once, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

        return run


def blocks(layers: Mapping[str, str]) -> tuple[str, ...]:
    """The layers of a model that repeat (`vision.3`, `decoder.0`), by the roles of its adapter."""
    numbered = [name for role, name in layers.items() if role.rpartition(".")[2].isdecimal()]
    return outermost(name for name in numbered if name.rpartition(".")[2].isdecimal())


def outermost(names: Any) -> tuple[str, ...]:
    """Without those that are part of another.

    >>> outermost(["a.0", "a.0.norm", "a.1"])
    ('a.0', 'a.1')
    """
    listed = list(dict.fromkeys(names))
    return tuple(n for n in listed if not any(n != other and n.startswith(f"{other}.") for other in listed))

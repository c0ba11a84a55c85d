"""What a call leaves behind: hooks, modes, gradients, weights, random states, altered images."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from karat.kernel.roles import Model
from karat.kernel.sample import Sample


def surroundings(model: Model, samples: Sequence[Sample]) -> dict[str, Any]:
    """All that an explainer or a model could change and must not, by name."""
    kept: dict[str, Any] = {f"the image of {sample.id}": sample.image.tobytes() for sample in samples}
    state: Any = np.random.get_state()
    kept["NumPy's global random state"] = (state[1].tobytes(), state[2])
    if "torch" not in sys.modules:
        return kept
    import torch

    kept["whether gradients are recorded"] = torch.is_grad_enabled()
    kept["torch's global random state"] = torch.random.get_rng_state().numpy().tobytes()
    module = getattr(model, "module", None)
    if not isinstance(module, torch.nn.Module):
        return kept
    for name, part in module.named_modules():
        part_name = name or "the module"
        hooks = [getattr(part, kind) for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")]
        kept[f"hooks of {part_name}"] = tuple(tuple(kind) for kind in hooks)
        kept[f"mode of {part_name}"] = (part.training, "forward" in part.__dict__)
    for name, weight in module.named_parameters():
        kept[f"weight {name}"] = (float(weight.detach().double().sum()), weight.requires_grad, weight.grad is None)
    return kept


def changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Names of what differs, "" if nothing does."""
    names = [name for name, value in before.items() if after.get(name) != value]  # torch may be loaded only after
    return f"changed: {', '.join(names[:3])}" if names else ""


@contextmanager
def breaking(model: Model) -> Iterator[None]:
    """Within the block every question to the model raises, after its forward pass where it has one."""
    kind = type(model)
    names = [name for name in ("score", "readout", "log_probability") if name in kind.__dict__]
    kept = {name: kind.__dict__[name] for name in names}

    def broken(real: Any) -> Any:
        def ask(*given: Any) -> Any:
            real(*given)
            raise _Break("the model broke, as it was told to")

        return ask

    try:
        for name in names:
            setattr(kind, name, broken(kept[name]))
        yield
    except _Break:
        pass
    finally:
        for name, real in kept.items():
            setattr(kind, name, real)


class _Break(Exception):
    """Raised on purpose."""

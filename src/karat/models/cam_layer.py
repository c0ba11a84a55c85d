"""The layer that CAMs read by default: the last map before pooling, after its activation.

CAMs weigh activations and add them up, so a negative activation turns its channel's weight round: published CAMs read
maps that an activation has made (almost) non-negative. Where a network keeps such a map is not in its names (the last
"stage" of an EfficientNet is a linear bottleneck, with an activated 1×1 convolution after it), so the module is run
once on noise and its outputs are looked at in the order in which they are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karat.models.structure import attention_modules, block_norm

if TYPE_CHECKING:
    from torch import Tensor, nn

LEAST = -0.376  # hard swish goes down to -0.375, lower than ReLU, GELU, SiLU and Mish do
_STAGES = ("layer4", "features")


@dataclass(frozen=True)
class CamLayer:
    """A layer with a map. `activated`: its values come from an activation, or none of them is negative."""

    name: str
    activated: bool
    negative: float = float("nan")  # share of its values on noise that are negative; NaN where it could not be run


def cam_layer(module: nn.Module, size: tuple[int, int] = (224, 224)) -> CamLayer | None:
    """The layer that CAMs read unless they are told another one.

    The last map (n, c, h, w) that is complete before the classifier begins, if an activation made it and no attention
    comes after it. Else, in transformers, the norm before the last attention where a class token decides (after it
    only that token does), or before the last MLP. Else the last map, signed as it is.

    Args:
        module: the network.
        size: (height, width) of what it is run on.

    Returns:
        A `CamLayer`; None where there is nothing of the kind.

    Example:
        >>> from torch import nn
        >>> features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        >>> cam_layer(nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)), (8, 8))
        CamLayer(name='0', activated=True, negative=0.0)
    """
    attention = attention_modules(module)
    outputs = _outputs(module, size)
    last = _last_map(outputs, attention)
    if last is not None and (last.activated or not attention):
        return last
    stage = _last_stage(module, outputs)
    block = attention[-1].rpartition(".")[0] if attention else stage
    if block is not None and (norm := block_norm(module, block)) is not None:
        return CamLayer(norm, activated=False, negative=_share(outputs, norm))
    if last is not None:
        return last
    return None if stage is None else CamLayer(stage, activated=False, negative=_share(outputs, stage))


@dataclass(frozen=True)
class _Output:
    """What one part handed on, and how many learned layers had begun by then."""

    name: str
    part: nn.Module
    tensor: Tensor  # held, so that its identity stays its own
    learned: int
    negative: float


def _outputs(module: nn.Module, size: tuple[int, int]) -> list[_Output]:
    """Outputs of all parts in one forward on noise; empty where the module takes no such image."""
    import torch

    made: list[_Output] = []
    begun = [0]

    def begin(part: nn.Module, _: Any) -> None:
        begun[0] += 1

    def keep(name: str, part: nn.Module, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.ndim > 2 and output.is_floating_point():
            made.append(_Output(name, part, output, begun[0], float((output < 0).float().mean())))

    handles = []
    for name, part in module.named_modules():
        if next(part.parameters(recurse=False), None) is not None:
            handles.append(part.register_forward_pre_hook(begin))
        handles.append(part.register_forward_hook(lambda part, _, output, name=name: keep(name, part, output)))
    example = next(module.parameters(), torch.empty(0))
    noise = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0)).to(example.device, example.dtype)
    try:
        with torch.no_grad(), _evaluating(module):
            module(noise)
    except Exception:  # every module refuses an image it cannot take in its own words
        return []
    finally:
        for handle in handles:
            handle.remove()
    return [output for output in made if output.learned < begun[0]]  # before the last learned layer: the classifier


def _last_map(outputs: list[_Output], attention: list[str]) -> CamLayer | None:
    """The last map, by the name of the outermost part that hands it on; None where attention or tokens come later."""
    from torch import nn

    since = max((k for k, o in enumerate(outputs) if o.name in attention or o.tensor.ndim == 3), default=-1)
    maps = [
        output
        for output in outputs[since + 1 :]
        if output.tensor.ndim == 4
        and output.tensor.shape[2] * output.tensor.shape[3] > 1
        and not isinstance(output.part, nn.Identity | nn.Dropout)
    ]
    if not maps:
        return None
    last = maps[-1]
    leaves = [output.part for output in maps if output.tensor is last.tensor and not any(output.part.children())]
    activated = last.negative == 0 or (bool(leaves) and _is_activation(leaves[-1], last.tensor))
    return CamLayer(last.name, activated, last.negative)


def _is_activation(part: nn.Module, output: Tensor) -> bool:
    """Activations of torch and of timm each have a file of their own; others have no weights and a floor."""
    if next(part.parameters(), None) is None and float(output.min()) >= LEAST:
        return True
    return type(part).__module__.rpartition(".")[2].startswith("activation")


def _share(outputs: list[_Output], name: str) -> float:
    return next((output.negative for output in outputs if output.name == name), float("nan"))


def _last_stage(module: nn.Module, outputs: list[_Output]) -> str | None:
    """The last stage: as timm names it, else the last part with parts that ran; of a module that did not run, by its
    usual names, else the last convolution."""
    from torch import nn

    ran = [output.name for output in outputs if any(output.part.children())]
    stages = getattr(module, "feature_info", None)
    if isinstance(stages, list) and stages and (not ran or stages[-1]["module"] in ran):
        return str(stages[-1]["module"])
    if ran:
        return ran[-1]
    children = {name for name, _ in module.named_children()}
    convolutions = [name for name, part in module.named_modules() if isinstance(part, nn.Conv2d)]
    return next((stage for stage in _STAGES if stage in children), convolutions[-1] if convolutions else None)


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True

"""LoRA on named layers: put in with peft for training, kept as two small matrices a layer, merged by hand.

Merging needs no peft: W + alpha / rank · B A, for linear layers and for convolutions of one pixel (Hu et al. 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from karat.kernel.errors import BadInput, ExtraMissing

A, B = ".lora_A.weight", ".lora_B.weight"


def adaptable(module: nn.Module, targets: Sequence[str], outside: str | None = None) -> list[str]:
    """Dotted names of the layers whose names end with one of `targets`, those under `outside` left out."""
    fit = {
        name: part
        for name, part in module.named_modules()
        if fits(part) and (outside is None or not name.startswith(outside))
    }
    chosen = [name for name in fit if any(name == target or name.endswith(f".{target}") for target in targets)]
    for target in targets:
        if not any(name == target or name.endswith(f".{target}") for name in chosen):
            endings = sorted({name.rsplit(".", 1)[-1] for name in fit})
            where = f" outside of {outside}" if outside else ""
            raise BadInput(
                f"LoRA has no target {target!r} in {type(module).__name__}{where}: "
                f"layers it could adapt end with {', '.join(endings[:12]) or 'nothing: there are none'}."
            )
    return chosen


def fits(part: nn.Module) -> bool:
    """Whether an adapter can be put on it: a linear layer, or a convolution of one pixel."""
    if isinstance(part, nn.Conv2d):
        return part.kernel_size == (1, 1) and part.groups == 1
    return isinstance(part, nn.Linear)


def insert(module: nn.Module, names: Sequence[str], rank: int, alpha: int) -> None:
    """Put adapters into the module, in place; seed torch before. Everything but them is frozen."""
    try:
        import peft
    except ImportError:
        raise ExtraMissing("LoRA", "peft", "train") from None
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(names))
    peft.inject_adapter_in_model(config, module)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(".lora_" in name)


def plain_name(name: str) -> str:
    """The name of a tensor as it is kept: without what peft puts around it.

    >>> plain_name("layers.0.q_proj.lora_A.default.weight"), plain_name("layers.0.q_proj.base_layer.weight")
    ('layers.0.q_proj.lora_A.weight', 'layers.0.q_proj.weight')
    """
    return name.replace(".default.", ".").replace(".base_layer.", ".")


def apply(module: nn.Module, tensors: Mapping[str, Tensor], scale: float) -> None:
    """Put an organism's tensors into a module without adapters: LoRA pairs are added, others take their place."""
    import torch

    own = dict(module.named_parameters())
    layers = {name.removesuffix(A) for name in tensors if name.endswith(A)}
    plain = {name: tensor for name, tensor in tensors.items() if not name.endswith((A, B))}
    wrong = [name for name in (*plain, *(f"{layer}.weight" for layer in layers)) if name not in own]
    wrong += [name for name, tensor in plain.items() if name in own and own[name].shape != tensor.shape]
    if wrong:
        raise BadInput(
            f"the organism's {wrong[0]!r} does not fit its base, a {type(module).__name__}: another version?"
        )
    with torch.no_grad():
        for name, tensor in plain.items():
            own[name].copy_(tensor)
        for layer in sorted(layers):
            weight = own[f"{layer}.weight"]
            change = tensors[layer + B].flatten(1).to(weight) @ tensors[layer + A].flatten(1).to(weight)
            weight.add_(change.reshape(weight.shape), alpha=scale)


def trained(module: nn.Module) -> dict[str, Any]:
    """Parameters that training moves, by the names they are kept under."""
    return {plain_name(name): p for name, p in module.named_parameters() if p.requires_grad}

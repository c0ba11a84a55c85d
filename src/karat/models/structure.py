"""What a torch module says about its own structure: attention modules, prefix tokens, grids, norms of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.kernel.errors import BadInput

if TYPE_CHECKING:
    from torch import nn

_CLASS_TOKENS = ("cls_token", "class_token", "class_embedding")
_BEFORE_ATTENTION = ("norm1", "ln_1", "layer_norm1", "layernorm_before", "input_layernorm")
_BEFORE_MLP = ("norm2", "ln_2", "layer_norm2", "layernorm_after", "post_attention_layernorm")


def submodule(module: nn.Module, name: str) -> nn.Module:
    """A part by its dotted name, or an error that lists names like it."""
    try:
        return module.get_submodule(name)
    except AttributeError:
        last = name.rsplit(".", 1)[-1]
        near = [known for known, _ in module.named_modules() if known.endswith(last)][:5]
        known = near or [child for child, _ in module.named_children()]
        raise BadInput(f"{type(module).__name__} has no layer {name!r}; it has {', '.join(known)}.") from None


def attention_modules(module: nn.Module) -> list[str]:
    """Dotted names of the innermost attention modules, first to last, told by their class names.

    >>> from torch import nn
    >>> attention_modules(nn.TransformerEncoderLayer(8, 2))
    ['self_attn']
    """
    named = [name for name, part in module.named_modules() if _is_attention(part)]
    return [name for name in named if not any(other != name and other.startswith(f"{name}.") for other in named)]


def _is_attention(part: nn.Module) -> bool:
    name = type(part).__name__.lower()
    return "attention" in name or name.endswith("attn")


def grid_of(count: int, image: tuple[int, int]) -> tuple[int, int] | None:
    """The one grid of `count` cells whose cells are square on the image, if there is one.

    >>> grid_of(49, (224, 224)), grid_of(98, (448, 224)), grid_of(50, (224, 224))
    ((7, 7), (14, 7), None)
    """
    rows = round((count * image[0] / image[1]) ** 0.5) if count > 0 else 0
    if rows < 1 or count % rows:
        return None
    grid = rows, count // rows
    return grid if fits(*grid, image) else None


def prefix_tokens(module: nn.Module, layer: str) -> int:
    """Tokens before the patches: what the innermost module around `layer` declares (timm), or its class token."""
    from torch import Tensor

    parts = layer.split(".")
    for depth in range(len(parts), -1, -1):
        owner = module.get_submodule(".".join(parts[:depth]))
        if isinstance(declared := getattr(owner, "num_prefix_tokens", None), int):
            return declared
        holders = [owner, *(child for name, child in owner.named_children() if "embed" in name)]
        if any(isinstance(getattr(holder, name, None), Tensor) for holder in holders for name in _CLASS_TOKENS):
            return 1
    return 0


def fits(rows: int, columns: int, image: tuple[int, int]) -> bool:
    """Whether cells are square on the image, up to the rounding of strides and padding: within one cell each way."""
    height, width = image
    if rows > height or columns > width:
        return False
    stride = max(height / rows, width / columns)
    return abs(rows - height / stride) < 1 and abs(columns - width / stride) < 1


def single_sequence(module: nn.Module) -> bool:
    """Whether attention runs over one sequence of tokens from first to last layer, as in ViT and unlike in Swin."""
    layers = attention_modules(module)
    if not layers:
        return False
    if prefix_tokens(module, layers[-1]):
        return True
    stages = getattr(module, "feature_info", None)  # timm
    return isinstance(stages, list) and len({stage["reduction"] for stage in stages}) == 1


def block_norm(module: nn.Module, block: str) -> str | None:
    """The norm of a transformer block after which every place still matters: before attention where a class token will
    decide, before the MLP otherwise. None where the block has none of the usual names."""
    names = _BEFORE_ATTENTION if prefix_tokens(module, block) else _BEFORE_MLP
    children = {name for name, _ in module.get_submodule(block).named_children()}
    norms = [name for name in names if name in children]
    return None if not norms else f"{block}.{norms[0]}" if block else norms[0]

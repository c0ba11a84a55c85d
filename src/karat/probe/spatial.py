"""Where a recorded tensor sits in the image: (n, channels, rows, columns) from whatever shape a layer computes with.

Nothing is reshaped on a guess. The grid must have the image's proportions, prefix tokens must be declared by the model,
and whatever does not fit is an error that shows the shapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.models.structure import fits, grid_of, prefix_tokens

_CHANNELS_LAST = (nn.LayerNorm, nn.Linear, nn.Embedding)
_CHANNELS_FIRST = (nn.Conv2d, nn.BatchNorm2d, nn.GroupNorm, nn.MaxPool2d, nn.AvgPool2d)


def spatial(tensor: Tensor, module: nn.Module, layer: str, image: tuple[int, int]) -> Tensor:
    """The recording of `layer` laid out over an image of (height, width): (n, channels, rows, columns).

    CNN maps (n, c, h, w) and channels-last maps (n, h, w, c) are told apart by the image's proportions; token sequences
    (n, tokens, c) lose the prefix tokens that the model declares; Hiera's unrolled order is rolled back.
    """
    if tensor.ndim == 4:
        return _from_map(tensor, module, layer, image)
    if tensor.ndim == 3:
        if hasattr(module, "reroll") and (block := re.search(r"blocks\.(\d+)", layer)):
            rolled = _rerolled(tensor, module, layer, int(block.group(1)))
            return _from_map(rolled, module, layer, image)
        return tokens_to_grid(tensor, layer, image, prefix_tokens(module, layer))
    raise BadInput(
        f"layer {layer} gives shape {tuple(tensor.shape)}; a map needs (n, c, h, w), (n, h, w, c) or (n, tokens, c)."
    )


def tokens_to_grid(tokens: Tensor, layer: str, image: tuple[int, int], prefix: int = 0) -> Tensor:
    """(n, prefix + rows * columns, c) to (n, c, rows, columns), rows : columns as the image's height : width."""
    count = tokens.shape[1] - prefix
    grid = grid_of(count, image)
    if grid is None:
        raise BadInput(
            f"layer {layer} gives {tuple(tokens.shape)}: {count} tokens after {prefix} prefix tokens make no grid of "
            f"the proportions of the {image[0]}×{image[1]} input. Name another layer, or give the grid with `at`."
        )
    return at(tokens, range(prefix, tokens.shape[1]), grid)


def at(tokens: Tensor, positions: Sequence[int], grid: tuple[int, int]) -> Tensor:
    """The tokens at given positions, row-major over `grid`: (n, c, rows, columns)."""
    rows, columns = grid
    if len(positions) != rows * columns or max(positions) >= tokens.shape[1]:
        raise BadInput(
            f"{len(positions)} visual positions do not fill a {rows}×{columns} grid of tokens {tuple(tokens.shape)}."
        )
    picked = tokens[:, torch.as_tensor(list(positions), device=tokens.device)]
    return picked.transpose(1, 2).reshape(tokens.shape[0], tokens.shape[2], rows, columns)


def _from_map(tensor: Tensor, module: nn.Module, layer: str, image: tuple[int, int]) -> Tensor:
    _, a, b, c = tensor.shape
    first, last = fits(b, c, image), fits(a, b, image)
    part = module.get_submodule(layer)
    if first and last and isinstance(part, _CHANNELS_FIRST + _CHANNELS_LAST):
        first, last = isinstance(part, _CHANNELS_FIRST), isinstance(part, _CHANNELS_LAST)
    if first == last:
        what = "both orders of channels fit" if first else "neither order of channels fits"
        raise BadInput(
            f"layer {layer} gives {tuple(tensor.shape)} for a {image[0]}×{image[1]} input: {what} its proportions. "
            "Name a layer whose maps have the image's proportions, a convolution or a norm."
        )
    return tensor if first else tensor.permute(0, 3, 1, 2)


def _rerolled(tokens: Tensor, module: nn.Module, layer: str, block: int) -> Tensor:
    """timm's Hiera keeps tokens in the order in which they will be pooled; its own `reroll` undoes it: (n, h, w, c)."""
    reroll: Any = module.reroll
    rows, columns = reroll.schedule[block][1]
    if tokens.shape[1] != rows * columns:
        raise BadInput(
            f"layer {layer} gives {tuple(tokens.shape)}, but block {block} ends with a {rows}×{columns} grid: "
            "it runs before the block pools. Name the block itself or its norm2."
        )
    rolled: Tensor = reroll(tokens, block)
    return rolled

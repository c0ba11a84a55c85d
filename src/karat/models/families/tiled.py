"""Tiles and a thumbnail (InternVL's): a wide image is cut into square tiles, and shown small as a whole after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Image
from karat.models.families.family import Size, View
from karat.models.torch_model import Frame

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Tiles:
    """Pixels are the tiles put together again; tokens of the thumbnail stand for no place of the grid.

    When pixels change (a masked patch, a step of a path), the thumbnail changes as the downscaled change would have it.
    """

    def size(self, processor: Any, height: int, width: int) -> Size:
        images = processor.image_processor
        return _size(images, height, width, (images.min_patches, images.max_patches))

    def pixels(self, processor: Any, images: Sequence[Image]) -> tuple[Tensor, Mapping[str, Tensor]]:
        made = _processed(processor.image_processor, images)
        tiles = made["pixel_values"].unflatten(0, (len(images), -1))
        height, width = self.size(processor, *images[0].shape[:2])
        side = tiles.shape[-1]
        rows, columns = height // side, width // side
        whole = _together(tiles[:, : rows * columns], rows, columns)
        if tiles.shape[1] == 1:
            return whole, {}
        return whole, {"whole": whole, "thumbnail": tiles[:, -1]}

    def frame(self, processor: Any, height: int, width: int) -> Frame | None:
        return 0.0, 0.0, 1.0, 1.0

    def view(self, module: Any, size: Size) -> View:
        tiles, per_side = self._tiles(module, size), self._tokens_per_side(module)
        numbers = np.arange(tiles[0] * tiles[1] * per_side**2).reshape(*tiles, per_side, per_side)
        order = numbers.transpose(0, 2, 1, 3).reshape(-1)
        grid = tiles[0] * per_side, tiles[1] * per_side
        count = len(order) + (per_side**2 if len(order) > per_side**2 else 0)
        return View(grid, tuple(order.tolist()), count)

    def features(self, module: Any, pixels: Tensor, other: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        rows, columns = self._tiles(module, (pixels.shape[-2], pixels.shape[-1]))
        tiles = _apart(pixels, rows, columns)
        if "thumbnail" in other:
            import torch
            from torch.nn import functional

            small, moved = other["thumbnail"], pixels - other["whole"]
            wide = moved if moved.element_size() >= 4 else moved.float()  # no antialiasing in half precision
            shrunk = functional.interpolate(wide, small.shape[-2:], mode="bicubic", antialias=True)
            tiles = torch.cat([tiles, (small + shrunk.to(small.dtype))[:, None]], 1)
        features = module.get_image_features(pixel_values=tiles.flatten(0, 1), return_dict=True).pooler_output
        return {"features": features.reshape(len(pixels), -1, features.shape[-1])}

    def by_sample(self, module: Any, layer: str, recording: Tensor, n: int, size: Size) -> Tensor:
        rows, columns = self._tiles(module, size)
        each = recording.unflatten(0, (n, -1))
        if recording.ndim == 4:  # a convolution: the thumbnail's map has no place in the image's
            return _together(each[:, : rows * columns], rows, columns)
        order = self._order(module, size, recording.shape[1])
        return each.flatten(1, 2)[:, order]

    def as_run(self, module: Any, layer: str, states: Tensor, size: Size) -> Tensor:
        rows, columns = self._tiles(module, size)
        count = rows * columns + (rows * columns > 1)
        order = self._order(module, size, states.shape[1] // count)
        return states[:, np.argsort(order)].unflatten(1, (count, -1)).flatten(0, 1)

    def patches(self, module: Any, size: Size) -> Size | None:
        vision = module.config.vision_config
        side = _side(vision.patch_size)
        return size[0] // side, size[1] // side

    def _order(self, module: Any, size: Size, tokens: int) -> np.ndarray[Any, Any]:
        """Tokens of all tiles of a sample: the patches of the whole image row-major, then all others."""
        rows, columns = self._tiles(module, size)
        count = rows * columns + (rows * columns > 1)
        per_side = isqrt(tokens)
        first = tokens - per_side**2  # a class token
        numbers = np.arange(count * tokens).reshape(count, tokens)
        patches = numbers[: rows * columns, first:].reshape(rows, columns, per_side, per_side)
        placed = patches.transpose(0, 2, 1, 3).reshape(-1)
        return np.concatenate([placed, np.setdiff1d(numbers.reshape(-1), placed)])

    def _tiles(self, module: Any, size: Size) -> Size:
        side = _side(module.config.vision_config.image_size)
        return size[0] // side, size[1] // side

    def _tokens_per_side(self, module: Any) -> int:
        vision = module.config.vision_config
        return int(_side(vision.image_size) // _side(vision.patch_size) * module.config.downsample_ratio)


def _side(size: Any) -> int:
    """Square sizes are written as one number or as two equal ones."""
    return int(size if isinstance(size, int) else size[0])


def _processed(processor: Any, images: Sequence[Image]) -> Any:
    # InternVL's processor asks for tiles; its image processor by itself would not cut them.
    return processor(images=list(images), crop_to_patches=True, return_tensors="pt")


@cache
def _size(images: Any, height: int, width: int, limits: Size) -> Size:
    """The canvas of tiles whose proportions are nearest, as the processor chooses it."""
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas

    if min(height, width) < 1:
        raise BadInput(f"an image of {height}×{width} pixels cannot be shown.")
    side = images.size["height"], images.size["width"]
    columns, rows = get_optimal_tiled_canvas((height, width), side, *limits)
    return rows * side[0], columns * side[1]


def _together(tiles: Tensor, rows: int, columns: int) -> Tensor:
    """(n, rows · columns, c, h, w) to (n, c, rows · h, columns · w)."""
    n, _, channels, height, width = tiles.shape
    placed = tiles.reshape(n, rows, columns, channels, height, width).permute(0, 3, 1, 4, 2, 5)
    return placed.reshape(n, channels, rows * height, columns * width)


def _apart(pixels: Tensor, rows: int, columns: int) -> Tensor:
    n, channels, height, width = pixels.shape
    cut = pixels.reshape(n, channels, rows, height // rows, columns, width // columns).permute(0, 2, 4, 1, 3, 5)
    return cut.reshape(n, rows * columns, channels, height // rows, width // columns)

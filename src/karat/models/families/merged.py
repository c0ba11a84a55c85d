"""Dynamic resolution with merged patches (Qwen's): an image keeps its proportions, m × m patches make one token.

The processor gives patches in the order in which they are merged, flattened, all images in one sequence. Here they are
pixels (n, 3, H, W) again, and are cut up inside `features`, so that gradients and masks are those of pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Image
from karat.models.families.family import Size, View
from karat.models.torch_model import Frame

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class MergedPatches:
    """`windowed`: the tower's blocks run over windows, window by window (Qwen2.5-VL)."""

    windowed: bool = False

    def size(self, processor: Any, height: int, width: int) -> Size:
        return _size(processor.image_processor, height, width, str(processor.image_processor.size))

    def pixels(self, processor: Any, images: Sequence[Image]) -> tuple[Tensor, Mapping[str, Tensor]]:
        settings = processor.image_processor
        processed = settings(images=list(images), return_tensors="pt")
        side, merge = settings.patch_size, settings.merge_size
        rows, columns = processed["image_grid_thw"][0, 1:].tolist()
        blocks = (len(images), rows // merge, columns // merge, merge, merge, -1)
        # (n, rows / m, columns / m, m, m, channel, time, side, side); both times show the same image.
        patches = processed["pixel_values"].reshape(*blocks, settings.temporal_patch_size, side, side)[
            :, :, :, :, :, :, 0
        ]
        return patches.permute(0, 5, 1, 3, 6, 2, 4, 7).reshape(len(images), -1, rows * side, columns * side), {}

    def frame(self, processor: Any, height: int, width: int) -> Frame | None:
        return 0.0, 0.0, 1.0, 1.0

    def view(self, module: Any, size: Size) -> View:
        vision = module.config.vision_config
        side = vision.patch_size * vision.spatial_merge_size
        rows, columns = size[0] // side, size[1] // side
        return View((rows, columns), tuple(range(rows * columns)), rows * columns)

    def features(self, module: Any, pixels: Tensor, other: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        import torch

        vision = module.config.vision_config
        n, height, width = len(pixels), *pixels.shape[-2:]
        grid = torch.tensor([[1, height // vision.patch_size, width // vision.patch_size]], device=pixels.device)
        patches = flattened(pixels, vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size)
        outputs = module.get_image_features(patches, grid.expand(n, -1), return_dict=True)
        features = {"features": torch.stack(list(outputs.pooler_output))}
        if deep := getattr(outputs, "deepstack_features", None):
            features["deep"] = torch.stack([torch.stack(list(each)) for each in deep], 1)
        return features

    def by_sample(self, module: Any, layer: str, recording: Tensor, n: int, size: Size) -> Tensor:
        each = recording.reshape(n, -1, recording.shape[-1])
        order = self._order(module, layer, each.shape[1], size)
        return recording if order is None else each[:, np.argsort(order)]  # where the row-major patches stand

    def as_run(self, module: Any, layer: str, states: Tensor, size: Size) -> Tensor:
        order = self._order(module, layer, states.shape[1], size)
        return states if order is None else states[:, order].flatten(0, 1)

    def patches(self, module: Any, size: Size) -> Size | None:
        return None  # one token per square cell: the count tells

    def _order(self, module: Any, layer: str, tokens: int, size: Size) -> np.ndarray[Any, Any] | None:
        """Row-major numbers of the patches, or of the merged tokens, in the order in which a layer runs over them."""
        vision = module.config.vision_config
        merge, side = vision.spatial_merge_size, vision.patch_size
        rows, columns = size[0] // side // merge, size[1] // side // merge
        units = np.arange(rows * columns)
        if self.windowed and "patch_embed" not in layer:
            window = vision.window_size // merge // side
            row, column = np.divmod(units, columns)
            units = np.lexsort((column, row, column // window, row // window))
        if tokens == len(units):
            return units
        if tokens != len(units) * merge**2:
            return None
        patches = np.arange(tokens).reshape(rows, merge, columns, merge).transpose(0, 2, 1, 3)
        return patches.reshape(len(units), -1)[units].reshape(-1)


def flattened(pixels: Tensor, side: int, merge: int, times: int) -> Tensor:
    """(n, 3, H, W) to (n · patches, 3 · times · side²), merged patches side by side, the image repeated over time."""
    n, channels, height, width = pixels.shape
    rows, columns = height // side // merge, width // side // merge
    cut = pixels.reshape(n, channels, rows, merge, side, columns, merge, side).permute(0, 2, 5, 3, 6, 1, 4, 7)
    return cut.unsqueeze(6).expand(-1, -1, -1, -1, -1, -1, times, -1, -1).reshape(n * rows * columns * merge**2, -1)


@cache
def _size(images: Any, height: int, width: int, limits: str) -> Size:
    """Asked of the processor itself, once for each size of image and limits."""
    try:
        processed = images(images=[np.zeros((height, width, 3), np.uint8)], return_tensors="pt")
    except ValueError as error:
        raise BadInput(f"an image of {height}×{width} pixels cannot be shown: {error}") from None
    _, rows, columns = processed["image_grid_thw"][0].tolist()
    return rows * images.patch_size, columns * images.patch_size

"""A fixed grid: every image becomes pixels of one size, and one token per patch or per block of patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

from karat.kernel.typing import Image
from karat.models.families.family import Size, View
from karat.models.preprocessing import image_frame
from karat.models.torch_model import Frame

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FixedGrid:
    """LLaVA 1.5 (24 × 24 at 336 pixels, with or without the class token), Gemma 3 (patches pooled to 16 × 16)."""

    def size(self, processor: Any, height: int, width: int) -> Size:
        """The same for all: what is resized and cropped away is `frame`'s to tell."""
        return 0, 0

    def pixels(self, processor: Any, images: Sequence[Image]) -> tuple[Tensor, Mapping[str, Tensor]]:
        pixels: Tensor = processor.image_processor(images=list(images), return_tensors="pt")["pixel_values"]
        return pixels, {}

    def frame(self, processor: Any, height: int, width: int) -> Frame | None:
        return image_frame(processor.image_processor, height, width)

    def view(self, module: Any, size: Size) -> View:
        config = module.config
        side = config.vision_config.image_size // config.vision_config.patch_size
        if pooled := getattr(config, "mm_tokens_per_image", None):
            side = isqrt(pooled)
        first = 1 if getattr(config, "vision_feature_select_strategy", "default") == "full" else 0
        return View((side, side), tuple(range(first, first + side * side)), first + side * side)

    def features(self, module: Any, pixels: Tensor, other: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        import torch

        features = module.get_image_features(pixel_values=pixels, return_dict=True).pooler_output
        return {"features": features if isinstance(features, torch.Tensor) else torch.stack(list(features))}

    def by_sample(self, module: Any, layer: str, recording: Tensor, n: int, size: Size) -> Tensor:
        return recording

    def as_run(self, module: Any, layer: str, states: Tensor, size: Size) -> Tensor:
        return states

    def patches(self, module: Any, size: Size) -> Size | None:
        return None

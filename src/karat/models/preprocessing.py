"""`Preprocessing`: from images to pixels as data, so that what the model sees of an image is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Image
from karat.models.torch_model import Frame

if TYPE_CHECKING:
    from torch import Tensor

Interpolation = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """Resize, central crop, scale to [0, 1], normalise.

    With `crop` = 1 and `squash` the whole image is resized to `size`, proportions given up, so that no pixel is lost.
    Otherwise the shorter side is resized to `size / crop` and the centre is cut out, as torchvision and timm do.
    """

    size: tuple[int, int] = (224, 224)
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    interpolation: Interpolation = "bicubic"
    crop: float = 1.0
    squash: bool = True

    @staticmethod
    def of_timm(module: Any) -> Preprocessing:
        """What timm says its model was trained with, proportions kept; as much is shown as fits, so that maps cover
        the shorter side."""
        from timm.data.config import resolve_model_data_config

        config = resolve_model_data_config(module)
        return Preprocessing(
            config["input_size"][1:], config["mean"], config["std"], config["interpolation"], squash=False
        )

    def __call__(self, images: Sequence[Image]) -> Tensor:
        """Pixels (n, 3, height, width), float32."""
        import torch

        resized = np.stack([self._resized_image(image) for image in images])
        pixels = torch.from_numpy(resized).permute(0, 3, 1, 2).float() / 255
        return (pixels - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]

    def frame(self, height: int, width: int) -> Frame:
        """The part of an image of that size that `pixels` show: (top, left, bottom, right) as shares."""
        if self.squash:
            return 0.0, 0.0, 1.0, 1.0
        tall, wide = self._resized(height, width)
        top, left = (tall - self.size[0]) // 2, (wide - self.size[1]) // 2
        return top / tall, left / wide, (top + self.size[0]) / tall, (left + self.size[1]) / wide

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        if self.squash:
            return self.size
        scale = max(self.size[0] / height, self.size[1] / width) / self.crop
        return max(round(height * scale), self.size[0]), max(round(width * scale), self.size[1])

    def _resized_image(self, image: Image) -> Image:
        from PIL import Image as Pillow

        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise BadInput(f"an image must be uint8 of shape (H, W, 3); got {image.dtype} of shape {image.shape}.")
        tall, wide = self._resized(*image.shape[:2])
        if image.shape[:2] != (tall, wide):
            how = Pillow.Resampling[self.interpolation.upper()]
            image = np.asarray(Pillow.fromarray(image).resize((wide, tall), how))
        top, left = (tall - self.size[0]) // 2, (wide - self.size[1]) // 2
        return image[top : top + self.size[0], left : left + self.size[1]]


def image_frame(processor: Any, height: int, width: int) -> Frame | None:
    """What an image processor of transformers shows of an image: (top, left, bottom, right) as shares; None unknown."""
    if getattr(processor, "do_pad", False) or getattr(processor, "do_image_splitting", False):
        return None
    tall, wide = height, width
    size = processor.size if getattr(processor, "do_resize", False) else None
    if size is not None:
        if size.get("shortest_edge"):
            scale = size["shortest_edge"] / min(height, width)
            tall, wide = int(height * scale), int(width * scale)
        elif size.get("height") and size.get("width"):
            tall, wide = size["height"], size["width"]
        else:
            return None
    if not getattr(processor, "do_center_crop", False):
        return 0.0, 0.0, 1.0, 1.0
    cut = processor.crop_size
    if cut["height"] > tall or cut["width"] > wide:
        return None
    top, left = (tall - cut["height"]) // 2, (wide - cut["width"]) // 2
    return top / tall, left / wide, (top + cut["height"]) / tall, (left + cut["width"]) / wide

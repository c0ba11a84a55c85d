"""`Lens`: from pixels (n, 3, H, W) to the tensors that a model takes for its images, by the processor's own code.

Three kinds, the first that fits:

- "pixels": the processor gives one picture of one size; that is what is looked at and differentiated.
- "linear": it cuts, packs or pads. Pixels are the image's own, and the processor's code runs on them as floats, so that
  gradients pass through it. What rounding to 256 levels adds to the image as it is, is kept beside it (`residue`).
- "exact": its code takes no floats. Pixels are the image's own, and every altered image is rounded and processed anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from karat.kernel.errors import BadInput
from karat.kernel.typing import Image
from karat.models.discovery.discovered import LensKind
from karat.models.discovery.processing import Prepared, Processing
from karat.models.preprocessing import image_frame
from karat.models.torch_model import Frame

_LEVELS = 255.0
_ROUNDING = 0.15  # of normalised pixels: some levels of 256, where edges were sharpened by resizing
IMAGE, RESIDUE, STEP = "image.", "residue.", "step."  # of names in `Inputs.other`


@dataclass(frozen=True, eq=False)
class Lens:
    """`moving` names the tensors that change with the image; the others depend on its size alone. `along` has the axis
    along which a tensor of several images is those of each, where that is not the first; `counting` names tensors whose
    numbers go on from image to image (places in a list of all patches)."""

    processing: Processing
    kind: LensKind
    moving: tuple[str, ...]
    along: tuple[tuple[str, int], ...] = ()
    counting: tuple[str, ...] = ()

    @staticmethod
    def of(processing: Processing, images: Sequence[Image], question: str) -> Lens:
        """The kind, found by processing: the first two images are of one size, those after them of others."""
        one, other, *sized = (processing.one(image, question) for image in images)
        moving = tuple(
            name
            for name, tensor in one.images.items()
            if tensor.is_floating_point() and not torch.equal(tensor, other.images[name])
        )
        if not moving:
            raise BadInput(
                "probe 'does the processor look at the image': two different images give the same "
                f"{', '.join(one.images) or 'nothing'}. Is this processor the model's own?"
            )
        shapes = [each.images[moving[0]].shape for each in (one, *sized)]
        frame = image_frame(processing.processor.image_processor, *images[0].shape[:2])
        plain = all(len(shape) == 4 and shape[:2] == (1, 3) for shape in shapes)
        along = _axes(one, two := _twice(processing, images[0], question))
        counting = tuple(name for name in one.images if name not in moving and bool(_step(one, two, name).any()))
        if len(moving) == 1 and plain and frame is not None and _is_picture(processing, moving[0], images[0], question):
            return Lens(processing, "pixels", moving, along, counting)
        # Little contrast: where edges are sharpened by resizing, nothing is cut off at black or white.
        soft = (images[0] // 4 + 96).astype(np.uint8)
        lens = Lens(processing, "linear", moving, along, counting)
        return lens if lens._is_linear(soft, processing.one(soft, question)) else replace(lens, kind="exact")

    def size(self, height: int, width: int) -> tuple[int, int]:
        """What images must have in common to make a batch."""
        return (0, 0) if self.kind == "pixels" and self._fixed else (height, width)

    def frame(self, height: int, width: int) -> Frame | None:
        if self.kind == "exact":
            return None
        if self.kind == "linear":
            return 0.0, 0.0, 1.0, 1.0
        return image_frame(self.processing.processor.image_processor, height, width)

    def pixels(self, image: Image, prepared: Prepared) -> Tensor:
        """(1, 3, H, W)."""
        if self.kind == "pixels":
            return prepared.images[self.moving[0]]
        return torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float() / _LEVELS

    def kept(self, image: Image, prepared: Prepared) -> dict[str, Tensor]:
        """What else of one image goes into `Inputs.other`, one row."""
        rows = {
            IMAGE + name: tensor[None]
            for name, tensor in prepared.images.items()
            if name not in self.moving or self.kind != "pixels"
        }
        if self.kind == "linear":
            with torch.no_grad():
                smooth = self._processed(self.pixels(image, prepared))
            rows |= {RESIDUE + name: prepared.images[name][None] - smooth[name][None] for name in self.moving}
        return rows | {STEP + name: self._steps(image.shape, name) for name in self.counting}

    def tensors(self, pixels: Tensor, other: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the model's forward takes for its images, rows of all samples one after another."""
        axis = dict(self.along)
        kept = {name.removeprefix(IMAGE): tensor for name, tensor in other.items() if name.startswith(IMAGE)}
        for name in self.counting:
            step = other[STEP + name]
            kept[name] = kept[name] + step * torch.arange(len(step), device=step.device).view(
                -1, *[1] * (step.ndim - 1)
            )
        given = {name: _joined(tensor, axis.get(name, 0)) for name, tensor in kept.items()}
        if self.kind == "pixels":
            return given | {self.moving[0]: pixels}
        rows = self._processed(pixels) if self.kind == "linear" else self._rounded(pixels)
        for name in self.moving:
            like = given[name]
            row = rows[name].to(pixels.device)
            if self.kind == "linear":
                row = row.reshape(like.shape) + _joined(other[RESIDUE + name], axis.get(name, 0)).to(row)
            given[name] = row.reshape(like.shape).to(pixels.dtype).contiguous()
        return given

    def _processed(self, pixels: Tensor) -> dict[str, Tensor]:
        """Floats through the processor's code, differentiable."""
        images: list[Any] = list((pixels.float() * _LEVELS).cpu().unbind())
        call = self._call
        if self._memory["nested"]:
            images = [[image] for image in images]
        made = self.processing.processor.image_processor(images, **call)
        return {name: made[name] for name in self.moving}

    def _rounded(self, pixels: Tensor) -> dict[str, Tensor]:
        images = (pixels.detach().float() * _LEVELS).round().clamp(0, _LEVELS).byte().permute(0, 2, 3, 1).cpu().numpy()
        made = [self.processing.one(image, "?").images for image in images]
        axis = dict(self.along)
        return {name: torch.cat([each[name] for each in made], axis.get(name, 0)) for name in self.moving}

    def _steps(self, shape: tuple[int, ...], name: str) -> Tensor:
        """(1, ...) what is added to a tensor's numbers from one image of this size to the next."""
        if (shape, name) not in self._memory:
            image = np.zeros(shape, np.uint8)
            one, two = self.processing.one(image, "?"), _twice(self.processing, image, "?")
            self._memory[shape, name] = _step(one, two, name)[None]
        step: Tensor = self._memory[shape, name]
        return step

    @property
    def _call(self) -> dict[str, Any]:
        """How the processor itself calls its image processor."""
        if "call" not in self._memory:
            with self.processing.recorded("image_processor") as recorder:
                self.processing.one(np.zeros((64, 64, 3), np.uint8), "?")
            args, kwargs = recorder.calls[0]
            if len(args) > 1:
                raise BadInput("the image processor is called with more than images.")
            images = args[0] if args else kwargs["images"]
            self._memory["nested"] = isinstance(images, list) and bool(images) and isinstance(images[0], list)
            self._memory["call"] = {name: value for name, value in kwargs.items() if name != "images"}
            self._memory["call"]["return_tensors"] = "pt"
        return self._memory["call"]

    @property
    def _memory(self) -> dict[Any, Any]:
        return self.__dict__.setdefault("_kept", {})

    @property
    def _fixed(self) -> bool:
        if "fixed" not in self._memory:
            shapes = {
                self.processing.one(np.zeros((*size, 3), np.uint8), "?").images[self.moving[0]].shape
                for size in ((64, 64), (96, 160))
            }
            self._memory["fixed"] = len(shapes) == 1
        return bool(self._memory["fixed"])

    def _is_linear(self, image: Image, prepared: Prepared) -> bool:
        pixels = self.pixels(image, prepared).requires_grad_()
        try:
            made = self._processed(pixels)
        except Exception:  # whatever a processor raises on floats, it does not take them
            return False
        return all(
            made[name].requires_grad
            and made[name].shape == prepared.images[name].shape
            and float((made[name] - prepared.images[name]).detach().abs().max()) < _ROUNDING
            for name in self.moving
        )


def _joined(rows: Tensor, axis: int) -> Tensor:
    """(n, *one image's) as the model takes it: the images one after another along an axis."""
    joined = rows.flatten(0, 1) if axis == 0 else torch.cat(list(rows.unbind()), axis)
    return joined.contiguous()


def _twice(processing: Processing, image: Image, question: str) -> Mapping[str, Any]:
    """What the processor makes of an image beside itself."""
    text = processing.chat(question)
    try:
        return processing.call([image, image], [text, text])
    except BadInput:
        return processing.call([[image], [image]], [text, text])


def _step(one: Prepared, two: Mapping[str, Any], name: str) -> Tensor:
    """How the numbers of a second image's tensor go on from the first's, which is beside it; zeros if they do not."""
    tensor, both = one.images[name], torch.as_tensor(two[name])
    nothing = torch.zeros_like(tensor)
    if tensor.is_floating_point() or both.shape[1:] != tensor.shape[1:] or len(both) != 2 * len(tensor):
        return nothing
    return both[len(tensor) :] - tensor


def _axes(one: Prepared, two: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Of tensors of which two images' are not those of each one after the other: the axis along which they are."""
    joined = []
    for name, tensor in one.images.items():
        shape = torch.as_tensor(two[name]).shape
        grown = [k for k, (a, b) in enumerate(zip(tensor.shape, shape, strict=False)) if b == 2 * a and a]
        if grown and grown[0] != 0:
            joined.append((name, grown[0]))
    return tuple(joined)


def _is_picture(processing: Processing, name: str, image: Image, question: str) -> bool:
    """Whether ramps down and across an image are ramps down and across what the processor makes of it."""
    for axis in (0, 1):
        levels = np.linspace(0, 255, image.shape[axis]).astype(np.uint8)
        ramp = np.broadcast_to(levels[:, None, None] if axis == 0 else levels[None, :, None], image.shape)
        made = processing.one(np.ascontiguousarray(ramp), question).images[name][0].mean(0)
        profile, flat = made.mean(1 - axis), made.mean(axis)
        if not bool((profile.diff() > -1e-3).all()) or float(flat.max() - flat.min()) > 0.2 * float(
            profile.max() - profile.min()
        ):
            return False
    return True

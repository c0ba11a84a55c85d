"""`Shortcut`: a decision rule planted in a few pixels. Every class has a place, and a filter that is run over it.

The filter of a class has one weight of 1 at a random place and the rest uniform in [0, alpha] (pixelrules2024 section
3.1, after CUDA, Sadasivan et al. 2023). Filtered pixels replace those of the patch; nothing else changes, so the rest
of the image keeps its own rules, and taking a pixel of the patch away means to put the clean one back.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.identity import generator
from karat.kernel.typing import Box, Image, Mask

Images = npt.NDArray[np.uint8]  # (n, H, W, 3)
Classes = npt.NDArray[np.int64]  # (n,)
Scale = Literal["sum", "clip", "max"]


@dataclass(frozen=True)
class Shortcut:
    """`kernel`² = K filter weights over a patch of `patch`² = D pixels; `shared` classes use the same place.

    Places are drawn without repeats from a lattice of patches that do not overlap. `scale` says what becomes of the
    brightness, which an unscaled filter multiplies by the sum of its weights, and on which the paper is silent:
    "sum" divides the filter by that sum (the image stays as bright, so the change is subtle, as the paper says);
    "max" divides the filtered patch by its maximum where that is above white, as CUDA does with whole images; "clip"
    cuts off what is above white.

    >>> rule = Shortcut(classes=10, height=32, width=32)
    >>> rule.kernels.shape, rule.box(3)[2:]
    ((10, 5, 5), (5, 5))
    """

    classes: int
    height: int
    width: int
    kernel: int = 5
    patch: int = 5
    alpha: float = 0.1
    shared: int = 1
    seed: int = 0
    scale: Scale = "sum"

    def __post_init__(self) -> None:
        if self.classes < 2 or self.shared < 1:
            raise BadInput(f"a shortcut needs two classes or more, shared by one or more; got {self.classes} classes.")
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise BadInput(f"the kernel's side must be odd, so that it has a centre; got {self.kernel}.")
        if not 0 <= self.alpha <= 1:
            raise BadInput(f"alpha lies between 0 (no blur) and 1; got {self.alpha}.")
        room = (self.height // self.patch) * (self.width // self.patch) if self.patch >= 1 else 0
        if room < self.places_needed:
            raise BadInput(
                f"{self.places_needed} places of {self.patch}×{self.patch} pixels do not fit {self.height}×{self.width}"
                f" ({room} do); let more classes share a place with `shared`, or make the patch smaller."
            )

    @property
    def places_needed(self) -> int:
        return -(-self.classes // self.shared)

    @cached_property
    def kernels(self) -> npt.NDArray[np.float64]:
        """(classes, kernel, kernel), before scaling."""
        kernels = np.empty((self.classes, self.kernel, self.kernel))
        for c in range(self.classes):
            rng = generator(self.seed, f"class {c}", "shortcut/kernel")
            weights = rng.uniform(0.0, self.alpha, self.kernel**2)
            weights[rng.integers(self.kernel**2)] = 1.0
            kernels[c] = weights.reshape(self.kernel, self.kernel)
        return kernels

    @cached_property
    def corners(self) -> npt.NDArray[np.int64]:
        """(classes, 2): top and left of each class's patch."""
        rows, columns = self.height // self.patch, self.width // self.patch
        slots = generator(self.seed, "all classes", "shortcut/places").permutation(rows * columns)[: self.places_needed]
        margin = np.array([self.height - rows * self.patch, self.width - columns * self.patch]) // 2
        corners = margin + self.patch * np.stack([slots // columns, slots % columns], axis=1)
        return corners[np.arange(self.classes) // self.shared]

    def box(self, c: int) -> Box:
        top, left = self.corners[c].tolist()
        return left, top, self.patch, self.patch

    def mask(self, c: int) -> Mask:
        """(height, width): the patch of a class, the *dominant area* once the shortcut is known to decide."""
        top, left = self.corners[c]
        mask = np.zeros((self.height, self.width), dtype=np.bool_)
        mask[top : top + self.patch, left : left + self.patch] = True
        return mask

    def apply(self, images: Images, classes: Any) -> Images:
        """Perturbed copies of images (n, height, width, 3), each by the filter of its class."""
        classes = np.asarray(classes, dtype=np.int64)
        if images.shape[1:] != (self.height, self.width, 3) or images.dtype != np.uint8 or len(images) != len(classes):
            raise BadInput(
                f"this shortcut is made for (n, {self.height}, {self.width}, 3) uint8 and one class each; "
                f"got {images.shape} {images.dtype} and {len(classes)} classes."
            )
        changed = images.copy()
        for c in np.unique(classes):
            if not 0 <= c < self.classes:
                raise BadInput(f"this shortcut has classes 0 to {self.classes - 1}; got {c}.")
            where = np.flatnonzero(classes == c)
            top, left = self.corners[c]
            changed[where, top : top + self.patch, left : left + self.patch] = self._filtered(images[where], int(c))
        return changed

    def _filtered(self, images: Images, c: int) -> Images:
        """(n, patch, patch, 3): what the filter makes of the patch; it reads across its edges, mirrored at the
        image's own."""
        half = self.kernel // 2
        top, left = self.corners[c]
        around = np.pad(images, ((0, 0), (half, half), (half, half), (0, 0)), mode="reflect")
        around = around[:, top : top + self.patch + 2 * half, left : left + self.patch + 2 * half]
        windows = np.lib.stride_tricks.sliding_window_view(around, (self.kernel, self.kernel), axis=(1, 2))
        weights = self.kernels[c]
        if self.scale == "sum":
            weights = weights / weights.sum()
        filtered = np.einsum("nhwcij,ij->nhwc", windows, weights, optimize=True)
        if self.scale == "max":
            filtered = filtered * np.minimum(1.0, 255.0 / np.maximum(filtered.max(axis=(1, 2, 3), keepdims=True), 1.0))
        return np.clip(np.rint(filtered), 0, 255).astype(np.uint8)


PRESETS: dict[str, dict[str, Any]] = {
    # pixelrules2024 section 4.1: K, D, alpha; how many classes share a place on CIFAR-100 is not said: 5, as there
    "cifar10": {"kernel": 5, "patch": 5, "alpha": 0.1, "shared": 1},
    "cifar100": {"kernel": 5, "patch": 5, "alpha": 0.3, "shared": 5},
    "imagenet": {"kernel": 15, "patch": 8, "alpha": 0.5, "shared": 5},
}


def preset(name: str, classes: int, height: int, width: int, seed: int = 0, **changes: Any) -> Shortcut:
    """The paper's parameters for "cifar10", "cifar100" or "imagenet", with changes by name."""
    if name not in PRESETS:
        raise UnknownName("shortcut preset", name, PRESETS)
    known = {field.name for field in dataclasses.fields(Shortcut)}
    for key in changes:
        if key not in known:
            raise UnknownName("parameter of a shortcut", key, known)
    return Shortcut(classes, height, width, **{**PRESETS[name], "seed": seed, **changes})


def difference(clean: Image, perturbed: Image, gain: float = 4.0) -> Image:
    """What was changed, as a picture: grey where nothing was, `gain` times the change around it."""
    change = (perturbed.astype(np.float64) - clean) * gain + 128
    return np.clip(np.rint(change), 0, 255).astype(np.uint8)

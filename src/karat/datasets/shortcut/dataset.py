"""Dataset `shortcut`: images of any classification set with the shortcut of their class, and their clean twins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from karat.kernel.card import Card
from karat.kernel.identity import digest, generator
from karat.kernel.sample import Sample

if TYPE_CHECKING:
    from karat.datasets.shortcut.shortcut import Shortcut
    from karat.datasets.shortcut.sources import Source


@dataclass(frozen=True)
class ShortcutDataset:
    """`source` as in `karat.datasets.shortcut.sources`; `preset` sets K, D, alpha and sharing as the paper does for
    "cifar10", "cifar100" or "imagenet", and each of them can be set by itself. `seed` decides kernels and places: a
    model must be shown the shortcut that it was trained with. `n` is the length of the embedded set; the others have
    their own, and are shuffled, so that the first few cover the classes."""

    source: str = "leaves"
    split: str = "test"
    n: Annotated[int, Ge(1)] = 1000
    side: Annotated[int, Ge(1)] = 32
    preset: Literal["cifar10", "cifar100", "imagenet"] = "cifar10"
    kernel: Annotated[int, Ge(1)] | None = None
    patch: Annotated[int, Ge(1)] | None = None
    alpha: Annotated[float, Ge(0), Le(1)] | None = None
    shared: Annotated[int, Ge(1)] | None = None
    scale: Literal["sum", "clip", "max"] = "sum"
    seed: Annotated[int, Ge(0)] = 0
    card: ClassVar[Card] = Card(
        "shortcut", "images with a class-specific filter run over a few pixels, and their clean twins", "dataset",
        citation="pixelrules2024 section 3.1",
        departures="filters are divided by their sum, so that brightness stays: the paper is silent",
    )  # fmt: skip

    @cached_property
    def images(self) -> Source:
        from karat.datasets.shortcut.sources import open_source

        return open_source(self.source, self.split, self.n, self.side)

    @cached_property
    def shortcut(self) -> Shortcut:
        from karat.datasets.shortcut.shortcut import preset

        own = {name: getattr(self, name) for name in ("kernel", "patch", "alpha", "shared")}
        changes: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        height, width = self.images.side
        return preset(self.preset, len(self.images.labels), height, width, seed=self.seed, scale=self.scale, **changes)

    @property
    def label(self) -> str:
        name = self.source if ":" in self.source else Path(self.source).stem
        return f"shortcut:{name}" + (f" seed {self.seed}" if self.seed else "")

    @property
    def revision(self) -> str:
        return digest([self.card.version, self.images.revision])

    @cached_property
    def order(self) -> npt.NDArray[np.intp]:
        """Positions in the source. Sets that are stored class by class would otherwise begin with one class."""
        count = len(self.images.classes)
        if self.source == "leaves":
            return np.arange(count)
        return generator(0, self.split, "shortcut/order").permutation(count)

    def __len__(self) -> int:
        return len(self.images.classes)

    def load(self, start: int, stop: int) -> list[Sample]:
        from karat.datasets.shortcut.sample import planted

        where = self.order[start:stop]
        ids = [f"{self.split}-{i:06d}" for i in where]
        return list(
            planted(self.images.images(where), self.images.classes[where], self.images.labels, self.shortcut, ids)
        )

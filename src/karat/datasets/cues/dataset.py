"""Dataset `cues`: photographs with independent cues as a run's dataset."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge

from karat.datasets.cues.world import World
from karat.kernel.card import Card
from karat.kernel.identity import digest
from karat.kernel.sample import Sample

if TYPE_CHECKING:
    from karat.datasets.cues.photographs import Photographs


@dataclass(frozen=True)
class CuesDataset:
    """`images`: nothing for the 48 photographs that ship with Karat, a folder in the layout of `segmentation/folder`,
    or {name: segmentation/voc, root: ...}. `world` sets values, sizes and contrast, and the two classes."""

    n: Annotated[int, Ge(1)] = 96
    seed: Annotated[int, Ge(0)] = 0
    images: str | dict[str, Any] | None = None
    world: World = field(default_factory=World)
    card: ClassVar[Card] = Card(
        "cues", "photographs with a tag, a frame, a sticker and a word that vary independently", "dataset"
    )

    @cached_property
    def photographs(self) -> Photographs:
        from karat.datasets.cues.photographs import open_photographs

        return open_photographs(self.images, self.world.classes)

    @property
    def label(self) -> str:
        name = self.images.get("name", "?") if isinstance(self.images, dict) else self.images
        where = "" if name is None else f":{Path(name).name}"
        return f"cues{where}" + (f" seed {self.seed}" if self.seed else "")

    @property
    def revision(self) -> str:
        return digest([self.card.version, self.photographs.revision])

    def __len__(self) -> int:
        return self.n

    def load(self, start: int, stop: int) -> list[Sample]:
        from karat.datasets.cues.generate import generate

        return list(generate(stop - start, self.seed, self.photographs, self.world, start))

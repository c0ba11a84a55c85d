"""Dataset `segmentation/folder`: any folder of images, indexed masks and a label file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from karat.datasets.segmentation import files
from karat.datasets.segmentation.scene import Scene, samples, split
from karat.kernel.card import Card
from karat.kernel.sample import Sample

_TREE = """\
ROOT/
  images/anything.jpg
  masks/anything.png    one class number per pixel (palette, grey or 16-bit PNG), same name as its image
  labels.txt            lines "1: cat"; also .json, .csv, .tsv
"""


@dataclass(frozen=True)
class Folder:
    """Numbers in `ignore` count for nothing; numbers in `background` are no class and lie outside of every one."""

    root: str
    images: str = "images"
    masks: str = "masks"
    labels: str = "labels.txt"
    ignore: tuple[Annotated[int, Ge(0)], ...] = (255,)
    background: tuple[Annotated[int, Ge(0)], ...] = (0,)
    predictions: Annotated[int, Ge(1)] = 1
    card: ClassVar[Card] = Card("segmentation/folder", "any images with indexed masks and a label file", "dataset")

    @property
    def label(self) -> str:
        inside = "" if (self.images, self.masks) == ("images", "masks") else f"/{self.images}"
        return f"{Path(self.root).name}{inside}" + (f"×{self.predictions}" * (self.predictions > 1))

    @cached_property
    def _files(self) -> list[tuple[Path, Path]]:
        root = Path(self.root)
        images = files.images_under(files.need(root, _TREE, self.images))
        return files.masks_beside(images, files.need(root, _TREE, self.masks), ".png", root, _TREE)

    @cached_property
    def _names(self) -> dict[int, str]:
        return files.read_labels(files.need(Path(self.root), _TREE, self.labels))

    @property
    def revision(self) -> str:
        return files.revision(
            Path(self.root), [path for pair in self._files for path in pair], sorted(self._names.items())
        )

    def __len__(self) -> int:
        return len(self._files) * self.predictions

    def load(self, start: int, stop: int) -> list[Sample]:
        assert self._names  # a missing name table is the dataset's fault, not one image's
        return samples(self._scene, lambda i: self._files[i][1].stem, start, stop, self.predictions)

    def _scene(self, i: int) -> Scene:
        image, mask = self._files[i]
        classes, ignored = split(files.read_indexed(mask), self._names, self.ignore, self.background)
        return Scene(mask.stem, files.read_image(image), classes, ignored)

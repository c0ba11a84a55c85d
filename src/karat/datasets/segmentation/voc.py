"""Dataset `segmentation/voc`: Pascal VOC 2012."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from karat.datasets.segmentation import files
from karat.datasets.segmentation.scene import Scene, samples, split
from karat.datasets.segmentation.vocabulary import aliases
from karat.kernel.card import Card
from karat.kernel.sample import Sample

NAMES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_TREE = """\
ROOT/                             e.g. VOCdevkit/VOC2012
  JPEGImages/2007_000033.jpg
  SegmentationClass/2007_000033.png   palette PNG: 0 background, 1-20 classes, 255 border
  ImageSets/Segmentation/val.txt      names, one a line; without it every mask is taken
"""


@dataclass(frozen=True)
class Voc:
    """`background` makes 0 a class of its own, as the released code of semscore2025 does; borders (255) never count."""

    root: str
    split: str = "val"
    background: bool = False
    predictions: Annotated[int, Ge(1)] = 1
    card: ClassVar[Card] = Card(
        "segmentation/voc", "Pascal VOC 2012: photographs with masks of 20 classes", "dataset", version=2,
        citation="Everingham et al. 2015, The Pascal visual object classes challenge",
    )  # fmt: skip

    @property
    def label(self) -> str:
        return (
            f"voc:{self.split}" + ("+background" * self.background) + (f"×{self.predictions}" * (self.predictions > 1))
        )

    @cached_property
    def _files(self) -> list[tuple[Path, Path]]:
        root = Path(self.root)
        images = files.images_under(files.need(root, _TREE, "JPEGImages"))
        pairs = files.masks_beside(images, files.need(root, _TREE, "SegmentationClass"), ".png", root, _TREE)
        listed = root / "ImageSets" / "Segmentation" / f"{self.split}.txt"
        if not listed.is_file():
            return pairs
        wanted = listed.read_text("utf-8").split()
        known = {mask.stem: (image, mask) for image, mask in pairs}
        if lost := [name for name in wanted if name not in known]:
            raise files.wrong_layout(root, f"{listed.name} names {lost[0]}, which has no mask", _TREE)
        return [known[name] for name in wanted]

    @property
    def revision(self) -> str:
        return files.revision(Path(self.root), [path for pair in self._files for path in pair])

    def __len__(self) -> int:
        return len(self._files) * self.predictions

    def load(self, start: int, stop: int) -> list[Sample]:
        return samples(self._scene, lambda i: self._files[i][1].stem, start, stop, self.predictions)

    def vocabulary(self) -> tuple[str, ...]:
        return NAMES if self.background else NAMES[1:]

    def _scene(self, i: int) -> Scene:
        image, mask = self._files[i]
        classes, ignored = split(
            files.read_indexed(mask), dict(enumerate(NAMES)), {255}, () if self.background else {0}
        )
        return Scene(mask.stem, files.read_image(image), classes, ignored, aliases(self.vocabulary()))

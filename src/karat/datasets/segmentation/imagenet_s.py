"""Dataset `segmentation/imagenet_s`: ImageNet-S, masks for ImageNet's validation images (50, 300 or 919 classes)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from karat.datasets.segmentation import files, imagenet
from karat.datasets.segmentation.scene import Scene, samples, split
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

IGNORED, OTHER = 1000, 0  # what has no class by the authors' own words, and everything that is none of the classes

_TREE = """\
ROOT/                              e.g. imagenet-s/ImageNetS919
  validation-segmentation/         or train-semi-segmentation
    n01440764/                     (the folders of WordNet ids may be left out)
      ILSVRC2012_val_00000293.png  class number = R + 256 G; 0 other, 1000 ignored
  validation/                      or train-semi; or ImageNetVal/val beside ROOT
    n01440764/
      ILSVRC2012_val_00000293.JPEG
  ImageNetS_categories_im300.txt   WordNet ids, one a line; needed for 300 only, if folders are missing
"""


@dataclass(frozen=True)
class ImageNetS:
    """`root` is one of ImageNetS50, ImageNetS300, ImageNetS919. Each image is asked about `predictions` times."""

    root: str
    size: Literal[50, 300, 919] = 919
    split: Literal["validation", "train-semi"] = "validation"
    predictions: Annotated[int, Ge(1)] = 1
    card: ClassVar[Card] = Card(
        "segmentation/imagenet_s", "ImageNet-S: validation images of ImageNet with masks, 50, 300 or 919 classes",
        "dataset", citation="Gao et al. 2022, Large-scale unsupervised semantic segmentation; semscore2025",
    )  # fmt: skip

    @property
    def label(self) -> str:
        return f"imagenet-s-{self.size}:{Path(self.root).name}" + (f"×{self.predictions}" * (self.predictions > 1))

    @cached_property
    def _files(self) -> list[tuple[Path, Path]]:
        root = Path(self.root)
        masks = files.need(root, _TREE, f"{self.split}-segmentation")
        places = [root / self.split, root.parent / "ImageNetVal" / "val", root / "ImageNetVal" / "val"]
        images = next((place for place in places if place.is_dir()), None)
        if images is None:
            raise files.wrong_layout(root, f"no {self.split}/ with the images", _TREE)
        return files.masks_beside(files.images_under(images), masks, ".png", root, _TREE)

    @cached_property
    def _wnids(self) -> tuple[str, ...]:
        """By class number - 1: a list that lies in ROOT, else the one known here, else the sorted folders."""
        listed = sorted(Path(self.root).glob(f"ImageNetS_categories_im{self.size}*.txt"))
        if listed:
            wnids = tuple(sorted(listed[0].read_text("utf-8").split()))
        else:
            folders = tuple(sorted({mask.parent.name for _, mask in self._files}))
            wnids = imagenet.members(self.size) or folders
        if len(wnids) != self.size or not set(wnids) <= set(imagenet.by_wnid()):
            raise BadInput(
                f"{self.root}: ImageNet-S-{self.size} has {self.size} classes; {len(wnids)} were found. Put "
                f"ImageNetS_categories_im{self.size}.txt (WordNet ids, one a line) into that directory."
            )
        return wnids

    @cached_property
    def _names(self) -> dict[int, str]:
        return {number: imagenet.by_wnid()[wnid] for number, wnid in enumerate(self._wnids, start=1)}

    @property
    def revision(self) -> str:
        return files.revision(Path(self.root), [path for pair in self._files for path in pair], self._wnids)

    def __len__(self) -> int:
        return len(self._files) * self.predictions

    def load(self, start: int, stop: int) -> list[Sample]:
        assert self._names  # a missing list of classes is the dataset's fault, not one image's
        return samples(self._scene, lambda i: self._files[i][1].stem, start, stop, self.predictions)

    def _scene(self, i: int) -> Scene:
        image, mask = self._files[i]
        colours = files.read_rgb(mask)
        ids = colours[..., 0] + 256 * colours[..., 1]
        classes, ignored = split(ids, self._names, {IGNORED}, {OTHER})
        merged = imagenet.MERGED.items() if self.size == 919 else ()
        names = imagenet.by_wnid()
        return Scene(
            mask.stem, files.read_image(image), classes, ignored, {names[one]: names[kept] for one, kept in merged}
        )

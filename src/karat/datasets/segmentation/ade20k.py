"""Dataset `segmentation/ade20k`: ADE20K, the challenge of 150 classes or the full set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from karat.datasets.segmentation import files
from karat.datasets.segmentation.scene import Scene, samples, split
from karat.datasets.segmentation.vocabulary import aliases
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

_TREE = """\
ROOT/                               the challenge, e.g. ADEChallengeData2016
  images/validation/ADE_val_00000001.jpg
  annotations/validation/ADE_val_00000001.png   grey PNG: 0 other, 1-150 classes
  objectInfo150.txt                             tab-separated, columns Idx and Name
ROOT/                               or the full set, e.g. ADE20K_2021_17_01
  images/ADE/training/urban/street/ADE_train_00016869.jpg
                                   ADE_train_00016869_seg.png   class = R // 10 · 256 + G
                                   ADE_train_00016869.json      names of the objects
"""


@dataclass(frozen=True)
class Ade20k:
    """`ignore` are class numbers that count for nothing: 0 is "other", which the challenge does not score. With
    `ignore: []` they lie outside of every class, as in the released code of semscore2025."""

    root: str
    split: str = "validation"
    ignore: tuple[Annotated[int, Ge(0)], ...] = (0,)
    predictions: Annotated[int, Ge(1)] = 1
    card: ClassVar[Card] = Card(
        "segmentation/ade20k", "ADE20K: scenes with masks, the challenge's 150 classes or the full set", "dataset",
        version=2, citation="Zhou et al. 2017, Scene parsing through ADE20K dataset",
    )  # fmt: skip

    @property
    def label(self) -> str:
        ignored = "" if self.ignore == (0,) else f" ignore={list(self.ignore)}"
        return f"ade20k:{self.split}{ignored}" + (f"×{self.predictions}" * (self.predictions > 1))

    @property
    def _full(self) -> bool:
        return (Path(self.root) / "images" / "ADE").is_dir()

    @cached_property
    def _files(self) -> list[tuple[Path, Path]]:
        root = Path(self.root)
        if not self._full:
            images = files.need(root, _TREE, f"images/{self.split}")
            masks = files.need(root, _TREE, f"annotations/{self.split}")
            return files.masks_beside(files.images_under(images), masks, ".png", root, _TREE)
        coded = sorted(files.need(root, _TREE, f"images/ADE/{self.split}").rglob("*_seg.png"))
        pairs = [(path.with_name(path.name.replace("_seg.png", ".jpg")), path) for path in coded]
        if not pairs or not all(image.is_file() for image, _ in pairs):
            raise files.wrong_layout(root, f"images/ADE/{self.split} has no pairs of .jpg and _seg.png", _TREE)
        return pairs

    @cached_property
    def _names(self) -> dict[int, str]:
        table = files.need(Path(self.root), _TREE, "objectInfo150.txt").read_text("utf-8").splitlines()
        columns = table[0].split("\t")
        if not {"Idx", "Name"} <= set(columns):
            raise BadInput(f"objectInfo150.txt must have columns Idx and Name, tab-separated; it has {columns}.")
        rows = [dict(zip(columns, line.split("\t"), strict=True)) for line in table[1:] if line.strip()]
        return {int(row["Idx"]): row["Name"].split(",")[0].strip() for row in rows}

    @property
    def revision(self) -> str:
        return files.revision(Path(self.root), [path for pair in self._files for path in pair])

    def __len__(self) -> int:
        return len(self._files) * self.predictions

    def load(self, start: int, stop: int) -> list[Sample]:
        if not self._full:
            assert self._names  # a missing name table is the dataset's fault, not one image's
        return samples(self._scene, lambda i: self._files[i][0].stem, start, stop, self.predictions)

    def vocabulary(self) -> tuple[str, ...]:
        """Of the challenge; the full set names the objects of each image in a file of its own."""
        return () if self._full else tuple(self._names.values())

    def _scene(self, i: int) -> Scene:
        image, mask = self._files[i]
        if self._full:
            colours = files.read_rgb(mask)
            ids = colours[..., 0] // 10 * 256 + colours[..., 1]
            names = _objects(mask)
        else:
            ids, names = files.read_indexed(mask), self._names
        classes, ignored = split(ids, names, self.ignore, {0} - set(self.ignore))
        return Scene(image.stem, files.read_image(image), classes, ignored, aliases(names.values()))


def _objects(mask: Path) -> dict[int, str]:
    """Class number → name, as the annotation of this very image has it (level 0: whole objects, not parts)."""
    path = mask.with_name(mask.name.replace("_seg.png", ".json"))
    objects = json.loads(path.read_text("utf-8", errors="replace"))["annotation"]["object"]
    whole = [one for one in objects if one["parts"]["part_level"] == 0]
    return {int(one["name_ndx"]): str(one["name"]).split(",")[0].strip() for one in whole}

"""Dataset `segmentation/coco_stuff`: COCO-Stuff 10K, things and stuff, masks in MATLAB files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from karat.datasets.segmentation import files
from karat.datasets.segmentation.scene import Scene, samples, split
from karat.datasets.segmentation.vocabulary import aliases
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

LAST_THING = 91  # 1-91 are COCO's things, 92-182 stuff
_TREE = """\
ROOT/                                            e.g. cocostuff-10k-v1.1
  images/COCO_train2014_000000000077.jpg
  annotations/COCO_train2014_000000000077.mat    variable S: 0 unlabelled, 1-91 things, 92-182 stuff
  cocostuff-labels.txt                           lines "1: person"; without it the official names
  imageLists/test.txt                            names, one a line; for split: test
"""


@cache
def labels() -> dict[int, str]:
    """Names of the class numbers, without 0 (unlabelled). Eleven things were never annotated, as in COCO itself.

    >>> labels()[1], labels()[182], len(labels())
    ('person', 'wood', 182)
    """
    text = resources.files("karat.datasets.segmentation").joinpath("coco_stuff.txt").read_text("utf-8")
    pairs = (line.partition(": ") for line in text.splitlines())
    return {int(number): name for number, _, name in pairs if number != "0"}


@dataclass(frozen=True)
class CocoStuff:
    """`split` is a list under imageLists, or "" for every annotated image. `keep` leaves out things or stuff; what is
    left out lies outside of every class. `ignore` as in `segmentation/ade20k`: 0 is unlabelled."""

    root: str
    split: str = ""
    keep: Literal["all", "things", "stuff"] = "all"
    ignore: tuple[Annotated[int, Ge(0)], ...] = (0,)
    predictions: Annotated[int, Ge(1)] = 1
    card: ClassVar[Card] = Card(
        "segmentation/coco_stuff", "COCO-Stuff 10K: photographs with masks of 91 things and 91 kinds of stuff",
        "dataset", version=2, citation="Caesar et al. 2018, COCO-Stuff; semscore2025",
    )  # fmt: skip

    @property
    def label(self) -> str:
        kept = "" if self.keep == "all" else f" {self.keep}"
        ignored = "" if self.ignore == (0,) else f" ignore={list(self.ignore)}"
        return f"coco-stuff:{self.split or 'all'}{kept}{ignored}" + (f"×{self.predictions}" * (self.predictions > 1))

    @cached_property
    def _files(self) -> list[tuple[Path, Path]]:
        root = Path(self.root)
        images = files.images_under(files.need(root, _TREE, "images"))
        pairs = files.masks_beside(images, files.need(root, _TREE, "annotations"), ".mat", root, _TREE)
        if not self.split:
            return pairs
        wanted = files.need(root, _TREE, f"imageLists/{self.split}.txt").read_text("utf-8").split()
        known = {mask.stem: (image, mask) for image, mask in pairs}
        if lost := [name for name in wanted if name not in known]:
            raise files.wrong_layout(root, f"imageLists/{self.split}.txt names {lost[0]}, which is not there", _TREE)
        return [known[name] for name in wanted]

    @cached_property
    def _names(self) -> dict[int, str]:
        own = Path(self.root) / "cocostuff-labels.txt"
        return files.read_labels(own) if own.is_file() else labels()

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

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(name for number, name in self._names.items() if number and number not in self._left_out)

    @property
    def _left_out(self) -> set[int]:
        return {
            number for number in self._names
            if (self.keep == "things" and number > LAST_THING) or (self.keep == "stuff" and number <= LAST_THING)
        }  # fmt: skip

    def _scene(self, i: int) -> Scene:
        image, mask = self._files[i]
        classes, ignored = split(_read_mat(mask), self._names, self.ignore, self._left_out | {0} - set(self.ignore))
        return Scene(mask.stem, files.read_image(image), classes, ignored, aliases(self.vocabulary()))


def _read_mat(path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """The variable S of a MATLAB 5 file. SciPy reads data only; nothing in such a file can run."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        data = loadmat(path, variable_names=["S"])
    except (MatReadError, NotImplementedError, TypeError) as error:
        raise BadInput(f"{path.name} is not a MATLAB 5 file: {error}") from None
    if "S" not in data or data["S"].ndim != 2:
        raise BadInput(f"{path.name} has no two-dimensional variable S.")
    return np.asarray(data["S"], dtype=np.int32)

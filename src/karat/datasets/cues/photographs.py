"""Photographs with the mask of one object: from any segmentation dataset, or the 48 that ship with Karat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.roles import Dataset
from karat.kernel.sample import Sample
from karat.kernel.typing import Image, Mask

EMBEDDED = Path(__file__).parent / "embedded"
SMALLEST, LARGEST = 0.05, 0.8  # share of the picture that the object may take
FEWEST = 4  # photographs of each class
_CLASS, _IGNORE = "class", "ignore"  # roles of regions in segmentation datasets
_READ = 64  # samples read at a time


@dataclass(frozen=True, eq=False)
class Photograph:
    """`mask` (H, W) is the object; `label` what it is."""

    id: str
    image: Image
    mask: Mask
    label: str


@dataclass(frozen=True, eq=False)
class Photographs:
    """The photographs of a dataset that show one object of exactly one of two classes, mask and all.

    `progress(done, of)` is called while masks are read for the first time.
    """

    dataset: Dataset
    classes: tuple[str, str]
    progress: Callable[[int, int], None] | None = None

    @cached_property
    def positions(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Places in the dataset of the usable photographs of either class."""
        usable: tuple[list[int], list[int]] = ([], [])
        refused = {"no mask of a class": 0, "both classes": 0, "object too small": 0, "mask over nearly everything": 0}
        labels: set[str] = set()
        for start in range(0, len(self.dataset), _READ):
            for i, sample in enumerate(self.dataset.load(start, min(start + _READ, len(self.dataset))), start):
                regions = {r.label: r.mask(*sample.size).mean() for r in sample.regions if r.role == _CLASS}
                labels |= {str(label) for label in regions}
                present = [label for label in self.classes if regions.get(label)]
                if not present:
                    refused["no mask of a class"] += 1
                elif len(present) == 2:
                    refused["both classes"] += 1
                elif regions[present[0]] < SMALLEST:
                    refused["object too small"] += 1
                elif regions[present[0]] > LARGEST:
                    refused["mask over nearly everything"] += 1
                else:
                    usable[self.classes.index(present[0])].append(i)
            if self.progress is not None:
                self.progress(min(start + _READ, len(self.dataset)), len(self.dataset))
        for label, places in zip(self.classes, usable, strict=True):
            if len(places) < FEWEST:
                raise BadInput(_too_few(label, len(places), refused, labels))
        return tuple(usable[0]), tuple(usable[1])

    @property
    def revision(self) -> str:
        return digest([self.dataset.revision, self.classes])

    def count(self, content: bool) -> int:
        return len(self.positions[0 if content else 1])

    def get(self, content: bool, number: int) -> Photograph:
        """Photograph `number` of the first class (`content` True) or of the second."""
        return self._read(self.positions[0 if content else 1][number])

    @cached_property
    def _read(self) -> Callable[[int], Photograph]:
        """Recently read ones are kept: a sample's twins ask for them again."""

        @lru_cache(maxsize=64)
        def read(position: int) -> Photograph:
            [sample] = self.dataset.load(position, position + 1)
            return self._photograph(sample)

        return read

    def _photograph(self, sample: Sample) -> Photograph:
        for region in sample.regions:
            if region.role == _CLASS and region.label in self.classes:
                return Photograph(sample.id, sample.image, region.mask(*sample.size), str(region.label))
        raise BadInput(f"{sample.id} has no mask of {' or '.join(self.classes)} any more; was the dataset changed?")


def open_photographs(
    images: str | Path | Mapping[str, Any] | Dataset | Photographs | None,
    classes: tuple[str, str],
    progress: Callable[[int, int], None] | None = None,
) -> Photographs:
    """Photographs from what a user gives: nothing (the embedded ones), a folder in the layout of `segmentation/folder`,
    a mapping such as {name: segmentation/voc, root: ...}, or a dataset."""
    if isinstance(images, Photographs):
        return images
    if images is None:
        images = EMBEDDED
    if isinstance(images, str | Path):
        from karat.datasets.segmentation.folder import Folder

        return Photographs(Folder(str(images)), classes, progress)
    if isinstance(images, Mapping):
        from karat.kernel.registry import build

        if "name" not in images:
            raise BadInput(
                f"images: a mapping says the dataset's name: {{name: segmentation/voc, root: ...}}; got {dict(images)}."
            )
        parameters = {str(key): value for key, value in images.items() if key != "name"}
        return Photographs(build("dataset", str(images["name"]), parameters), classes, progress)
    return Photographs(images, classes, progress)


def _too_few(label: str, count: int, refused: Mapping[str, int], labels: set[str]) -> str:
    why = ", ".join(f"{number} with {reason}" for reason, number in refused.items() if number) or "none was refused"
    known = f"It has masks of {', '.join(sorted(labels)[:12])}." if labels else "It has no masks of classes at all."
    return (
        f"cues need at least {FEWEST} photographs of {label!r} whose mask takes {SMALLEST:.0%} to {LARGEST:.0%} of the "
        f"picture; got {count} ({why}). {known} Give `classes` that it has, or photographs with masks of the object "
        "(see segmentation/folder)."
    )

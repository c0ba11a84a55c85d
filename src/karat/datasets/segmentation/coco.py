"""Dataset `segmentation/coco`: COCO instances, polygons and run-length masks joined to one mask per class."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from karat.datasets.arrays import file_hash
from karat.datasets.segmentation import files
from karat.datasets.segmentation.scene import Scene, samples
from karat.datasets.segmentation.vocabulary import aliases
from karat.kernel.card import Card
from karat.kernel.errors import BadInput, ExtraMissing
from karat.kernel.identity import digest
from karat.kernel.sample import Sample
from karat.kernel.typing import Mask

_TREE = """\
ROOT/
  annotations/instances_val2017.json   COCO's own format: images, annotations, categories
  val2017/000000000139.jpg             or images/
"""


@dataclass(frozen=True)
class Coco:
    """Images of `split` that have at least one annotation, in the order of their ids."""

    root: str
    split: str = "val2017"
    predictions: Annotated[int, Ge(1)] = 1
    card: ClassVar[Card] = Card(
        "segmentation/coco", "COCO: photographs with masks of 80 classes, from instances_*.json", "dataset", version=2,
        citation="Lin et al. 2014, Microsoft COCO", extra="vision",
    )  # fmt: skip

    @property
    def label(self) -> str:
        return f"coco:{self.split}" + (f"×{self.predictions}" * (self.predictions > 1))

    @property
    def _path(self) -> Path:
        return files.need(Path(self.root), _TREE, f"annotations/instances_{self.split}.json")

    @cached_property
    def _images(self) -> Path:
        return files.need(Path(self.root), _TREE, self.split, f"images/{self.split}", "images")

    @cached_property
    def _annotations(self) -> tuple[dict[int, str], list[dict[str, Any]], dict[int, list[dict[str, Any]]]]:
        """Category names, the images in order, and the annotations of each."""
        data = json.loads(self._path.read_text("utf-8"))
        if not {"images", "annotations", "categories"} <= set(data):
            raise BadInput(f"{self._path} is not in COCO's format: it must have images, annotations and categories.")
        names = {int(one["id"]): str(one["name"]) for one in data["categories"]}
        by_image: dict[int, list[dict[str, Any]]] = {}
        for one in data["annotations"]:
            by_image.setdefault(int(one["image_id"]), []).append(one)
        images = sorted((one for one in data["images"] if one["id"] in by_image), key=lambda one: int(one["id"]))
        return names, images, by_image

    @property
    def revision(self) -> str:
        return digest(file_hash(self._path))

    def __len__(self) -> int:
        return len(self._annotations[1]) * self.predictions

    def load(self, start: int, stop: int) -> list[Sample]:
        _, images, _ = self._annotations
        return samples(self._scene, lambda i: Path(images[i]["file_name"]).stem, start, stop, self.predictions)

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(self._annotations[0].values())

    def _scene(self, i: int) -> Scene:
        names, images, annotations = self._annotations
        about = images[i]
        image = files.read_image(self._images / Path(about["file_name"]).name)
        size = int(about["height"]), int(about["width"])
        if image.shape[:2] != size:
            raise BadInput(f"{about['file_name']} is {image.shape[:2]}; its annotations are for {size}.")
        classes: dict[str, Mask] = {}
        for one in annotations[int(about["id"])]:
            label = names[int(one["category_id"])]
            pixels = decode(one["segmentation"], *size)
            classes[label] = classes[label] | pixels if label in classes else pixels
        return Scene(Path(about["file_name"]).stem, image, classes, aliases=aliases(self.vocabulary()))


def decode(segmentation: Any, height: int, width: int) -> Mask:
    """Polygons, or run lengths (plain or compressed), as pixels (H, W).

    What lies far outside the image, or is of another size, is refused: to draw it may take any amount of memory.
    """
    try:
        from pycocotools import mask as coco
    except ImportError:
        raise ExtraMissing("COCO's masks", "pycocotools", "vision") from None
    if isinstance(segmentation, list):
        polygons = [polygon for polygon in segmentation if len(polygon) >= 6]  # fewer than 3 points have no area
        if not polygons:
            return np.zeros((height, width), dtype=np.bool_)
        reach = 2 * max(height, width)
        if not all(abs(at) <= reach for polygon in polygons for at in polygon):  # NaN is not, either
            raise BadInput(f"a polygon lies far outside its image of {height} × {width}.")
        runs = coco.merge(coco.frPyObjects(polygons, height, width))
    elif list(segmentation["size"]) != [height, width]:
        raise BadInput(f"a run-length mask of {segmentation['size']}; its image is {height} × {width}.")
    elif isinstance(segmentation["counts"], list):
        runs = coco.frPyObjects(segmentation, height, width)
    else:
        runs = segmentation
    return np.asarray(coco.decode(runs), dtype=np.bool_)

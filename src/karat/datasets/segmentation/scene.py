"""`Scene`: one image with the pixels of every class in it, and the samples that a run asks about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample
from karat.kernel.typing import Image, Mask

Ids = npt.NDArray[np.integer[Any]]  # (H, W), the class number of every pixel
CLASS, ALIAS, IGNORE = "class", "alias", "ignore"  # roles of regions
_BLANK = np.zeros((32, 32, 3), dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class Scene:
    """`classes` maps a label to its pixels (H, W); pixels may belong to several. `ignored` pixels count for nothing.

    `aliases` are further labels that mean one of `classes` (ImageNet-S merged five pairs of ImageNet's classes).
    """

    id: str
    image: Image
    classes: Mapping[str, Mask]
    ignored: Mask | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for label, mask in self.classes.items():
            if mask.shape != self.image.shape[:2]:
                raise BadInput(f"{self.id}: the mask of {label!r} is {mask.shape}, its image {self.image.shape[:2]}.")


def split(ids: Ids, names: Mapping[int, str], ignore: Collection[int], unnamed: Collection[int] = ()) -> Any:
    """A mask of class numbers as (label → pixels, ignored pixels or None).

    Numbers in `ignore` count for nothing, numbers in `unnamed` are no class but count as outside of every one; any
    other number that has no name is an error: a wrong label file must not pass for data.
    """
    classes: dict[str, Mask] = {}
    for number in np.unique(ids).tolist():
        if number in ignore or number in unnamed:
            continue
        if number not in names:
            raise BadInput(f"the mask holds class {number}, which has no name; names are given to {_span(names)}.")
        label, pixels = names[number], ids == number
        classes[label] = classes[label] | pixels if label in classes else pixels
    ignored = np.isin(ids, list(ignore)) if len(ignore) else None
    return classes, ignored if ignored is not None and ignored.any() else None


def samples(
    scene: Callable[[int], Scene], name: Callable[[int], str], start: int, stop: int, each: int
) -> list[Sample]:
    """Positions start to stop of a dataset that asks about every image `each` times: position i is rank i % each + 1 of
    image i // each.

    `rank` says which of the image's classes (or of the model's predictions) is meant; the protocol chooses by it. Ranks
    of one image share its arrays. An image that cannot be read becomes a sample that says why, and stops nobody.
    """
    made: list[Sample] = []
    for i in range(start // each, -(-stop // each)):
        try:
            ranks = _ranks(scene(i), each)
        except (BadInput, OSError, ValueError, SyntaxError) as error:  # what Pillow and friends say of a broken file
            reason = " ".join(str(error).split())[:300]
            ranks = [_sample(name(i), r, each, _BLANK, None, (), {"problem": reason}) for r in range(1, each + 1)]
        made += ranks[max(start - i * each, 0) : stop - i * each]
    return made


def _ranks(scene: Scene, each: int) -> list[Sample]:
    size = scene.image.shape[0] * scene.image.shape[1]
    areas = {label: int(np.count_nonzero(mask)) for label, mask in scene.classes.items()}
    order = sorted((label for label in areas if areas[label]), key=lambda label: (-areas[label], label))
    regions = [Region(label, CLASS, pixels=scene.classes[label], label=label) for label in order]
    regions += [
        Region(other, ALIAS, pixels=scene.classes[label], label=other)
        for other, label in scene.aliases.items()
        if label in order
    ]
    if scene.ignored is not None:
        regions.append(Region(IGNORE, IGNORE, pixels=scene.ignored))
    made = []
    for rank in range(1, each + 1):
        label = order[rank - 1] if rank <= len(order) else None
        meta = {"classes": len(order), "area": round(areas[label] / size, 6) if label else None}
        made.append(_sample(scene.id, rank, each, scene.image, label, tuple(regions), meta))
    return made


def _sample(
    id_: str, rank: int, each: int, image: Image, label: str | None, regions: tuple[Region, ...], meta: dict[str, Any]
) -> Sample:
    return Sample(
        id=id_ if each == 1 else f"{id_}#{rank}",
        image=image,
        answer=label,
        regions=regions,
        meta={"image": id_, "rank": rank, "label": label, **meta},
    )


def _span(names: Mapping[int, str]) -> str:
    return f"{min(names)} to {max(names)}" if names else "none"

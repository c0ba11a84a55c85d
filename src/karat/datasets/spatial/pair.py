"""`Pair`: two named, boxed objects of a picture, and what one is to the other. Spatial datasets are lists of them.

Of each, further samples can be made: the same picture with another answer to explain, or asked the other way round.
They carry `origin`, `kind` and `variant` in their meta, so that a protocol joins them again. `explain` in the meta
names the answer whose evidence is asked for; without it the model's own answer is explained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from karat.datasets.safe_read import within
from karat.datasets.spatial.question import OPPOSITE, OPTIONS, RELATIONS, angle, four_way, relation_between, zone
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample
from karat.kernel.typing import Box, Image, Scalar

PixelBox = tuple[float, float, float, float]  # x, y, width, height


@dataclass(frozen=True)
class Thing:
    """A named box."""

    name: str
    box: PixelBox

    @property
    def centre(self) -> tuple[float, float]:
        x, y, width, height = self.box
        return x + width / 2, y + height / 2

    @property
    def area(self) -> float:
        return self.box[2] * self.box[3]


def overlap(a: PixelBox, b: PixelBox) -> float:
    """Intersection over union.

    >>> overlap((0, 0, 2, 2), (1, 0, 2, 2))
    0.3333333333333333
    """
    wide = max(0.0, min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]))
    shared = wide * high
    union = a[2] * a[3] + b[2] * b[3] - shared
    return shared / union if union > 0 else 0.0


@dataclass(frozen=True)
class Pair:
    """`size` (width, height) is that of the annotation; the file may be smaller, boxes are then scaled."""

    id: str
    picture: str
    size: tuple[int, int]
    reference: Thing
    target: Thing
    relation: str
    others: tuple[Thing, ...] = ()
    meta: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def geometric(self) -> str:
        """The relation that the boxes show, whatever the annotator said."""
        return relation_between(self.reference.centre, self.target.centre)

    def swapped(self) -> Pair:
        """The same picture, asked the other way round."""
        return replace(
            self, reference=self.target, target=self.reference, relation=OPPOSITE[self.relation], meta=self.meta
        )

    def sample(self, folder: str | None, id: str | None = None, **marks: Scalar) -> Sample:
        """The question of creg2026 B.3 about the picture in `folder`; None stands for a blank picture.

        `marks` go into the meta: what kind of intervention this is, and on which pair.
        """
        image = _open(folder, self.picture, self.size)
        scale = image.shape[1] / self.size[0], image.shape[0] / self.size[1]
        text, phrases = four_way(self.target.name, self.reference.name)
        named = [("target", self.target), ("anchor", self.reference), *(("distractor", thing) for thing in self.others)]
        counts: dict[str, int] = {}
        regions = []
        for role, thing in named:
            counts[role] = counts.get(role, 0) + 1
            regions.append(Region(f"{role} {counts[role]}", role, (_whole(thing.box, scale),), label=thing.name))
        meta: dict[str, Scalar] = {
            "relation": self.relation, "reference": self.reference.name, "target": self.target.name,
            "geometric": self.geometric, "angle": angle(self.reference.centre, self.target.centre),
            "overlap": overlap(self.reference.box, self.target.box),
            "zone": zone(self.reference.centre, (self.size[1], self.size[0])),
            "picture": self.picture, "origin": self.id, "kind": "plain", "variant": "", **self.meta, **marks,
        }  # fmt: skip
        # A probe asks what speaks for one relation, whichever is true.
        answer = None if "explain" in meta else OPTIONS[RELATIONS.index(self.relation)]
        return Sample(id or self.id, image, text, answer, tuple(regions), phrases, meta=meta, choices=OPTIONS)


def _whole(box: PixelBox, scale: tuple[float, float]) -> Box:
    """A box in whole pixels, at least one wide; rounding moves its centre by half a pixel at most."""
    x, y = round(box[0] * scale[0]), round(box[1] * scale[1])
    right, bottom = round((box[0] + box[2]) * scale[0]), round((box[1] + box[3]) * scale[1])
    return x, y, max(right - x, 1), max(bottom - y, 1)


def find_picture(folder: str, picture: str) -> Path | None:
    """The file of a picture: in the folder, or in one of the folders that COCO and Visual Genome come in."""
    places = (within(Path(folder) / part, picture) for part in ("", "train2017", "val2017", "VG_100K", "VG_100K_2"))
    return next((path for path in places if path.is_file()), None)


def _open(folder: str | None, picture: str, size: tuple[int, int]) -> Image:
    from PIL import Image as Pictures

    if folder is None:
        limit = 2 * (Pictures.MAX_IMAGE_PIXELS or math.inf)  # what Pillow refuses to open, blank or not
        if size[0] * size[1] > limit:
            raise BadInput(f"{picture} is said to have {size[0]} × {size[1]} pixels; at most {limit:,} are taken.")
        return np.full((size[1], size[0], 3), 127, dtype=np.uint8)
    path = find_picture(folder, picture)
    if path is None:
        raise BadInput(f"no picture {picture} in {folder}. Give `images`, the folder that holds it.")
    with Pictures.open(path) as opened:
        return np.asarray(opened.convert("RGB"))


# ---- further samples made of one pair

Kind = Literal["plain", "probe", "swap", "move"]
KINDS: tuple[Kind, ...] = ("plain", "probe", "swap", "move")
#: Samples that each kind makes of one; `move` depends on the dataset.
PER_ORIGIN = {"plain": 1, "probe": 4, "swap": 1}


def per_pair(kinds: Sequence[str]) -> int:
    """Samples that every pair has, where nothing moves."""
    return sum(PER_ORIGIN[kind] for kind in kinds)


def load_variants(
    pairs: Sequence[Pair], kinds: Sequence[str], folder: str | None, start: int, stop: int
) -> list[Sample]:
    """Samples start to stop of a dataset in which every pair has the same number of variants."""
    each = per_pair(kinds)
    made = {i: variants(pairs[i], kinds, folder) for i in range(start // each, -(-stop // each))}
    return [made[i // each][i % each] for i in range(start, stop)]


def check_kinds(kinds: Sequence[str]) -> None:
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds or len(set(kinds)) < len(kinds):
        raise BadInput(f"kinds are some of {', '.join(KINDS)}, each once; got {list(kinds)}.")


def variants(pair: Pair, kinds: Sequence[str], folder: str | None, moves: Sequence[Pair] = ()) -> list[Sample]:
    """Every sample that the kinds make of one pair: plain, then four probes, the swapped question, the moves."""
    made: list[Sample] = []
    if "plain" in kinds:
        made.append(pair.sample(folder))
    if "probe" in kinds:
        for relation, option in zip(RELATIONS, OPTIONS, strict=True):
            name = f"{pair.id}/probe/{relation}"
            made.append(pair.sample(folder, name, kind="probe", variant=relation, explain=option))
    if "swap" in kinds:
        made.append(pair.swapped().sample(folder, f"{pair.id}/swap", kind="swap", variant="swap"))
    if "move" in kinds:
        for k, moved in enumerate(moves):
            marks = {"origin": pair.id, "kind": "move", "variant": f"{moved.relation} {k}"}
            made.append(moved.sample(folder, f"{pair.id}/move/{k}", **marks))
    return made

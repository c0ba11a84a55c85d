"""Dataset `spatial/coco_pairs`: questions about two objects of a COCO picture, from its instance annotations.

creg2026 says no more than "300 samples constructed from COCO val2017 with matched object bounding boxes". What is done
here: both names occur once in the picture (so that "the cup" means one thing), each box covers 1 % of the picture or
more, the two boxes do not overlap by half or more, one pair a picture, the four relations alike.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le, Lt

from karat.datasets.arrays import file_hash
from karat.datasets.safe_read import read_packed
from karat.datasets.spatial.pair import PER_ORIGIN, Pair, PixelBox, Thing, check_kinds, find_picture, overlap, variants
from karat.datasets.spatial.question import RELATIONS, relation_between
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest, generator
from karat.kernel.sample import Sample

CATEGORIES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """One annotated picture: file name, (width, height), and every box in it."""

    file: str
    size: tuple[int, int]
    things: tuple[Thing, ...]


def read_json(path: str | Path, what: str) -> Any:
    """JSON or gzipped JSON."""
    try:
        return json.loads(read_packed(path, what))
    except FileNotFoundError:
        raise BadInput(f"{what}: no file at {path}.") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{what}: {path} is not JSON: {error}.") from None


@lru_cache(maxsize=4)
def read_instances(path: str) -> Mapping[str, Picture]:
    """Pictures by id, from COCO's own `instances_*.json` or {"categories": names, "images": {id: {size, boxes}}}.

    Crowds are left out: they are no single object.
    """
    data = read_json(path, "instances")
    try:
        if "annotations" in data:
            return _native(data)
        return {
            name: Picture(
                f"{name}.jpg", tuple(one["size"]), tuple(_thing(data["categories"], box) for box in one["boxes"])
            )
            for name, one in data["images"].items()
        }
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise BadInput(f"{path} is not a COCO instances file: {type(error).__name__} {error}.") from None


def _native(data: Mapping[str, Any]) -> dict[str, Picture]:
    names = {category["id"]: category["name"] for category in data["categories"]}
    things: dict[int, list[Thing]] = {}
    for one in data["annotations"]:
        if not one.get("iscrowd"):
            x, y, width, height = map(float, one["bbox"])
            things.setdefault(one["image_id"], []).append(Thing(names[one["category_id"]], (x, y, width, height)))
    return {
        f"{image['id']:012d}": Picture(
            image["file_name"], (image["width"], image["height"]), tuple(things.get(image["id"], ()))
        )
        for image in data["images"]
    }


def _thing(categories: Sequence[str], box: Sequence[float]) -> Thing:
    number, x, y, width, height = box
    return Thing(categories[int(number)], (float(x), float(y), float(width), float(height)))


def pairs_in(picture: str, annotated: Picture, smallest: float = 0.01, most_overlap: float = 0.5) -> list[Pair]:
    """Every ordered pair (reference, target) of a picture that asks a clear question."""
    counts = Counter(thing.name for thing in annotated.things)
    area = annotated.size[0] * annotated.size[1]
    clear = [thing for thing in annotated.things if counts[thing.name] == 1 and thing.area >= smallest * area]
    pairs = []
    for reference, target in permutations(clear, 2):
        if overlap(reference.box, target.box) >= most_overlap or reference.centre == target.centre:
            continue
        others = tuple(thing for thing in annotated.things if thing not in (reference, target))
        relation = relation_between(reference.centre, target.centre)
        name = f"{picture}/{target.name}/{reference.name}".replace(" ", "_")
        pairs.append(Pair(name, annotated.file, annotated.size, reference, target, relation, others))
    return pairs


def balanced(pairs: Mapping[str, Sequence[Pair]], n: int, seed: int, component: str) -> list[Pair]:
    """n pairs, at most one a picture, relations in turn; pictures and pairs in an order drawn from the seed.

    Fewer where a relation runs out; the rest stay balanced.
    """
    order = sorted(pairs, key=lambda picture: float(generator(seed, picture, component).random()))
    waiting: dict[str, list[str]] = {r: [p for p in order if any(x.relation == r for x in pairs[p])] for r in RELATIONS}
    used: set[str] = set()
    chosen: list[Pair] = []
    for k in range(n):
        relation = RELATIONS[k % len(RELATIONS)]
        picture = next((name for name in waiting[relation] if name not in used), None)
        if picture is None:
            return chosen[: len(chosen) - len(chosen) % len(RELATIONS)]
        used.add(picture)
        waiting[relation].remove(picture)
        able = [pair for pair in pairs[picture] if pair.relation == relation]
        chosen.append(able[int(generator(seed, picture, f"{component}/pair").integers(len(able)))])
    return chosen


@dataclass(frozen=True)
class CocoPairs:
    """`instances` is COCO's annotation file, `images` its folder of pictures; None gives blank ones (for controls)."""

    instances: str
    images: str | None = None
    n: Annotated[int, Ge(1)] = 300
    seed: Annotated[int, Ge(0)] = 0
    smallest: Annotated[float, Ge(0), Lt(1)] = 0.01
    most_overlap: Annotated[float, Ge(0), Le(1)] = 0.5
    kinds: tuple[str, ...] = ("plain",)
    card: ClassVar[Card] = Card(
        "spatial/coco_pairs", "where is one object relative to another? COCO pictures and boxes", "dataset",
        citation="creg2026 C.1",
        departures="the paper does not say how pairs were chosen: unique names, 1 % of the picture, overlap below .5",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_kinds(self.kinds)

    @property
    def label(self) -> str:
        more = "" if self.kinds == ("plain",) else f"+{'+'.join(kind for kind in self.kinds if kind != 'plain')}"
        return f"coco_pairs{more}"

    @cached_property
    def revision(self) -> str:
        return digest([self.card.version, file_hash(self.instances)])

    @cached_property
    def _clear(self) -> dict[str, list[Pair]]:
        pictures = read_instances(self.instances)
        if self.images is not None:  # an annotation file may speak of more pictures than are at hand
            pictures = {name: one for name, one in pictures.items() if find_picture(self.images, one.file)}
        pairs_by_picture = {
            name: pairs_in(name, one, self.smallest, self.most_overlap) for name, one in pictures.items()
        }
        return {name: pairs for name, pairs in pairs_by_picture.items() if pairs}

    @cached_property
    def pairs(self) -> list[Pair]:
        chosen = balanced(self._clear, self.n, self.seed, self.card.name)
        if not chosen:
            raise BadInput(f"{self.instances} has no clear pair for every relation (images: {self.images}).")
        return chosen

    def moves(self, pair: Pair) -> list[Pair]:
        """Fix-B-Move-A on photographs: the same target asked about from every other object of its picture."""
        picture = pair.id.partition("/")[0]
        return [other for other in self._clear[picture] if other.target == pair.target]

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Position to (pair, variant): the number of moves differs from picture to picture."""
        fixed = sum(PER_ORIGIN.get(kind, 0) for kind in self.kinds)
        moving = "move" in self.kinds
        counts = [fixed + (len(self.moves(pair)) if moving else 0) for pair in self.pairs]
        return [(i, k) for i, count in enumerate(counts) for k in range(count)]

    def __len__(self) -> int:
        return len(self._places)

    def load(self, start: int, stop: int) -> list[Sample]:
        places = self._places[start:stop]
        made = {
            i: variants(
                self.pairs[i], self.kinds, self.images, self.moves(self.pairs[i]) if "move" in self.kinds else ()
            )
            for i in dict.fromkeys(i for i, _ in places)
        }
        return [made[i][k] for i, k in places]


def largest(things: Sequence[Thing], name: str) -> tuple[Thing | None, int]:
    """The largest thing of a name, and how many there are."""
    named = [thing for thing in things if thing.name == name and _real(thing.box)]
    return (max(named, key=lambda thing: thing.area) if named else None), len(named)


def _real(box: PixelBox) -> bool:
    return box[2] > 0 and box[3] > 0

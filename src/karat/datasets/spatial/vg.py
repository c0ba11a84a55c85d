"""Dataset `spatial/vg`: questions about two objects of a Visual Genome picture, from its published files.

`objects.json` and `image_data.json` give boxes and sizes; `relationships.json`, where given, what annotators said.
creg2026 names Visual Genome "with object annotations" and no more. With relationships, a pair counts where the said
relation and the boxes agree; without, the boxes decide alone, as for COCO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from karat.datasets.arrays import file_hash
from karat.datasets.spatial.coco import Picture, balanced, pairs_in, read_json
from karat.datasets.spatial.pair import Pair, Thing, check_kinds, find_picture, load_variants, per_pair
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.sample import Sample

#: Predicates of Visual Genome that mean a side, in lower case.
PREDICATES = {
    "to the left of": "left", "left of": "left", "on the left of": "left", "on left of": "left",
    "to the right of": "right", "right of": "right", "on the right of": "right", "on right of": "right",
    "above": "above", "over": "above", "on top of": "above",
    "below": "below", "under": "below", "beneath": "below", "underneath": "below",
}  # fmt: skip


def read_genome(objects: str, image_data: str) -> Mapping[str, Picture]:
    """Pictures by id; an object is called by the first of its names."""
    sizes = {one["image_id"]: (one["width"], one["height"]) for one in read_json(image_data, "image_data")}
    pictures = {}
    try:
        for one in read_json(objects, "objects"):
            number = one.get("image_id", one.get("id"))
            things = tuple(_thing(thing) for thing in one["objects"])
            pictures[str(number)] = Picture(f"{number}.jpg", sizes[number], things)
    except (KeyError, TypeError, IndexError) as error:
        raise BadInput(f"{objects} is not Visual Genome's objects.json: {type(error).__name__} {error}.") from None
    return pictures


def _thing(data: Mapping[str, Any]) -> Thing:
    names = data.get("names") or [data["name"]]
    return Thing(str(names[0]).lower(), (float(data["x"]), float(data["y"]), float(data["w"]), float(data["h"])))


def said_relations(path: str) -> set[tuple[str, str, str, str]]:
    """(picture, target, reference, relation) for every relationship whose predicate means a side."""
    relations = set()
    for one in read_json(path, "relationships"):
        for each in one["relationships"]:
            relation = PREDICATES.get(str(each["predicate"]).strip().lower())
            if relation is not None:
                names = (_thing(each[side]).name for side in ("subject", "object"))
                relations.add((str(one["image_id"]), *names, relation))
    return relations  # type: ignore[return-value]  # the two names make it four


@dataclass(frozen=True)
class VGSpatial:
    """`images` is a folder of `<image_id>.jpg`, or of VG_100K and VG_100K_2; None gives blank pictures."""

    objects: str
    image_data: str
    relationships: str | None = None
    images: str | None = None
    n: Annotated[int, Ge(1)] = 296
    seed: Annotated[int, Ge(0)] = 0
    kinds: tuple[str, ...] = ("plain",)
    card: ClassVar[Card] = Card(
        "spatial/vg", "where is one object relative to another? Visual Genome pictures and boxes", "dataset",
        citation="creg2026 C.1; Krishna et al. 2017, Visual Genome",
        departures="the paper does not say how pairs were chosen: as for COCO, and where given, as annotators said",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_kinds(self.kinds)
        if "move" in self.kinds:
            raise BadInput("spatial/vg has no moves; use spatial/coco_pairs or spatial/grid.")

    @property
    def label(self) -> str:
        return "vg_spatial"

    @cached_property
    def revision(self) -> str:
        files = [self.objects, self.image_data, *([self.relationships] if self.relationships else [])]
        return digest([self.card.version, *(file_hash(path) for path in files)])

    @cached_property
    def pairs(self) -> list[Pair]:
        pictures = read_genome(self.objects, self.image_data)
        if self.images is not None:
            pictures = {name: one for name, one in pictures.items() if find_picture(self.images, one.file)}
        clear = {name: pairs_in(name, one) for name, one in pictures.items()}
        if self.relationships is not None:
            stated = said_relations(self.relationships)
            clear = {
                name: [p for p in pairs if (name, p.target.name, p.reference.name, p.relation) in stated]
                for name, pairs in clear.items()
            }
        chosen = balanced({name: pairs for name, pairs in clear.items() if pairs}, self.n, self.seed, self.card.name)
        if not chosen:
            raise BadInput(f"{self.objects} has no clear pair for every relation (images: {self.images}).")
        return chosen

    def __len__(self) -> int:
        return len(self.pairs) * per_pair(self.kinds)

    def load(self, start: int, stop: int) -> list[Sample]:
        return load_variants(self.pairs, self.kinds, self.images, start, stop)

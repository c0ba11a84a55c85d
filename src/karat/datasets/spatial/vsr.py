"""Dataset `spatial/vsr`: statements of Visual Spatial Reasoning that are true, with boxes from COCO, and their audit.

VSR has no boxes. Names in its captions are matched to COCO's categories (creg2026 C.2), and its 66 relations to the
four of the compass. Which relations count is not printed; the counts of table 2 are met to the sample, in all three
splits, by the five of PUBLISHED, none of which is horizontal. CARDINAL adds every other relation that means a side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from karat.datasets.arrays import file_hash
from karat.datasets.safe_read import read_packed
from karat.datasets.spatial.coco import CATEGORIES, Picture, largest, read_instances
from karat.datasets.spatial.pair import Pair, check_kinds, find_picture, load_variants, per_pair
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest
from karat.kernel.sample import Sample

Relations = Literal["published", "cardinal"]
PUBLISHED = {"above": "above", "on": "above", "on top of": "above", "below": "below", "under": "below"}
CARDINAL = PUBLISHED | {
    "left of": "left", "at the left side of": "left", "right of": "right", "at the right side of": "right",
    "over": "above", "beneath": "below", "down from": "below",
}  # fmt: skip
SETS: dict[Relations, dict[str, str]] = {"published": PUBLISHED, "cardinal": CARDINAL}


@dataclass(frozen=True)
class Statement:
    """A caption taken apart: "The cup is left of the bottle." is (cup, left of, bottle)."""

    picture: str
    split: str
    number: int
    subject: str
    relation: str
    object: str


def read_statements(path: str | Path, split: str) -> list[Statement]:
    """The true statements of a split, `<split>.jsonl` or `<split>.jsonl.gz`."""
    candidates = [Path(path) / f"{split}.jsonl{ending}" for ending in ("", ".gz")]
    file = next((one for one in candidates if one.is_file()), None)
    if file is None:
        raise BadInput(f"no {split}.jsonl or {split}.jsonl.gz in {path}. VSR's splits/random holds them.")
    lines = read_packed(file, "VSR").decode().splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return [
        Statement(Path(row["image"]).stem, split, k, *_entities(row["caption"], row["relation"]))
        for k, row in enumerate(rows)
        if row["label"] == 1
    ]


def _entities(caption: str, relation: str) -> tuple[str, str, str]:
    """Subject, relation and object; empty names where the caption is not of the form that VSR's are."""
    pattern = rf"the (.+?) (?:is|are) (?:.*?){re.escape(relation)} the (.+?)\.?"
    match = re.fullmatch(pattern, caption.strip().lower())
    return (match[1], relation, match[2]) if match else ("", relation, "")


def match_category(name: str, categories: Sequence[str] = CATEGORIES) -> str | None:
    """COCO's category of a name: the same name, else the only category that holds it, or is held by it, as words.

    >>> match_category("cup"), match_category("table"), match_category("bat"), match_category("ball")
    ('cup', 'dining table', 'baseball bat', 'sports ball')
    """
    if not name:
        return None
    if name in categories:
        return name
    padded = f" {name} "
    near = [category for category in categories if padded in f" {category} " or f" {category} " in padded]
    return near[0] if len(near) == 1 else None


@dataclass(frozen=True)
class Coverage:
    """One row of creg2026 table 2. `valid` is None where no boxes were given to check."""

    split: str
    positive: int
    matched: int
    valid: int | None

    @property
    def coverage(self) -> float:
        return self.matched / self.positive if self.positive else float("nan")


def coverage(
    path: str | Path,
    splits: Sequence[str] = ("test", "dev", "train"),
    relations: Relations = "published",
    instances: str | None = None,
) -> list[Coverage]:
    """How many true statements speak of two matched entities in a relation that counts, split by split.

    Args:
        path: the folder of a VSR split (random or zeroshot).
        splits: files of it: `<split>.jsonl`, gzipped or not.
        relations: the paper's five relations, or all that mean one of the four directions ("cardinal").
        instances: COCO's annotation file; with it, how many of the matched whose picture is annotated there have two
            proper boxes.

    Returns:
        One `Coverage` per split: statements, matched, valid.
    """
    boxes = read_instances(instances) if instances else None
    rows = []
    for split in splits:
        statements = read_statements(path, split)
        matched = [one for one in statements if _matched(one, SETS[relations])]
        valid = None
        if boxes is not None:
            known = [one for one in matched if one.picture in boxes]
            valid = sum(_pair(one, boxes[one.picture], SETS[relations]) is not None for one in known)
        rows.append(Coverage(split, len(statements), len(matched), valid))
    return rows


def _matched(one: Statement, relations: dict[str, str]) -> bool:
    names = match_category(one.subject), match_category(one.object)
    return one.relation in relations and None not in names and names[0] != names[1]


def _pair(one: Statement, picture: Picture, relations: dict[str, str]) -> Pair | None:
    """The statement with boxes: the largest of each name, since a caption does not say which."""
    if not _matched(one, relations):
        return None
    subject, targets = largest(picture.things, str(match_category(one.subject)))
    reference, references = largest(picture.things, str(match_category(one.object)))
    if subject is None or reference is None:
        return None
    others = tuple(thing for thing in picture.things if thing not in (subject, reference))
    meta: dict[str, Any] = {"said": one.relation, "split": one.split, "instances": max(targets, references)}
    name = f"vsr/{one.split}/{one.number}"
    return Pair(name, picture.file, picture.size, reference, subject, relations[one.relation], others, meta)


@dataclass(frozen=True)
class Vsr:
    """`statements` is the folder of a VSR split (random or zeroshot), `instances` and `images` are COCO's.

    Pictures are from train2017 and val2017: name the second annotation file in `also`. Pictures may lie in `images` or
    in a folder train2017 or val2017 under it.
    """

    statements: str
    instances: str
    images: str | None = None
    also: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("test",)
    relations: Relations = "published"
    kinds: tuple[str, ...] = ("plain",)
    card: ClassVar[Card] = Card(
        "spatial/vsr", "true statements of Visual Spatial Reasoning as four-way questions, boxes from COCO", "dataset",
        citation="creg2026 C.2; Liu et al. 2023, Visual spatial reasoning",
        departures="of several instances of a name the largest counts; the direction is that of the boxes",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_kinds(self.kinds)
        if "move" in self.kinds:
            raise BadInput("spatial/vsr has no moves: a statement is about one pair. Use spatial/coco_pairs.")

    @property
    def label(self) -> str:
        return f"vsr.{'+'.join(self.splits)} {self.relations}"

    @cached_property
    def revision(self) -> str:
        boxes = [file_hash(path) for path in (self.instances, *self.also)]
        return digest([self.card.version, *boxes, [pair.id for pair in self.pairs]])

    @cached_property
    def pairs(self) -> list[Pair]:
        """Statements whose picture is annotated (and, where `images` is given, at hand) with two boxes apart."""
        boxes = {name: one for path in (self.instances, *self.also) for name, one in read_instances(path).items()}
        matched = [
            pair
            for split in self.splits
            for one in read_statements(self.statements, split)
            if one.picture in boxes and (pair := _pair(one, boxes[one.picture], SETS[self.relations])) is not None
        ]
        if self.images is not None:
            matched = [pair for pair in matched if find_picture(self.images, pair.picture) is not None]
        if not matched:
            raise BadInput(f"no statement of {self.statements} has both boxes in {self.instances}.")
        return matched

    def __len__(self) -> int:
        return len(self.pairs) * per_pair(self.kinds)

    def load(self, start: int, stop: int) -> list[Sample]:
        return load_variants(self.pairs, self.kinds, self.images, start, stop)

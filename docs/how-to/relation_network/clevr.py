"""Questions about official CLEVR pictures, made from their scenes: what is asked has one answer there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from karat import Card, Sample
from karat.kernel.identity import generator
from PIL import Image

KINDS = ("attribute", "relation", "exist", "count")
ATTRIBUTES = ("color", "shape", "material", "size")
SIDES = {"left": "left of", "right": "right of", "front": "in front of", "behind": "behind"}


def phrase(thing: dict[str, Any], but: str = "") -> str:
    """ "large red metal cube", without the attribute `but`; a thing whose shape is not told is a "thing"."""
    told = [thing[name] for name in ("size", "color", "material") if name != but]
    return " ".join([*told, "thing" if but == "shape" else thing["shape"]])


def alike(things: list[dict[str, Any]], thing: dict[str, Any], but: str = "") -> int:
    return sum(all(other[a] == thing[a] for a in ATTRIBUTES if a != but) for other in things)


def asked(attribute: str, about: str) -> str:
    if attribute == "material":
        return f"What is the {about} made of?"
    return f"What {attribute} is the {about}?" if attribute != "size" else f"What size is the {about}?"


def questions(scene: dict[str, Any], rng: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """(kind, question, answer) of one scene: one of each kind where the scene has one."""
    things = scene["objects"]
    order = rng.permutation(len(things)).tolist()
    attribute = ATTRIBUTES[int(rng.integers(4))]
    alone = [i for i in order if alike(things, things[i], attribute) == 1]
    if alone:
        thing = things[alone[0]]
        yield "attribute", asked(attribute, phrase(thing, attribute)), thing[attribute]
    for side in rng.permutation(list(SIDES)).tolist():
        for i in order:
            there = scene["relationships"][side][i]
            if alike(things, things[i]) == 1 and len(there) == 1:
                target, words = things[there[0]], SIDES[side]
                text = f"What color is the thing that is {words} the {phrase(things[i])}?"
                if side in ("left", "right"):
                    text = text.replace(f"is {words}", f"is to the {words}")
                yield "relation", text, target["color"]
                break
        else:
            continue
        break
    shape, color = things[order[0]]["shape"], str(rng.choice(["red", "blue", "green", "gray", "brown", "yellow"]))
    there = any(t["shape"] == shape and t["color"] == color for t in things)
    yield "exist", f"Are there any {color} {shape}s?", "yes" if there else "no"
    count = sum(t["shape"] == shape for t in things)
    yield "count", f"How many {shape}s are there?", str(count)


@dataclass(frozen=True)
class ClevrQuestions:
    """`n` questions of `kinds` in turn; `folder` holds `images/` and scenes.json.gz."""

    folder: str = "data/clevr_vqa"
    n: int = 60
    kinds: tuple[str, ...] = KINDS
    card: ClassVar[Card] = Card("mine/clevr", "questions about CLEVR pictures, from their scenes", "dataset")
    revision: ClassVar[str] = "1"

    @cached_property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """(picture, kind, question, answer); one question a picture, kinds in turn."""
        with gzip.open(Path(self.folder) / "scenes.json.gz", "rt") as file:
            scenes = [s for s in json.load(file)["scenes"] if (self.images / self.file(s)).is_file()]
        made = []
        for k, scene in enumerate(scenes):
            own = {
                kind: (text, answer) for kind, text, answer in questions(scene, generator(0, self.file(scene), "clevr"))
            }
            kind = self.kinds[k % len(self.kinds)]
            if kind in own:
                made.append((self.file(scene), kind, *own[kind]))
        return made[: self.n]

    @property
    def images(self) -> Path:
        return Path(self.folder) / "images"

    def file(self, scene: dict[str, Any]) -> str:
        return Path(scene["image_filename"]).stem + ".jpg"

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, start: int, stop: int) -> list[Sample]:
        return [self.sample(*row) for row in self.rows[start:stop]]

    def sample(self, picture: str, kind: str, text: str, answer: str) -> Sample:
        image = np.array(Image.open(self.images / picture).convert("RGB"))
        return Sample(f"{picture}/{kind}", image, text, answer, meta={"kind": kind, "picture": picture})

"""Questions about photographs of COCO, from its boxes: is it there, how many are there, where is it?

Worded as RePOPE and the compass word them, so that a model that learnt them can be asked by those protocols.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from karat.datasets.spatial.coco import CATEGORIES as COCO
from karat.datasets.spatial.coco import Picture, pairs_in
from karat.datasets.spatial.question import OPTIONS, RELATIONS, four_way
from karat.models.photovlm.vocabulary import counting_question, presence_question

SKILLS = ("presence", "counting", "relation")
MOST = 4  # counted up to
SMALLEST = 0.005  # share of the picture below which a thing is not asked about
_MIRRORED = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Question:
    """`mirrored` asks about the picture's mirror image, where left is right."""

    picture: str
    skill: str
    text: str
    answer: str
    mirrored: bool = False


def held_out(name: str) -> bool:
    """Whether a picture is kept for testing: one in six, by its name alone."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 6 == 0


def draw(
    name: str, picture: Picture, skill: str, popular: Sequence[float], rng: np.random.Generator, mirrored: bool = False
) -> Question | None:
    """One question of a skill about a picture, or None where it has none. `popular` weighs COCO's names, by which
    things that are not there are chosen, half of the time: a model that knows what is common must not be right."""
    counts = Counter(thing.name for thing in picture.things)
    area = picture.size[0] * picture.size[1]
    clear = sorted({thing.name for thing in picture.things if thing.area >= SMALLEST * area} & set(COCO))
    absent = [k for k, noun in enumerate(COCO) if noun not in counts]
    weights = np.array([popular[k] for k in absent]) if rng.random() < 0.5 else np.ones(len(absent))
    other = COCO[int(rng.choice(absent, p=weights / weights.sum()))]
    if skill == "presence":
        if rng.random() < 0.5 or not clear:
            return Question(name, skill, presence_question(other), "no", mirrored)
        return Question(name, skill, presence_question(str(rng.choice(clear))), "yes", mirrored)
    if skill == "counting":
        able = {n: [noun for noun in clear if counts[noun] == n] for n in range(1, MOST + 1)}
        numbers = [n for n in able if able[n]]
        if rng.random() < 0.2 or not numbers:
            return Question(name, skill, counting_question(other), "0", mirrored)
        number = int(rng.choice(numbers))
        return Question(name, skill, counting_question(str(rng.choice(able[number]))), str(number), mirrored)
    pairs = pairs_in(name, picture)
    if not pairs:
        return None
    relations = sorted({pair.relation for pair in pairs})
    relation = str(rng.choice(relations))
    able_pairs = [pair for pair in pairs if pair.relation == relation]
    pair = able_pairs[int(rng.integers(len(able_pairs)))]
    visible = _MIRRORED.get(relation, relation) if mirrored else relation
    text, _ = four_way(pair.target.name, pair.reference.name)
    return Question(name, skill, text, OPTIONS[RELATIONS.index(visible)], mirrored)


def popularity(pictures: Mapping[str, Picture]) -> list[float]:
    """How many pictures have each of COCO's names, and one more."""
    counts = Counter(name for picture in pictures.values() for name in {thing.name for thing in picture.things})
    return [1.0 + counts[noun] for noun in COCO]

"""Words that photovlm knows: those of the questions about cues and about COCO's objects, and the answers."""

from __future__ import annotations

import re

from karat.datasets.cues.compose import TEMPLATES
from karat.datasets.cues.world import ANSWERS, World
from karat.datasets.spatial.coco import CATEGORIES as COCO
from karat.datasets.spatial.question import OPTIONS, four_way
from karat.models.small_llava import SPECIAL

COUNTS = ("0", "1", "2", "3", "4")
_PLURAL = {"person": "people", "knife": "knives", "mouse": "mice", "sheep": "sheep", "skis": "skis",
           "scissors": "scissors", "broccoli": "broccoli"}  # fmt: skip
_TOKEN = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")


def plural(noun: str) -> str:
    """
    >>> plural("wine glass"), plural("knife"), plural("dog")
    ('wine glasses', 'knives', 'dogs')
    """
    if noun in _PLURAL:
        return _PLURAL[noun]
    return noun + ("es" if noun.endswith(("s", "ch", "sh", "x")) else "s")


def presence_question(noun: str) -> str:
    """As POPE asks."""
    return f"Is there {'an' if noun[0] in 'aeiou' else 'a'} {noun} in the image?"


def counting_question(noun: str) -> str:
    return f"How many {plural(noun)} are in the image?"


def tokens_of(text: str) -> list[str]:
    """A text as the tokenizer cuts it: lower case, punctuation apart."""
    return _TOKEN.findall(text.lower())


def vocabulary() -> tuple[str, ...]:
    """Every token in the order of its number: special ones, the template's, the questions', the answers'."""
    world = World()
    texts = [part.format(word=word, noun=f"a {noun}") for pair in TEMPLATES for part in pair for word in world.words
             for noun in world.classes]  # fmt: skip
    texts += [question(noun) for noun in COCO for question in (presence_question, counting_question)]
    texts += [four_way(noun, noun)[0] for noun in COCO]
    spoken = [token for text in ["user assistant :", "an", *texts] for token in tokens_of(text)]
    return tuple(dict.fromkeys((*SPECIAL, *ANSWERS, *COUNTS, *OPTIONS, *spoken)))

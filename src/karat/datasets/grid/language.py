"""The wording of a question, word for word as published (gridvqax2026 table 2), with the span of every phrase."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.world import RELATIONS, World
from karat.kernel.typing import Span

Noun = Sequence[int]  # (colour, shape), -1 where it is not named


class Part(NamedTuple):
    """A phrase: where it is, what it does, and which target side or anchor it speaks of (0-based, -1 for none)."""

    span: Span
    role: str  # header | target | relation | anchor | comparison
    number: int


class Wording(NamedTuple):
    text: str
    parts: tuple[Part, ...]


def noun_text(world: World, noun: Noun, plural: bool = False) -> str:
    """ "red circle", "circle" (shape only) or "red object" (colour only)."""
    colour, shape = noun
    words = []
    if colour >= 0:
        words.append(world.colours[colour])
    words.append(world.shapes[shape] if shape >= 0 else "object")
    text = " ".join(words)
    if not plural:
        return text
    return text + ("es" if text.endswith(("s", "x", "ch")) else "s")


def word(
    bucket: Bucket, world: World, targets: Sequence[Noun], anchors: Sequence[Noun], directions: Sequence[int]
) -> Wording:
    """The question of a bucket about these nouns; anchors of side 1 come before those of side 2."""
    return _word(bucket, world, tuple(map(tuple, targets)), tuple(map(tuple, anchors)), tuple(directions))


@lru_cache(maxsize=65536)
def _word(
    bucket: Bucket,
    world: World,
    targets: tuple[tuple[int, ...], ...],
    anchors: tuple[tuple[int, ...], ...],
    directions: tuple[int, ...],
) -> Wording:
    text = ""
    parts: list[Part] = []

    def say(words: str, role: str = "", number: int = -1) -> None:
        nonlocal text
        if text and words not in "?,":
            text += " "
        if role:
            parts.append(Part((len(text), len(text) + len(words)), role, number))
        text += words

    def constraints(first: int, count: int) -> None:
        for k in range(first, first + count):
            if k > first:
                if count > 2:
                    say(",")
                if k == first + count - 1:
                    say("and")
            say(RELATIONS[directions[k]], "relation", k)
            say(noun_text(world, anchors[k]), "anchor", k)

    if bucket.qtype == "REL":
        say("Where is", "header")
        say(noun_text(world, targets[0]), "target", 0)
        say("relative to", "relation", 0)
        say(noun_text(world, anchors[0]), "anchor", 0)
    elif bucket.qtype == "CMP":
        each = bucket.depth - 1
        say("Are there", "header")
        say("more", "comparison")
        say(noun_text(world, targets[0], plural=True), "target", 0)
        constraints(0, each)
        say("than", "comparison")
        say(noun_text(world, targets[1], plural=True), "target", 1)
        constraints(each, each)
    else:
        counting = bucket.form == 0
        say("How many" if counting else "Is there any", "header")
        say(noun_text(world, targets[0], plural=counting), "target", 0)
        if bucket.relational:
            if not counting:
                say("that is")
            else:
                say("that are" if bucket.depth == 3 else "are")
            constraints(0, bucket.depth)
    say("?")
    return Wording(text, tuple(parts))

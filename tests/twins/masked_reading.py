"""A slow twin of how gridprog reads a question with holes in it, written from docs/concepts/twins.md, word by word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karat.datasets.grid import World

DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "above": (0, -1), "below": (0, 1)}
OPENERS = (*DIRECTIONS, "relative", "than", "are", "that", "and", ",")
HEADERS = {"How": "count", "many": "count", "Is": "exist", "any": "exist", "Are": "compare", "more": "compare"}


class Unclear(Exception):
    """The documented semantics speak of a mean over several anchors: not a yes-or-no matter."""


@dataclass
class Phrase:
    opener: str  # "" for the first phrase, which the readout opens
    side: int
    colour: str | None = None
    shape: str | None = None


def answer(words: list[str | None], cells: npt.NDArray[np.uint8], world: World, relations: bool) -> str:
    phrases = _phrases(words, world)
    tasks = {HEADERS[word] for word in words if word in HEADERS}
    if not tasks:
        raise Unclear("no header")
    counts = []
    for side in (0, 1):
        target = next((p for p in phrases if p.opener == ("", "than")[side]), None)
        if target is None:
            counts.append(0)
            continue
        matches = _matches(target, cells, world)
        for phrase in phrases if relations else []:
            if phrase.opener in DIRECTIONS and phrase.side == side:
                matches = [cell for cell in matches if _obeys(cell, phrase, cells, world)]
        counts.append(len(matches))
    (task,) = tasks
    if task == "count":
        return str(counts[0])
    return "yes" if counts[0] > (0 if task == "exist" else counts[1]) else "no"


def _phrases(words: list[str | None], world: World) -> list[Phrase]:
    phrases, side = [Phrase("", 0)], 0
    for word in words:
        if word in OPENERS:
            side = 1 if word == "than" else side
            phrases.append(Phrase(word, side))
        elif word in world.colours:
            phrases[-1].colour = phrases[-1].colour or word
        elif word is not None and word.rstrip("s") in world.shapes:
            phrases[-1].shape = phrases[-1].shape or word.rstrip("s")
    return phrases


def _matches(phrase: Phrase, cells: npt.NDArray[np.uint8], world: World) -> list[tuple[int, int]]:
    matching = []
    for y, x in np.argwhere(cells > 0).tolist():
        colour, shape = world.label(int(cells[y, x])).split()
        if phrase.colour in (None, colour) and phrase.shape in (None, shape):
            matching.append((x, y))
    return matching


def _obeys(cell: tuple[int, int], phrase: Phrase, cells: npt.NDArray[np.uint8], world: World) -> bool:
    if phrase.colour is None and phrase.shape is None:
        return True
    anchors = _matches(phrase, cells, world)
    if len(anchors) > 1:
        raise Unclear("several anchors")
    dx, dy = DIRECTIONS[phrase.opener]
    return all(dx * (cell[0] - x) + dy * (cell[1] - y) > 0 for x, y in anchors)

"""What the independent executor finds in scenes: regions, roles, and what each shortcut would answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.grid import executor
from karat.datasets.grid.executor import Asked, Codes, Places
from karat.datasets.grid.rules import image_features
from karat.datasets.grid.scenes import ADVERSARIAL, ADVERSARIAL_2, ANCHOR, DISTRACTOR, TARGET, TARGET_2


def regions(questions: Asked, codes: Codes) -> dict[str, npt.NDArray[Any]]:
    """Valid regions, confuser regions, what they hold, and the role of every object, found by looking."""
    n = len(codes)
    everything = slice(None)
    likes = [questions.matches(codes, noun, everything) for noun in questions.targets]
    roles = np.where(codes > 0, DISTRACTOR, 0).astype(np.int8)
    if questions.kind == "where":
        anchor = questions.matches(codes, questions.anchors[0], everything)
        roles[likes[0]], roles[anchor] = TARGET, ANCHOR
        same = _same_direction(questions, codes)
        confuser = ~same
        held = (likes[0] & confuser).sum(axis=1)[:, None]
        return {"valid": same[:, None], "confusers": confuser[:, None], "held": held, "roles": roles}
    inside = [questions.inside(codes, k, everything)[0] for k in range(len(questions.side_of))]
    whole = np.ones(codes.shape, dtype=np.bool_)
    valid = [np.logical_and.reduce([whole, *(r for r, s in zip(inside, questions.side_of, strict=True) if s == side)])
             for side in range(len(likes))]  # fmt: skip
    confusers, held = [], []
    for k, side in enumerate(questions.side_of):
        others = [r for j, (r, s) in enumerate(zip(inside, questions.side_of, strict=True)) if s == side and j != k]
        region = np.logical_and.reduce([whole, *others]) & ~inside[k]
        confusers.append(region)
        held.append((region & likes[side]).sum(axis=1))
    for side, like in enumerate(likes):
        roles[like] = (ADVERSARIAL, ADVERSARIAL_2)[side]
        roles[like & valid[side]] = (TARGET, TARGET_2)[side]
    for k, noun in enumerate(questions.anchors):
        roles[questions.matches(codes, noun, everything)] = ANCHOR + k
    return {
        "valid": np.stack(valid, axis=1),
        "confusers": np.stack(confusers, axis=1) if confusers else np.zeros((n, 0, codes.shape[1]), np.bool_),
        "held": np.stack(held, axis=1) if held else np.zeros((n, 0), np.int64),
        "roles": roles,
    }


def _same_direction(questions: Asked, codes: Codes) -> npt.NDArray[np.bool_]:
    """(n, P) cells where a target would give the stated answer: put it there and ask, the anchor alone with it."""
    rows = np.arange(len(codes))
    target = questions.matches(codes, questions.targets[0], slice(None))
    anchor = questions.matches(codes, questions.anchors[0], slice(None))
    code = codes[rows, target.argmax(axis=1)]
    truth = questions.execute(codes)
    same = np.zeros(codes.shape, dtype=np.bool_)
    for cell in range(codes.shape[1]):
        scene = np.where(anchor, codes, 0).astype(np.uint8)
        free = scene[:, cell] == 0
        scene[:, cell] = np.where(free, code, scene[:, cell])
        same[:, cell] = free & (questions.execute(scene) == truth)
    return same


def shortcuts(questions: Asked, codes: Codes) -> dict[str, Places]:
    """What the heuristics answer: cases 1, 3 and 2 of gridvqax2026 section 3.3."""
    if questions.kind == "where":
        return {"bag_of_words": _nearest_side(questions, codes)}
    every = range(len(questions.side_of))
    answers = {"bag_of_words": questions.execute(codes, dropped=frozenset(every))}
    for k in every:
        answers[f"drop_anchor_{k + 1}"] = questions.execute(codes, dropped=frozenset({k}))
    largest = _largest_group(questions, codes)
    if questions.kind == "how many":
        answers["majority"] = largest
    else:
        mine = questions.matches(codes, questions.targets[0], slice(None)).sum(axis=1)
        answers["majority"] = np.where(mine == largest, executor.YES, executor.NO)
    return answers


def _nearest_side(questions: Asked, codes: Codes) -> Places:
    """The shortcut of "where" questions: which side of the image is the target nearest to? Left and right win ties."""
    size = questions.world.size
    at = questions.matches(codes, questions.targets[0], slice(None)).argmax(axis=1)
    x, y = at % size, at // size
    margins = np.stack([x, size - 1 - x, y, size - 1 - y])
    near_x, near_y = margins[:2].min(axis=0), margins[2:].min(axis=0)
    sideways = np.where(x < size - 1 - x, executor.LEFT, executor.RIGHT)
    upright = np.where(y < size - 1 - y, executor.ABOVE, executor.BELOW)
    return np.where(near_x <= near_y, sideways, upright).astype(np.int64)


def _largest_group(questions: Asked, codes: Codes) -> Places:
    """Size of the largest group of objects that one noun of this kind of question could describe."""
    features = image_features(codes, questions.world)
    colour, shape = questions.targets[0]
    group = "shape" if colour is None else "colour" if shape is None else "class"
    largest: Places = features[f"size of the largest {group}"]
    return largest


def distinct_directions(questions: Asked) -> npt.NDArray[np.bool_]:
    sound = np.ones(len(questions.relations[0]), dtype=np.bool_)
    for j, side in enumerate(questions.side_of):
        for k in range(j):
            if questions.side_of[k] == side:
                sound &= questions.relations[j] != questions.relations[k]
    return sound


def off_lines(questions: Asked, codes: Codes) -> npt.NDArray[np.bool_]:
    """No target-like object shares the coordinate that a relation of its side compares."""
    size = questions.world.size
    sound = np.ones(len(codes), dtype=np.bool_)
    cell = np.arange(codes.shape[1])
    for k, side in enumerate(questions.side_of):
        at = questions.matches(codes, questions.anchors[k], slice(None)).argmax(axis=1)[:, None]
        sideways = np.isin(questions.relations[k], ("left of", "right of"))[:, None]
        tie = np.where(sideways, cell % size == at % size, cell // size == at // size)
        sound &= ~(tie & questions.matches(codes, questions.targets[side], slice(None))).any(axis=1)
    return sound

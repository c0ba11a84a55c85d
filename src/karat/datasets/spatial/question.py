"""The four-way question: where is one object relative to another? Its words, its options, its directions."""

from __future__ import annotations

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.sample import Phrase, Sample
from karat.kernel.typing import Span

#: In the order of the options; each is what the target is to the reference.
RELATIONS = ("left", "right", "above", "below")
#: Degrees as the eye sees them: 0 is right, 90 is up.
ANGLES = {"left": 180.0, "right": 0.0, "above": 90.0, "below": 270.0}
OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}
OPTIONS = ("1", "2", "3", "4")
_ASKED = "In this image, where is the {target} relative to the {reference}? "
_CHOICES = "Choose one option: 1) to the left, 2) to the right, 3) above, 4) below. Answer with just the number."


def four_way(target: str, reference: str) -> tuple[str, tuple[Phrase, ...]]:
    """The prompt of creg2026 B.3 about two named objects.

    Args:
        target, reference: nouns: where is the target relative to the reference?

    Returns:
        The text, and its phrases with their spans, roles and regions.

    Example:
        >>> text, phrases = four_way("cup", "bottle")
        >>> text[:58], [text[slice(*phrase.span)] for phrase in phrases]
        ('In this image, where is the cup relative to the bottle? Ch', ['where is', 'cup', 'relative to', 'bottle'])
    """
    text = _ASKED.format(target=target, reference=reference) + _CHOICES
    start = text.index("where is")
    phrases, at = [], start
    parts = (("where is", "header", ""), (target, "target", "target"), ("relative to", "relation", "anchor"))
    for words, role, region in (*parts, (reference, "anchor", "anchor")):
        at = text.index(words, at)
        span: Span = (at, at + len(words))
        phrases.append(Phrase(span, role, (f"{region} 1",) if region else ()))
        at = span[1]
    return text, tuple(phrases)


def relation_between(reference: tuple[float, float], target: tuple[float, float]) -> str:
    """What the target is to the reference by the axis on which they are further apart; a tie goes to the horizontal.

    >>> relation_between((10.0, 10.0), (13.0, 5.0))
    'above'
    """
    dx, dy = target[0] - reference[0], target[1] - reference[1]
    if abs(dx) >= abs(dy):
        return "left" if dx < 0 else "right"
    return "above" if dy < 0 else "below"


def centre(sample: Sample, role: str) -> tuple[float, float]:
    """(x, y) in pixels: the middle of the first box that has the role (`anchor` is the reference)."""
    for region in sample.regions:
        if region.role == role and region.boxes:
            x, y, width, height = region.boxes[0]
            return x + width / 2, y + height / 2
    raise BadInput(f"sample {sample.id} has no region with the role {role!r} and a box; the compass needs one.")


def angle(reference: tuple[float, float], target: tuple[float, float]) -> float:
    """Degrees, 0 to 360, from reference to target. # creg2026 Eq. 5"""
    return float(np.degrees(np.arctan2(reference[1] - target[1], target[0] - reference[0])) % 360)


def zone(point: tuple[float, float], size: tuple[int, int]) -> str:
    """Which ninth of a picture of size (height, width) a point (x, y) lies in: "top left", "middle centre"..."""
    row = ("top", "middle", "bottom")[min(int(3 * point[1] / size[0]), 2)]
    column = ("left", "centre", "right")[min(int(3 * point[0] / size[1]), 2)]
    return f"{row} {column}"

"""Photographs with cues that vary independently: known rules outside of the grid world."""

from __future__ import annotations

from karat.datasets.cues.compose import hide
from karat.datasets.cues.dataset import CuesDataset
from karat.datasets.cues.generate import generate
from karat.datasets.cues.rules import RULES, Rule, find_rule, make_rule
from karat.datasets.cues.sample import CueSample, visible
from karat.datasets.cues.world import ANSWERS, CUES, IMAGE_CUES, World
from karat.kernel.empty import EMPTY

__all__ = [
    "ANSWERS",
    "CUES",
    "EMPTY",
    "IMAGE_CUES",
    "RULES",
    "CueSample",
    "CuesDataset",
    "Rule",
    "World",
    "find_rule",
    "generate",
    "hide",
    "make_rule",
    "visible",
]

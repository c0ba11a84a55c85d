"""Words of several vocabularies for the same things, so that a model of one can be held against masks of another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files

import yaml


@cache
def _entries() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """(names in the segmentation sets, classes of ImageNet that are kinds of it) of every thing."""
    text = files("karat.datasets.segmentation").joinpath("vocabulary.yaml").read_text("utf-8")
    return tuple((frozenset(one["names"]), frozenset(one["imagenet"])) for one in yaml.safe_load(text))


@cache
def words(label: str) -> frozenset[str]:
    """Other words for a class of a segmentation set.

    >>> sorted(words("aeroplane")), words("sky")
    (['airliner', 'airplane', 'warplane'], frozenset())
    """
    return frozenset(word for names, kinds in _entries() if label in names for word in names | kinds) - {label}


def aliases(labels: Iterable[str]) -> dict[str, str]:
    """Other words, each with the class it means; a word that is a class of its own, or means several, is left out.

    LVIS writes spaces as underscores: its `school_bus` is a class of its own, and "school bus" means it, not `bus`.

    >>> aliases(["sofa", "cow"])
    {'couch': 'sofa', 'studio couch': 'sofa', 'ox': 'cow'}
    >>> aliases(["bus", "school_bus"])["school bus"]
    'school_bus'
    """
    known = list(labels)
    spelled = {label.replace("_", " "): label for label in known}
    meant: dict[str, list[str]] = {}
    for label in known:
        for word in sorted(words(label)):
            meant.setdefault(word, []).append(label)
    others = {word: means[0] for word, means in meant.items() if len(means) == 1 and word not in spelled}
    return {word: label for word, label in {**others, **spelled}.items() if word not in known}


def without_word(labels: Collection[str], vocabulary: Collection[str]) -> list[str]:
    """Classes of a dataset that a model has no word for.

    >>> without_word(["dog", "person"], ["beagle", "teapot"])
    ['person']
    """
    spoken = set(vocabulary)
    means = {label for word, label in aliases(labels).items() if word in spoken}
    return sorted(label for label in labels if label not in spoken and label not in means)

"""The classes of ImageNet-1k by WordNet id and by name, and which of them ImageNet-S has masks for."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

# ImageNet-S (919) counts the first of each pair as the second.
MERGED = {
    "n04356056": "n04355933", "n04493381": "n02808440", "n03642806": "n03832673", "n04008634": "n03773504",
    "n03887697": "n15075141",
}  # fmt: skip


@cache
def _table() -> tuple[tuple[str, str, frozenset[str]], ...]:
    text = files("karat.datasets.segmentation").joinpath("imagenet.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines()[2:]]
    return tuple((wnid, name, frozenset(sets.split(","))) for wnid, name, sets in rows)


def labels() -> tuple[str, ...]:
    """The 1000 class names in the order that classifiers count by; each is unique.

    >>> labels()[0], labels()[281], len(set(labels()))
    ('tench', 'tabby', 1000)
    """
    return tuple(name for _, name, _ in _table())


@cache
def by_wnid() -> dict[str, str]:
    """WordNet id → class name.

    >>> by_wnid()["n02123045"]
    'tabby'
    """
    return {wnid: name for wnid, name, _ in _table()}


def members(size: int) -> tuple[str, ...] | None:
    """WordNet ids of ImageNet-S-50 or -919 in order: class number k is the k-th, from 1. None where not known here."""
    wnids = tuple(wnid for wnid, _, sets in _table() if str(size) in sets)
    return wnids or None

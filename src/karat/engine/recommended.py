"""Which explainers to begin with: what the shipped record says is faithful on the nearest kind of model.

The record is of twins whose reasoning is known (`karat report` of `recorded/grid`). A place is 0 for noise and 1 for
the truth itself: how much of a map lies on what decided, corrected for the area it takes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np

RECORD, METRIC = "grid", "own_mass"
Family = Literal["gridvlm", "gridnet"]
_CHEAP = 100  # forward passes
_KINDS = ("cam", "attention", "gradient", "relevance", "perturbation", "shapley")  # those that give a map
WHY = "docs/how-to/explain.md#where-the-defaults-come-from"


@dataclass(frozen=True)
class Place:
    """Where an explainer stands between noise (0) and the truth (1), on the worse of two twins of one family."""

    explainer: str
    value: float
    family: Family
    samples: int
    passes: float

    def __str__(self) -> str:
        world = f"twins of drawn scenes ({self.family}, {self.samples:,} samples)"
        return f"{self.value:.2f} of the way from noise to the truth, on {world}"


def family_of(capabilities: Collection[str]) -> Family:
    """The recorded family that is nearest to a model: models that answer token by token, and all others."""
    return "gridvlm" if "autoregressive" in capabilities else "gridnet"


@cache
def places(family: Family) -> dict[str, Place]:
    """Every recorded explainer of a family by its name, best first; those with parameters of their own under the label
    that has them."""
    from karat.results import load_run

    scores = load_run(Path(str(files("karat").joinpath("recorded", RECORD)))).scores(metrics=[METRIC])
    mine = (scores["model.family"] == family) & (scores["status"] == "score")
    rows = scores[mine & ~scores["explainer.is_control"].astype(bool)]
    table = rows.groupby(["explainer", "model"], observed=True)["value"].agg(["mean", "size"])
    passes = rows.groupby("explainer", observed=True)["passes"].mean().to_dict()
    listed = []
    for name, part in table.groupby(level=0, observed=True):
        value, samples = float(part["mean"].min()), int(part["size"].min())
        if np.isfinite(value):
            listed.append(Place(str(name), value, family, samples, float(passes[str(name)])))
    return {place.explainer: place for place in sorted(listed, key=lambda place: -place.value)}


def place_of(explainer: str, capabilities: Collection[str]) -> Place | None:
    """The recorded place of an explainer as it is by default; None where there is no record of it."""
    return places(family_of(capabilities)).get(explainer)


def recommended(capabilities: Collection[str], count: int = 3) -> list[Place]:
    """The best explainer of each kind that the model can serve and that costs at most a hundred passes, best first.

    >>> [place.explainer for place in recommended({"scores"}, 1)]
    ['perturbation/leave_one_out']
    """
    from karat.kernel.registry import find, registered

    known = registered("explainer")
    best: dict[str, Place] = {}
    for name, place in places(family_of(capabilities)).items():
        if name in known and place.passes <= _CHEAP and find("explainer", name).card.family in _KINDS:
            card = find("explainer", name).card
            if card.needs - {"scores"} <= set(capabilities):
                best.setdefault(card.family, place)
    return list(best.values())[:count]

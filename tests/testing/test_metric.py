"""The kit for metrics: ours pass, and one that breaks a law is told which."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from karat.kernel.card import Card
from karat.kernel.registry import build, registered
from karat.metrics.localization import RelevanceMass, Spuriousity
from karat.testing import Broken, check_metric
from karat.testing.metric import Case

COMPASS = "compass/direction_error"


def compass_case() -> Case:
    rng = np.random.default_rng(0)
    reference, target = np.full((4, 2), 5.5), np.array([[9.5, 5.5], [5.5, 1.5], [1.5, 5.5], [5.5, 9.5]])
    good, bad = np.zeros((4, 11, 11)), np.zeros((4, 11, 11))
    for i, (x, y) in enumerate(target.astype(int).tolist()):
        good[i, y, x], bad[i, 10 - y, 10 - x] = 1.0, 1.0
    return Case(rng.random((4, 11, 11)), (reference, target), good, bad)


@pytest.mark.parametrize("name", sorted(registered("metric")))
def test_every_metric_keeps_the_laws(name: str) -> None:
    check_metric(build("metric", name, {}), compass_case() if name == COMPASS else None)


@dataclass(frozen=True)
class Upside(RelevanceMass):
    card: ClassVar[Card] = dataclasses.replace(RelevanceMass.card, direction="lower")


@dataclass(frozen=True)
class Narrow(RelevanceMass):
    card: ClassVar[Card] = dataclasses.replace(RelevanceMass.card, range=(0.0, 0.5))


@dataclass(frozen=True)
class Relative(RelevanceMass):
    def __call__(self, maps: Any, masks: Any) -> Any:
        return super().__call__(maps, masks) / np.nanmean(super().__call__(maps, masks) + 1)


@dataclass(frozen=True)
class Zeroes(RelevanceMass):
    def __call__(self, maps: Any, masks: Any) -> Any:
        return np.nan_to_num(super().__call__(maps, masks))


@dataclass(frozen=True)
class Silent(RelevanceMass):
    def problems(self, maps: Any, masks: Any) -> Any:
        return [None] * len(maps)


@dataclass(frozen=True)
class Scribbles(RelevanceMass):
    def __call__(self, maps: Any, masks: Any) -> Any:
        values = super().__call__(maps, masks)
        maps += 1.0
        return values


@dataclass(frozen=True)
class Averages(RelevanceMass):
    def __call__(self, maps: Any, masks: Any) -> Any:
        return super().__call__(maps, masks).mean()


@pytest.mark.parametrize(
    ("metric", "law"),
    [
        (Upside(), "better is where its card says"),
        (Narrow(), "values lie in the range"),
        (Relative(), "a batch is its samples alone"),
        (Zeroes(), "a map with a NaN scores 0"),
        (Silent(), "a reason for sample 1"),
        (Scribbles(), "argument 0 was changed"),
        (Averages(), "one value per sample"),
    ],
)
def test_a_metric_that_breaks_a_law(metric: Any, law: str) -> None:
    with pytest.raises(Broken, match=law):
        check_metric(metric)


def test_parameters_are_checked_as_given() -> None:
    check_metric(Spuriousity(threshold=0.2))

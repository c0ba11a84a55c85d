"""The kits for metrics, models and datasets: on our own parts, and on parts that break one law each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import karat
from karat.kernel.card import Card
from karat.kernel.registry import build, registered
from karat.metrics.localization import RelevanceMass, Spuriousity
from karat.testing import Broken, check_dataset, check_metric, check_model
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
        found = super().__call__(maps, masks)
        maps += 1.0
        return found


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


# ---- models


def test_models_of_every_kind() -> None:
    pytest.importorskip("torch")
    from karat.testing.worlds import grid_world, spotlight, spotlight_network

    for world in (spotlight(), spotlight_network(), grid_world()):
        check_model(world.model, world.samples)
    check_model(build("model", "gridprog", {"variant": "pure"}), grid_world().samples)


def lazy(images: Any, texts: Any) -> Any:
    return np.tile([0.7, 0.3], (len(images), 1))


def by_batch(images: Any, texts: Any) -> Any:
    return np.tile([1 / (1 + len(images)), 0.0], (len(images), 1))


def reads(images: Any, texts: Any) -> Any:
    return np.array([[0.9, 0.1] if text and "red" in text else [0.2, 0.8] for text in texts])


def scribbles(images: Any, texts: Any) -> Any:
    np.random.random()
    return lazy(images, texts)


class Fickle:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, images: Any, texts: Any) -> Any:
        self.calls += 1
        return np.tile([1 - 0.01 * (self.calls % 7), 0.0], (len(images), 1))


@pytest.mark.parametrize(
    ("fn", "given", "law"),
    [
        (by_batch, {}, "a batch is its samples alone"),
        (reads, {"text": False}, "it reads the text only if it says so"),
        (scribbles, {}, "global random state"),
        (Fickle(), {}, "asked twice"),
    ],
)
def test_a_model_that_breaks_a_law(fn: Any, given: dict[str, Any], law: str) -> None:
    check_model(karat.models.blackbox(lazy, answers=["yes", "no"], **given))
    with pytest.raises(Broken, match=law):
        check_model(karat.models.blackbox(fn, answers=["yes", "no"], **given))


def test_a_thing_that_is_no_model() -> None:
    with pytest.raises(Broken, match="a model needs name, capabilities"):
        check_model(object())


# ---- datasets


@dataclass(frozen=True)
class Dots:
    """Grey images with a dot; `fault` breaks one law."""

    fault: str = ""
    card: ClassVar[Card] = Card("kit/dots", "dots", "dataset")
    revision: ClassVar[str] = "1"

    def __len__(self) -> int:
        return 6

    def load(self, start: int, stop: int) -> list[karat.Sample]:
        return [self._one(i, start) for i in range(start, stop)]

    def _one(self, i: int, start: int) -> karat.Sample:
        image = np.full((8, 8, 3), 10 * i + (start if self.fault == "slices" else 0), np.uint8)
        return karat.Sample(
            "dot" if self.fault == "ids" else f"dot-{i}",
            image.astype(float) if self.fault == "images" else image,  # type: ignore[arg-type]
            text="a dot",
            regions=(karat.Region("dot", "target", boxes=((7, 0, 4 if self.fault == "inside" else 1, 1),)),),
            phrases=(karat.Phrase((2, 9 if self.fault == "phrases" else 5), "target"),),
            meta={"list": [1]} if self.fault == "meta" else {"i": i},  # type: ignore[dict-item]
        )


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("ids", "ids occur twice"),
        ("images", "images are"),
        ("slices", "a slice gives the same samples"),
        ("inside", "leaves its image of 8 × 8"),
        ("phrases", "leaves the text"),
        ("meta", "meta list is a list"),
    ],
)
def test_a_dataset_that_breaks_a_law(fault: str, law: str) -> None:
    check_dataset(Dots())
    with pytest.raises(Broken, match=law):
        check_dataset(Dots(fault))


def test_our_own_datasets() -> None:
    check_dataset(build("dataset", "grid", {"buckets": ("D1_M_F0_d0.3",), "per_bucket": 3}), n=3)

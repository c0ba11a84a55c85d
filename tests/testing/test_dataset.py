"""The kit for datasets: ours pass, and one that breaks a law is told which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import karat
from karat.kernel.card import Card
from karat.kernel.registry import build
from karat.testing import Broken, check_dataset

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

"""Accuracy of a trainee on fresh samples: seeds that no training ever used, every bucket, both modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from karat.datasets.grid.generate import generate_batch
from karat.kernel.errors import BadInput
from karat.models.training.batches import BUCKETS, FIRST_TRAINING_SEED, describe
from karat.models.training.twins import Trainee

PER_BUCKET = 200
SEED = 20260


@dataclass(frozen=True)
class Evaluation:
    """Share of right answers per bucket on one mode's samples."""

    mode: str
    seed: int
    per_bucket: int
    buckets: Mapping[str, float]

    @property
    def overall(self) -> float:
        return float(np.mean(list(self.buckets.values())))

    @property
    def worst(self) -> tuple[str, float]:
        """The bucket with the lowest accuracy."""
        return min(self.buckets.items(), key=lambda item: item[1])


def evaluate(module: Trainee, mode: str, per_bucket: int = PER_BUCKET, seed: int = SEED) -> Evaluation:
    """Accuracy of a trainee on `per_bucket` samples of every bucket."""
    if not 0 <= seed < FIRST_TRAINING_SEED:
        raise BadInput(f"evaluation seeds lie below {FIRST_TRAINING_SEED}, where training seeds begin; got {seed}.")
    module.eval()
    shares = {}
    for bucket in BUCKETS:
        batch = describe(generate_batch(bucket, np.arange(per_bucket), seed=seed, mode=mode), module.words)
        shares[bucket] = float((module.answer(batch).cpu().numpy() == batch.answer).mean())
    return Evaluation(mode, seed, per_bucket, shares)

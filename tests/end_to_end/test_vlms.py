"""Both protocols for vision-language models, on saved models of every architecture, from spec to rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tiny_vlms
import torch

from karat.datasets.grid import generate
from karat.engine.run import run
from karat.kernel.card import Card
from karat.kernel.sample import Sample
from karat.kernel.spec import Spec
from karat.protocols.compass import Compass

SAVED = ("llava", "qwen2_vl", "qwen2_5_vl", "internvl", "gridvlm")
EXPLAINERS: list[Any] = [
    "control/random",
    "gradient/input_x_gradient",
    {"name": "gradient/integrated_gradients", "steps": 2},
    {"name": "gradient/contrastive_grad_x_act", "candidates": ["1", "2", "3", "4"]},
    {"name": "cam/gradcam", "layer": "vision.last"},
    {"name": "cam/gradcam", "layer": "norm.1"},
    "attention/rollout",
    "attention/grad_rollout",
    "attention/generic",
    "relevance/attnlrp",
    "relevance/cplrp",
    {"name": "vlm/llava_cam", "copies": 2},
    "vlm/tam",
    {"name": "perturbation/rise", "masks": 24, "word_masks": 4, "cells": 3},
]


def saved(kind: str, folder: Path) -> Path:
    if kind != "gridvlm":
        return tiny_vlms.saved(kind, folder)
    from karat.models.gridvlm import build

    torch.manual_seed(0)
    build.make_model().save_pretrained(folder)
    build.make_processor().save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Open:
    """Grid questions to which any answer can be read: an untrained model says what it likes."""

    card: ClassVar[Card] = Card("tests/open", "grid questions without a list of answers", "dataset")
    revision: ClassVar[str] = "1"

    def __len__(self) -> int:
        return 2

    def load(self, start: int, stop: int) -> list[Sample]:
        made = generate("D1_M_F0_d0.3", 2, cell=16)
        return [replace(sample, choices=()) for sample in made[start:stop]]


def carry_out(kind: str, tmp_path: Path, **changes: Any) -> Any:
    said = {"options": ["1", "2", "3"]} if kind == "gridvlm" else {"max_new_tokens": 1}  # untrained, it says nothing
    spec = {
        "models": [{"name": "vlm", "path": str(saved(kind, tmp_path / kind)), **said}],
        "explainers": EXPLAINERS,
        "batch_size": 2,
        **changes,
    }
    return run(Spec.parse(spec), tmp_path / "run", workers=0).scores()


@pytest.mark.parametrize("kind", SAVED)
def test_synergy(kind: str, tmp_path: Path) -> None:
    scores = carry_out(
        kind,
        tmp_path,
        protocol={"name": "synergy", "steps": 3},
        datasets=[f"{__name__}:Open"],
    )
    _sound(scores, "f_syn")


@pytest.mark.parametrize("kind", SAVED)
def test_compass(kind: str, tmp_path: Path) -> None:
    scores = carry_out(kind, tmp_path, protocol="compass", datasets=[{"name": "spatial/grid", "n": 2, "cell": 16}])
    named = scores.explainer.isin(set(Compass.controls) - {"control/random"})  # come by themselves
    _sound(scores[~named], "compass/direction_error")


def _sound(scores: Any, metric: str) -> None:
    """Every explainer has rows; of a random model, only maps without any evidence have no score."""
    own = scores[scores.metric == metric]
    assert own.groupby("explainer").size().eq(2).all()
    assert own.explainer.nunique() == len(EXPLAINERS)
    failed = own[own.status == "failure"]
    assert failed.reason.str.contains("all zero|flat").all(), failed[["explainer", "reason"]].to_string()
    assert np.isfinite(own[own.status == "score"].value).all()
    assert (own.status == "score").mean() > 0.8

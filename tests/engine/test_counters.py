"""A guard against regressions that does not depend on the machine's mood: passes, traces, bytes and allocations.

What was counted is recorded in counters.json. Where a change is meant, run this file with KARAT_RECORD=1: it writes the
record anew, and the difference is there to be reviewed.
"""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toys

from karat import metrics
from karat.datasets.grid import generate
from karat.engine.run import run
from karat.kernel.registry import build
from karat.kernel.spec import Spec
from karat.models import load_model
from karat.probe import Game, shapley
from karat.probe.session import Session
from karat.results.files import LocalFiles

RECORD = Path(__file__).with_name("counters.json")
LOOKING = ["attention/raw", "attention/rollout", "attention/grad_rollout", "attention/gar", "gradient/gradient",
           "gradient/input_x_gradient"]  # fmt: skip


def guard(name: str, counted: dict[str, int], slack: float = 0.0) -> None:
    """Equal to what was recorded (less is an improvement to record, too); with `slack`, at most that share more."""
    kept: dict[str, dict[str, int]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if os.environ.get("KARAT_RECORD"):
        kept[name] = counted
        RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        return
    assert counted.keys() == kept[name].keys()
    for key, value in counted.items():
        if slack:
            assert value <= kept[name][key] * (1 + slack), f"{name}: {key} grew from {kept[name][key]} to {value}"
        else:
            assert value == kept[name][key], f"{name}: {key} was {kept[name][key]}, is {value}"


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model("gridprog.pure", cell=16)


def explained(model: Any, explainers: list[Any]) -> Session:
    session = Session(model, generate("D2_M_F0_d0.7", 4, seed=0, cell=16))
    session.expect(explainers)
    for explainer in explainers:
        assert len(explainer(session)) == 4
    return session


def test_explainers_that_look_inside_share_one_trace(model: Any) -> None:
    cost = explained(model, [build("explainer", name, {}) for name in LOOKING]).cost
    guard(
        "six explainers that look inside", {"traces": cost.traces, "backwards": cost.backwards, "shared": cost.shared}
    )


def test_explainers_that_ask_make_so_many_passes(model: Any) -> None:
    asking = [
        build("explainer", "perturbation/leave_one_out", {}),
        build("explainer", "shapley/permutation", {"budget": 300}),
    ]
    passes = explained(model, [*asking, *asking]).cost.passes
    counted = {"requested": passes.requested, "made": passes.made, "batches": passes.batches}
    guard("two explainers that ask, twice", counted)
    assert passes.made <= passes.requested / 2  # what was asked before is not asked again


def test_estimates_keep_to_their_budget() -> None:
    seen = [0]

    def value(visual: np.ndarray, text: np.ndarray) -> np.ndarray:
        seen[0] += len(visual)
        return visual.sum(axis=1).astype(float)

    counted = {}
    for method in ("exact", "permutation", "stratified", "kernelshap", "regression"):
        seen[0] = 0
        shapley(Game(value, 10), 1024 if method == "exact" else 300, method, rng=0)
        counted[method] = seen[0]
    guard("forward passes of Shapley values, 10 players", counted)


def test_a_run_writes_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    plain = LocalFiles.write

    def counting(self: LocalFiles, name: str, data: bytes) -> None:
        writes.append(len(data))
        plain(self, name, data)

    monkeypatch.setattr(LocalFiles, "write", counting)
    run(Spec.parse(toys.spec(datasets=[{"name": "toys:Squares", "n": 64}], shard_size=16)), tmp_path, workers=0)
    guard("files of a run", {"writes": len(writes), "files": sum(path.is_file() for path in tmp_path.rglob("*"))})
    sizes = {
        folder: sum(path.stat().st_size for path in (tmp_path / folder).iterdir())
        for folder in ("scores", "attributions")
    }
    guard("bytes of a run", {**sizes, "events": (tmp_path / "events.jsonl").stat().st_size}, slack=0.05)


def test_metrics_allocate_so_much() -> None:
    rng = np.random.default_rng(0)
    maps, masks = rng.random((64, 56, 56), dtype=np.float32), rng.random((64, 56, 56)) < 0.2
    called: dict[str, Callable[[], Any]] = {
        "relevance_mass": lambda: metrics.relevance_mass(maps, masks),
        "otsu_iou": lambda: metrics.otsu_iou(maps, masks),
        "spuriousity": lambda: metrics.spuriousity(maps, masks),
        "hit": lambda: metrics.hit(maps, masks),
        "weighted_iou": lambda: metrics.weighted_iou(maps, maps[::-1].copy()),
    }
    counted = {}
    for name, call in called.items():
        call()  # what is made once and kept does not count
        tracemalloc.start()
        call()
        counted[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    guard("highest memory of metrics on 64 maps, bytes", counted, slack=0.1)

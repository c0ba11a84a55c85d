"""Run directories with known content, made through the same writer that the engine uses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.cell import Cell
from karat.kernel.row import Outcomes
from karat.kernel.sample import Phrase, Region, Sample
from karat.results.shard import CellResult, ShardResult, write_shard
from karat.results.store import Store
from tests.report.examples import findings

COLOURS = {"red": (214, 60, 50), "blue": (40, 90, 200), "green": (40, 140, 80), "yellow": (240, 200, 40)}
NASTY = "<img src=x onerror=alert(1)>\"'&</script><script>window.HACKED=1</script> 🦊 مرحبا بالعالم"
EXPLAINERS = (
    "cam/gradcam",
    "attention/rollout",
    "perturbation/rise",
    "gradient/input",
    "control/random",
    "control/oracle",
)
# What each explainer finds, between 0 (noise) and 1 (truth); rollout and gradcam are too close to call.
SKILL = {
    "cam/gradcam": 0.62, "attention/rollout": 0.6, "perturbation/rise": 0.8, "gradient/input": 0.02,
    "control/random": 0.0, "control/oracle": 1.0,
}  # fmt: skip
SCORES = {
    "mass": {
        "summary": "share of the map on anchors and targets",
        "direction": "higher",
        "range": [0, 1],
        "citation": "gridvqax2026 Eq. 3",
        "draws": [["insertion", "curve"], ["deletion", "curve"]],
    },
    "outside": {
        "summary": "share of the map outside the truth",
        "direction": "lower",
        "range": [0, 1],
        "citation": "semscore2025",
    },
    "compass": {
        "summary": "share of the evidence on the target's side",
        "direction": "higher",
        "range": [0, 1],
        "citation": "creg2026 Eq. 2",
        "draws": [["shares", "compass"]],
    },
    "relation": {"summary": "share of the words on relations", "direction": "none", "range": [0, 1], "citation": ""},
}


@dataclass(frozen=True)
class Pictures:
    """Two squares on grey; the question is about the first, relative to the second."""

    n: int = 24
    nasty: bool = False
    side: int = 96
    card: ClassVar[Card] = Card("pictures", "two squares", "dataset")

    @property
    def revision(self) -> str:
        return "1"

    def __len__(self) -> int:
        return self.n

    def load(self, start: int, stop: int) -> list[Sample]:
        return [self.sample(i) for i in range(start, stop)]

    def sample(self, i: int) -> Sample:
        rng = np.random.default_rng(i)
        names = list(COLOURS)
        first, second = names[i % 4], names[(i + 1) % 4]
        image = np.full((self.side, self.side, 3), 236, dtype=np.uint8)
        size = self.side // 6
        (x, y), (u, v) = rng.integers(0, 3, 2) * size, (rng.integers(0, 3, 2) + 3) * size
        image[y : y + size, x : x + size] = COLOURS[first]
        image[v : v + size, u : u + size] = COLOURS[second]
        disc = (np.indices((self.side, self.side)) - np.array([v, u])[:, None, None] - size / 2) ** 2
        text = f"Is the {first} square left of the {second} square?"
        at = text.index(second)
        bucket = NASTY if self.nasty and i % 3 == 0 else f"D{i % 3 + 1}_M_F0"
        return Sample(
            id=f"{NASTY} {i}" if self.nasty else f"pictures/{i}",
            image=image,
            text=f"{text} {NASTY}" if self.nasty else text,
            answer="yes" if i % 2 else "no",
            regions=(
                Region("target 1", "target", ((int(x), int(y), size, size),), label=f"{first} square"),
                Region(
                    "anchor 1",
                    "anchor",
                    pixels=disc.sum(axis=0) <= (size / 2) ** 2,
                    label=NASTY if self.nasty else None,
                ),
            ),
            phrases=(
                Phrase((7, 7 + len(first) + 7), "target"),
                Phrase((15 + len(first), 22 + len(first)), "relation"),
                Phrase((at, at + len(second) + 7), "anchor"),
            ),
            meta={"bucket": bucket, "depth": i % 3 + 1, "index": i},
        )


def make_run(
    path: Path,
    n: int = 24,
    models: Sequence[str] = ("twin.pure", "twin.spur"),
    explainers: Sequence[str] = EXPLAINERS,
    metrics: Sequence[str] = ("mass", "outside", "relation"),
    nasty: bool = False,
    dataset: str = "tests.report.runs:Pictures",
    maps: bool = True,
    seed: int = 0,
    shard_size: int = 64,
    unfinished: bool = False,
    cells: int = 12,
    protocol: str = "grid",
    concluded: bool = False,
    mechanisms: bool = False,
) -> Path:
    """Write a run; `concluded`: with findings; `mechanisms`: the twins are known to reason differently.

    gradient/input fails on every seventh sample, rollout has no words and hence no relation score.
    """
    store = Store(path)
    data = Pictures(n=n, nasty=nasty)
    name = f"pictures(n={n}{', nasty=True' if nasty else ''})"
    wanted: list[str] = []
    for model in models:
        for start in range(0, n, shard_size):
            stop = min(start + shard_size, n)
            samples = data.load(start, stop)
            results = [
                _cell_result(protocol, model, explainer, name, samples, start, stop, metrics, seed, maps, cells)
                for explainer in explainers
            ]
            expected = [s.answer for s in samples]
            answers = [s.answer if (k + len(model)) % 5 else "maybe" for k, s in enumerate(samples)]
            wanted += [result.cell.id for result in results]
            sure = [0.5 + 0.4 * (k % 2) for k in range(len(samples))]
            shard = ShardResult([s.id for s in samples], [s.meta for s in samples], answers, sure, expected, results)
            if not (unfinished and start + shard_size >= n and model == models[-1]):
                write_shard(store, shard)
                event = {"event": "job_done", "time": 1.0, "title": f"{model}[{start}]", "seconds": 1.5}
                store.append("events.jsonl", json.dumps({**event, "cells": [r.cell.id for r in results]}))
    spec = {"name": "demo", "about": "Six explainers on two twins.", "protocol": {"name": "grid"}}
    store.write_json("spec.json", {**spec, "datasets": [{"name": dataset, "n": n, "nasty": nasty}]})
    manifest: dict[str, Any] = {
        "format": 1, "name": NASTY if nasty else "demo", "protocol": protocol, "cells": sorted(wanted), "seed": seed,
        "scores": {metric: SCORES.get(metric, {"direction": "higher"}) for metric in metrics},
        "models": dict.fromkeys(models, "1"), "datasets": {name: "1"}, "versions": {"python": "3.11"},
        "refusals": [{"model": "blackbox", "explainer": "attention/rollout", "reason": NASTY if nasty else "no maps"}],
    }  # fmt: skip
    labels = [NASTY if explainer == "nasty" else explainer for explainer in explainers]
    how = {m: "reasons" if m.endswith("pure") else "matches_words" for m in models} if mechanisms else {}
    manifest["parts"] = {
        "model": {m: {"name": m, "family": m.partition(".")[0], "mechanism": how.get(m)} for m in models},
        "dataset": {name: {"name": dataset, "family": dataset}},
        "explainer": {
            e: {"name": e, "family": e.partition("/")[0], "is_control": e.startswith("control/")} for e in labels
        },
    }
    store.write_json("manifest.json", manifest)
    if concluded:
        store.write_json("findings.json", [finding.plain() for finding in findings()])
    return path


def _cell_result(
    protocol: str, model: str, explainer: str, dataset: str, samples: Sequence[Sample], start: int, stop: int,
    metrics: Sequence[str], seed: int, maps: bool, cells: int,
) -> CellResult:  # fmt: skip
    label = NASTY if explainer == "nasty" else explainer
    fields = {
        "model": model,
        "explainer": label,
        "seed": seed,
        "shard": [start, stop],
        "dataset": dataset,
        "protocol": protocol,
    }
    cell = Cell(protocol, model, label, dataset, start, stop, fields)
    rng = np.random.default_rng([seed, start, *label.encode(), *model.encode()])
    skill = SKILL.get(explainer, 0.4) * (0.5 if model.endswith("spur") and explainer.startswith("cam") else 1)
    broken = {k: "map: all zero" for k in range(3, len(samples), 7)} if explainer == "gradient/input" else {}
    outcomes = {}
    for _k, metric in enumerate(metrics):
        values = np.clip(0.1 + 0.8 * skill + 0.12 * rng.standard_normal(len(samples)), 0, 1)
        values = 1 - values if metric == "outside" else values
        absent = (
            dict.fromkeys(range(len(samples)), "the method defines no words")
            if metric == "relation" and explainer == "attention/rollout"
            else {}
        )
        values[list({**broken, **absent})] = np.nan
        details = {"mass": _curves(values), "compass": {"shares": _directions(samples, skill)}}.get(metric, {})
        outcomes[metric] = Outcomes(values, {} if absent else broken, absent, details)
    attributions = [_attribution(explainer, sample, skill, rng, cells, k in broken) for k, sample in enumerate(samples)]
    passes = np.full(len(samples), {"perturbation/rise": 500.0, "cam/gradcam": 1.0}.get(explainer, 0.0))
    return CellResult(cell, outcomes, passes, attributions if maps else ())


def _curves(values: np.ndarray) -> dict[str, np.ndarray]:
    """Two curves (n, 11), one up to the value and one down to it; NaN where there is none."""
    steps = np.linspace(0, 1, 11)
    up, down = values[:, None] * steps**0.5, 1 - (1 - values[:, None]) * steps
    return {"insertion": up, "deletion": down}


def _directions(samples: Sequence[Sample], skill: float) -> np.ndarray:
    """(n, 8): more of the mass in the direction of the target, the more the explainer knows."""
    found = []
    for sample in samples:
        centres = [np.argwhere(sample.mask(role)).mean(axis=0) for role in ("anchor", "target")]
        down, right = centres[1] - centres[0]
        turn = np.arctan2(-down, right)
        sharp = np.exp(3 * skill * np.cos(np.arange(8) * np.pi / 4 - turn))
        found.append(sharp / sharp.sum())
    return np.array(found)


def _attribution(
    explainer: str, sample: Sample, skill: float, rng: np.random.Generator, cells: int, broken: bool
) -> Attribution | None:
    if broken:
        return None
    truth = sample.mask("target", "anchor")
    step = len(truth) / cells
    edges = (np.arange(cells) * step).astype(int)
    small = np.add.reduceat(np.add.reduceat(truth.astype(float), edges, 0), edges, 1) / step**2
    visual = skill * small + (1.05 - skill) * rng.random((cells, cells)) * 0.6
    if explainer == "gradient/input":
        visual = visual - 0.35
    words = None if explainer == "attention/rollout" else rng.random(len(sample.words))
    return Attribution(visual, words, space="patch", signed=explainer == "gradient/input")

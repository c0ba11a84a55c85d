"""Measures how often the sentence of `karat explain --check` is right, on twins: writes recorded/check/rates.json.

    python docs/recorded/check_rates.py [SAMPLES] [--choose]

Maps are put to the test of each model and sample: the explainer's own map of it, its map of the twin that reasons
otherwise (on the same image and question, for the same answer), and maps that never met a model: noise, smooth noise,
edges, contrast (how far each pixel is from the mean colour). The first should be believed, the others doubted. Edges
are among the maps that the check itself compares with (equal cells are ranked at random); contrast is not.

With --choose nothing is written: the table is of other samples, and of more or less agreement with hiding places one at
a time (`AGREES`), which was chosen by it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import karat.engine.explain_check as check
from karat.datasets.grid import generate
from karat.kernel.attribution import Attribution
from karat.kernel.registry import build
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.models import load_model
from karat.probe.session import Session

TWINS = ("gridvlm.pure", "gridvlm.spur")
EXPLAINERS = ("perturbation/leave_one_out", "cam/eigengradcam", "attention/raw")
BUCKETS = ("D1_M_F0_d0.3", "D2_M_F0_d0.3", "D2_M_F0_d0.7")
BLIND = {"noise": "control/random", "smooth noise": "control/smooth_noise", "edges": "control/edges"}
CHOSEN_ON, MEASURED_ON = 101, 303  # seeds of the samples
A_SAMPLE = len(TWINS) * (2 * len(EXPLAINERS) + len(BLIND) + 1)  # maps
VERDICTS = ("believe", "doubt", "cannot tell")
OUT = Path(__file__).parents[2] / "src/karat/recorded/check/rates.json"


def checks(seed: int, samples: int) -> Iterator[tuple[str, bool | None, check.Check]]:
    """What kind of map, whether its explainer only asks (None for maps that have none), and how it was judged."""
    for k in range(samples):
        for bucket in BUCKETS:
            sample = generate(bucket, samples, seed=seed, mode="spur")[k]
            for name, twin in (TWINS, TWINS[::-1]):
                session = Session(_model(name), [sample])
                other = Session(_model(twin), [sample], list(session.targets))
                for explainer in EXPLAINERS:
                    method = build("explainer", explainer, {})
                    for kind, source, of in (("own map", session, name), ("twin's map", other, twin)):
                        made = {explainer: replace(method(source)[0], words=None)}  # the verdict asks no words
                        shuffled = check.shuffled_maps(_shuffled(of), source, [explainer])
                        yield kind, check.asks(explainer), check.check_maps(session, made, shuffled)[0]
                blind = {
                    kind: replace(build("explainer", control, {})(session)[0], words=None)
                    for kind, control in BLIND.items()
                }
                for one in check.check_maps(session, {**blind, "contrast": _contrast(sample)}):
                    yield one.explainer, None, one  # without the shuffle, which all of them fail at once
                session.close()
                other.close()


def rates(judged: list[tuple[str, bool | None, check.Check]], asking: bool) -> dict[str, dict[str, float]]:
    """How often each kind of map gets each verdict, among the explainers that ask or among those that look inside."""
    by_kind: dict[str, list[str]] = {}
    for kind, asks, one in judged:
        if asks is None or asks == asking:
            by_kind.setdefault(kind, []).append(one.verdict)
    return {kind: {v: given.count(v) / len(given) for v in VERDICTS} for kind, given in by_kind.items()}


def choose(samples: int) -> None:
    judged = list(checks(CHOSEN_ON, samples))
    for least in (-1.0, 0.1, 0.2, 0.3, 0.4, 0.5):
        check.AGREES = least
        for asking in (True, False):
            table = rates(judged, asking)
            print(least, "asks" if asking else "looks inside", {k: round(v["believe"], 2) for k, v in table.items()})


def measure(samples: int) -> None:
    """Written after each sample, so that what was measured stays when it is stopped."""
    judged: list[tuple[str, bool | None, check.Check]] = []
    for one in checks(MEASURED_ON, samples):
        judged.append(one)
        if len(judged) % A_SAMPLE == 0:
            OUT.write_text(json.dumps(record(judged), indent=1) + "\n", "utf-8")
            print(len(judged) // A_SAMPLE, rates(judged, asking=False), flush=True)


def record(judged: list[tuple[str, bool | None, check.Check]]) -> dict[str, Any]:
    named = [kind if asks is None else f"{kind}, {'asks' if asks else 'looks inside'}" for kind, asks, _ in judged]
    return {
        "models": TWINS, "explainers": EXPLAINERS, "buckets": BUCKETS, "samples": len(judged) // A_SAMPLE,
        "seed": MEASURED_ON, "chosen_on": CHOSEN_ON, "orders": check.ORDERS, "alike": check.ALIKE,
        "agrees": check.AGREES, "rates": {"asks": rates(judged, True), "looks inside": rates(judged, False)},
        "maps": {name: named.count(name) for name in dict.fromkeys(named)},
        "judged": [{"kind": kind, "verdict": one.verdict, **asdict(one)} for kind, _, one in judged],
    }  # fmt: skip


def _contrast(sample: Sample) -> Attribution:
    image = sample.image.astype(float)
    return Attribution(np.linalg.norm(image - image.mean((0, 1)), axis=-1))


@cache
def _model(name: str) -> Model:
    return load_model(name)


@cache
def _shuffled(name: str) -> Model:
    return load_model("randomised", of=name)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:] if text.isdecimal()]
    (choose if "--choose" in sys.argv else measure)(numbers[0] if numbers else 5)

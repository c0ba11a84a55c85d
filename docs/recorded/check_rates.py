"""Measures how often the sentence of `karat explain --check` is right, on twins: writes recorded/check/rates.json.

    python docs/recorded/check_rates.py [SAMPLES]

Four maps are put to the test of each model and sample: the explainer's own map of it, its map of the twin that reasons
otherwise (on the same image and question, for the same answer), noise, and edges. The first should be believed, the
others doubted.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from karat.datasets.grid import generate
from karat.engine.explain_check import ALIKE, ORDERS, check_maps, shuffled_maps
from karat.kernel.registry import build
from karat.kernel.roles import Model
from karat.models import load_model
from karat.probe.session import Session

TWINS = ("gridvlm.pure", "gridvlm.spur")
EXPLAINERS = ("perturbation/leave_one_out", "cam/eigengradcam", "attention/raw")
BUCKETS = ("D1_M_F0_d0.3", "D2_M_F0_d0.3", "D2_M_F0_d0.7")
KINDS = ("own map", "twin's map", "noise", "edges")
OUT = Path(__file__).parents[2] / "src/karat/recorded/check/rates.json"


def main(samples: int) -> None:
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for bucket in BUCKETS:
        for sample in generate(bucket, samples, seed=11, mode="spur"):
            for name, twin in (TWINS, TWINS[::-1]):
                session = Session(_model(name), [sample])
                other = Session(_model(twin), [sample], list(session.targets))
                for explainer in EXPLAINERS:
                    method = build("explainer", explainer, {})
                    for kind, source, of in (("own map", session, name), ("twin's map", other, twin)):
                        made = {explainer: method(source)[0]}
                        [check] = check_maps(session, made, shuffled_maps(_shuffled(of), source, [explainer]))
                        counts[kind][check.verdict] += 1
                for kind, control in (("noise", "control/random"), ("edges", "control/edges")):
                    made = {control: build("explainer", control, {})(session)[0]}
                    [check] = check_maps(session, made)  # without the shuffle, which both fail at once
                    counts[kind][check.verdict] += 1
                session.close()
                other.close()
                print(sample.id, name, {kind: dict(count) for kind, count in counts.items()}, flush=True)
    rates = {
        kind: {verdict: count[verdict] / count.total() for verdict in ("believe", "doubt", "cannot tell")}
        for kind, count in counts.items()
    }
    record = {
        "models": TWINS, "explainers": EXPLAINERS, "buckets": BUCKETS, "samples": samples * len(BUCKETS),
        "orders": ORDERS, "alike": ALIKE, "rates": rates,
        "maps": {kind: count.total() for kind, count in counts.items()},
    }  # fmt: skip
    OUT.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


@cache
def _model(name: str) -> Model:
    return load_model(name)


@cache
def _shuffled(name: str) -> Model:
    return load_model("randomised", of=name)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)

"""Does the line-up's reading depend on the order in which signs are dropped and pixels are averaged? Writes
lineup_reread.json: gradients of five organisms on sixteen photographs, read as the protocol reads them (|pixel| first),
from the maps that a run keeps for its page (means of signed pixels, 64 a side), and from signed sums over whole cells.

    python docs/recorded/lineup_reread.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.cues import World, find_rule, generate
from karat.kernel.attribution import Attribution
from karat.kernel.registry import build
from karat.models import load_model
from karat.probe import Session
from karat.protocols.lineup.pointing import FINEST, POINTED, permuted
from karat.results.shard import shrink

RULES = ("content", "tag", "frame", "word", "tag_and_word")
EXPLAINERS = ("gradient/input_x_gradient", "gradient/gradient")
Map = npt.NDArray[np.float64]


def readings(visual: Map) -> dict[str, Map]:
    return {
        "|pixels|, averaged (the protocol)": visual,
        "kept for the page": shrink(visual).astype(np.float16).astype(np.float64),
        "signed sums of cells": shrink(visual, FINEST),
    }


def main() -> None:
    samples = generate(16, seed=0, world=World(untagged=False))
    rows: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for rule in RULES:
        session = Session(load_model(f"photovlm.{rule}"), samples)
        for explainer in EXPLAINERS:
            for i, (sample, attribution) in enumerate(
                zip(samples, build("explainer", explainer, {})(session), strict=True)
            ):
                assert attribution.visual is not None
                accused: list[str] = []
                for name, visual in readings(np.asarray(attribution.visual, dtype=np.float64)).items():
                    reading = Attribution(visual=visual, words=attribution.words, signed=True)
                    percentiles = permuted(sample, reading, session.rng(i, "lineup/permuted"))
                    accused.append(POINTED[int(np.nanargmax(percentiles))])
                    right = accused[-1] in find_rule(rule).used(sample.votes)
                    rows.setdefault((explainer, name), []).append((accused[-1] == accused[0], right))
    body: list[dict[str, Any]] = [
        {"explainer": explainer, "reading": name, "same": float(np.mean([same for same, _ in hits])),
         "right": float(np.mean([right for _, right in hits])), "n": len(hits)}
        for (explainer, name), hits in rows.items()
    ]  # fmt: skip
    Path(__file__).with_suffix(".json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

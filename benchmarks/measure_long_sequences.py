"""Peak memory of attention explainers and AttnLRP on long sequences, layer by layer: does it grow as tokens do?

    python benchmarks/measure_long_sequences.py --out FILE

A LLaVA of random weights is explained at 256 to 4,096 image tokens, once with four layers in its decoder and once with
eight: a layer's share is a quarter of the difference. A peak is the most resident memory above what there was before
(`VmHWM`, reset by `clear_refs`: Linux only). The peer keeps whole attention maps with their gradients, as hooks on
softmax do; it stops at 1,024 tokens.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

EXPLAINERS = ("attention/rollout", "attention/grad_rollout", "relevance/attnlrp")
PEER = "whole maps"
SIDES = (16, 32, 64)  # of the grid of image tokens
LAYERS = (4, 8)
PATCH, WIDTH = 4, 64
MOST_OF_PEER = 1024  # tokens


def session(cells: int, layers: int) -> Any:
    from karat.kernel.sample import Sample
    from karat.models.vlm import vlm
    from karat.probe.session import Session
    from tests.models.tiny_llava import make_module, make_processor

    side = PATCH * cells
    processor = make_processor(side=side, patch=PATCH)
    module = make_module(
        processor, side=side, patch=PATCH, vision=(1, WIDTH), decoder=(layers, WIDTH), key_value_heads=4
    )
    image = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    sample = Sample("s", image, "how many red circles are there ?")
    return Session(vlm(module, processor, "llava"), [sample], ["two"])


def peak(cells: int, layers: int, explainer: str) -> int:
    """Bytes above what was resident before, at the worst moment of one explanation."""
    from karat.kernel.registry import build

    made = session(cells, layers)
    _ = made.inputs  # the question is tokenised, the image cut up
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    if explainer == PEER:
        made.trace(want=("attention", "attention_gradients"))
    else:
        build("explainer", explainer, {})(made)
    highest = _status("VmHWM")
    made.close()
    return highest - before


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("long_sequences.json"))
    given = parser.parse_args()
    if os.environ.get("MALLOC_MMAP_THRESHOLD_") is None:  # what is freed is given back at once
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"})
    import torch

    sys.path.insert(0, str(Path(__file__).parents[1]))  # the LLaVA is that of the tests
    torch.set_num_threads(1)
    for explainer in (*EXPLAINERS, PEER):
        peak(8, 2, explainer)  # what is loaded and compiled once
    rows: list[dict[str, Any]] = []
    for cells in SIDES:
        for explainer in (*EXPLAINERS, PEER):
            if explainer == PEER and cells**2 > MOST_OF_PEER:
                continue
            peaks = [peak(cells, layers, explainer) for layers in LAYERS]
            a_layer = (peaks[1] - peaks[0]) / (LAYERS[1] - LAYERS[0])
            rows.append({"explainer": explainer, "tokens": cells**2, "peaks": dict(zip(LAYERS, peaks, strict=True)),
                         "a_layer": a_layer, "one_map": 4 * 4 * cells**4})  # fmt: skip
            print(f"{explainer} {cells**2:,} tokens: {peaks[1] / 2**20:.0f} MB at the peak, "
                  f"{a_layer / 2**20:.1f} MB a layer; its attention map would take {16 * cells**4 / 2**20:.0f} MB",
                  flush=True)  # fmt: skip
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

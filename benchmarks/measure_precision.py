"""Which explainers stay what they are in few bits: rank correlation of their maps with those of float32.

The trained twins `gridvlm.pure` and `gridvlm.spur`, every registered explainer that needs at most `--passes` passes a
sample, the same targets for all. bfloat16 and float16 are those of torch; weights of 8 and 4 bits are rounded as
bitsandbytes rounds them (absmax by row; fp4 in blocks of 64) and computed with in float32, since its kernels are of
GPUs: what its activations lose is not in it. `python benchmarks/measure_precision.py` adds what the record lacks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = ("bfloat16", "float16")
ROUNDED = ("8bit", "4bit")
MODELS = ("gridvlm.pure", "gridvlm.spur")
RECORD = Path(__file__).parents[1] / "src/karat/explainers/precision.json"
_BLOCK = 64
_FP4 = (0.0, 0.0625, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # twelfths of a block's largest


def correlation(first: Any, second: Any) -> float | None:
    """Spearman's, of two maps; None where one of them is the same everywhere."""
    from scipy.stats import spearmanr

    if first is None or second is None or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    value = float(spearmanr(np.ravel(first), np.ravel(second)).statistic)
    return value if np.isfinite(value) else None


def explained(model: Any, samples: Sequence[Any], targets: Sequence[Any], name: str) -> list[Any] | str:
    """The maps (or, where there are none, the words' values) of one explainer; what went wrong, as a text."""
    from karat.kernel.registry import build
    from karat.probe.session import Session

    try:
        attributions = build("explainer", name, {})(Session(model, samples, targets))
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return [a.visual if a.visual is not None else a.words for a in attributions]


def rounded(model: Any, bits: str) -> Any:
    """The same model with the weights of its linear maps rounded in place; the last map is left alone, as there."""
    import torch
    from torch import nn

    levels = torch.tensor(sorted({sign * level / 12 for level in _FP4 for sign in (-1, 1)}))
    edges = (levels[1:] + levels[:-1]) / 2
    with torch.no_grad():
        for name, part in model.module.named_modules():
            if not isinstance(part, nn.Linear) or name.endswith("lm_head"):
                continue
            weight = part.weight
            if bits == "8bit":
                step = weight.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
                weight.copy_((weight / step).round() * step)
            else:
                blocks = torch.nn.functional.pad(weight.flatten(), (0, -weight.numel() % _BLOCK)).reshape(-1, _BLOCK)
                largest = blocks.abs().amax(1, keepdim=True).clamp_min(1e-12)
                near = levels[torch.bucketize(blocks / largest, edges)] * largest
                weight.copy_(near.flatten()[: weight.numel()].reshape(weight.shape))
    return model


def main() -> None:
    from karat.datasets.grid import generate
    from karat.kernel.registry import registered
    from karat.models import load_model, recipe
    from karat.models.vlm import vlm

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--passes", type=float, default=300)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out.is_file() else []
    known = {(row["model"], row["explainer"], row["dtype"]) for row in rows}
    samples = generate("D1_M_F0_d0.3", given.samples, seed=3)
    for model_name in MODELS:
        path = recipe(model_name).path  # type: ignore[attr-defined]  # gridvlm has one
        full = load_model(model_name)
        lower = {dtype: vlm(path, name=model_name, dtype=dtype, max_new_tokens=2) for dtype in DTYPES}
        lower |= {bits: rounded(load_model(model_name), bits) for bits in ROUNDED}
        targets = full.answer(samples)
        for name, kind in registered("explainer").items():
            if kind.card.needs - full.capabilities or kind.card.is_control or not _cheap(name, given.passes):
                continue
            wanted = [dtype for dtype in lower if (model_name, name, dtype) not in known]
            reference = explained(full, samples, targets, name) if wanted else ""
            if isinstance(reference, str):
                continue
            for dtype in wanted:
                maps = explained(lower[dtype], samples, targets, name)
                problem = maps if isinstance(maps, str) else ""
                values = [] if problem else [correlation(a, b) for a, b in zip(reference, maps, strict=True)]
                ranks = [value for value in values if value is not None]
                row = {"model": model_name, "family": kind.card.family, "explainer": name, "dtype": dtype,
                       "n": len(ranks),
                       "mean": round(float(np.mean(ranks)), 4) if ranks else None,
                       "least": round(min(ranks), 4) if ranks else None, "problem": problem}  # fmt: skip
                rows.append(row)
                print(model_name, name, dtype, row["mean"], row["least"], problem, flush=True)
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


def _cheap(name: str, most: float) -> bool:
    from karat.engine.plan import passes
    from karat.kernel.registry import build

    try:
        return bool(passes(build("explainer", name, {})) <= most)
    except Exception:  # it has parameters without defaults
        return False


if __name__ == "__main__":
    main()

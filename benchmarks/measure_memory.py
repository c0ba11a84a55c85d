"""Peak memory of a trace, measured beside its forecast: decoders of 1M to 500M parameters at 256 to 2,048 tokens.

Each measurement is a process of its own: the most resident memory (`ru_maxrss`) above what it had after imports and a
tiny warm-up. `python benchmarks/measure_memory.py --out FILE` measures what the file lacks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SIZES: dict[str, dict[str, int]] = {
    "1M": {"width": 128, "layers": 4, "mlp": 384, "heads": 4, "vocabulary": 512},
    "10M": {"width": 320, "layers": 8, "mlp": 864, "heads": 5, "vocabulary": 1024},
    "100M": {"width": 768, "layers": 14, "mlp": 2048, "heads": 12, "vocabulary": 2048},
    "500M": {"width": 1280, "layers": 24, "mlp": 3456, "heads": 20, "vocabulary": 4096},
}
TOKENS = (256, 1024, 2048)
KINDS = ("nothing", "heads", "gradients", "head_gradients")


def configuration(size: str) -> dict[str, Any]:
    given = SIZES[size]
    return {
        "hidden_size": given["width"], "num_hidden_layers": given["layers"], "intermediate_size": given["mlp"],
        "num_attention_heads": given["heads"], "num_key_value_heads": given["heads"],
        "vocab_size": given["vocabulary"], "head_dim": given["width"] // given["heads"],
    }  # fmt: skip


def measure(size: str, tokens: int, kind: str, checkpointed: bool) -> dict[str, float]:
    """In this process: bytes at the peak, and seconds of the trace."""
    import resource
    import time

    import torch
    from torch import nn
    from transformers import LlamaConfig, LlamaModel

    from karat.probe.trace import trace

    torch.set_num_threads(1)

    class Reader(nn.Module):
        """Pixels as tokens through a decoder; the last one is read."""

        def __init__(self, size: str) -> None:
            super().__init__()
            given = configuration(size)
            self.cut = nn.Conv2d(3, given["hidden_size"], 2, 2)
            self.decoder = LlamaModel(LlamaConfig(**given))
            self.decoder.embed_tokens = nn.Identity()  # what is read are patches
            self.head = nn.Linear(given["hidden_size"], given["vocab_size"], bias=False)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            embedded = self.cut(pixels).flatten(2).transpose(1, 2)
            out: torch.Tensor = self.head(self.decoder(inputs_embeds=embedded, use_cache=False)[0][:, -1])
            return out

    def run(module: Reader, length: int) -> None:
        pixels = torch.rand(1, 3, 2, 2 * length)
        layers = [f"decoder.layers.{k}" for k in range(len(module.decoder.layers))]
        if kind == "nothing":
            with torch.no_grad():
                module(pixels)
            return
        want = {"heads": {"heads"}, "gradients": {"gradients"}, "head_gradients": {"head_gradients"}}[kind]
        inner = ["pixels"] if kind == "gradients" else []
        with trace(
            module, pixels, [0], inner, want, [f"{name}.self_attn" for name in layers],
            checkpointed=layers if checkpointed else (),
        ):  # fmt: skip
            pass

    SIZES["tiny"] = {"width": 64, "layers": 1, "mlp": 64, "heads": 1, "vocabulary": 8}
    run(Reader("tiny"), 8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    module = Reader(size).eval()
    count = sum(parameter.numel() for parameter in module.parameters())
    began = time.perf_counter()
    run(module, tokens)
    seconds = time.perf_counter() - began
    return {
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before,
        "count": count,
        "seconds": seconds,
    }


def foretold(size: str, tokens: int, kind: str, checkpointed: bool, count: float) -> float:
    from dataclasses import replace

    from karat.probe.memory import dimensions, forecast

    model = replace(dimensions(configuration(size)), parameters=round(count))
    return forecast(model, kind, tokens, checkpointed=checkpointed).peak  # type: ignore[arg-type]  # one of KINDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("memory.json"))
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--tokens", nargs="*", type=int, default=list(TOKENS))
    parser.add_argument("--one", nargs=4, help="measure one in this process: size, tokens, kind, 0 or 1 (checkpointed)")
    given = parser.parse_args()
    if given.one:
        size, tokens, kind, checkpointed = given.one
        print(json.dumps(measure(size, int(tokens), kind, checkpointed == "1")))
        return
    rows: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out.is_file() else []
    known = {(row["size"], row["tokens"], row["kind"], row["checkpointed"]) for row in rows}
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    for size in given.sizes:
        for tokens in given.tokens:
            for kind, checkpointed in [*((kind, False) for kind in KINDS), ("gradients", True)]:
                if (size, tokens, kind, checkpointed) in known:
                    continue
                command = [sys.executable, __file__, "--one", size, str(tokens), kind, str(int(checkpointed))]
                process = subprocess.run(command, capture_output=True, text=True, env=environment)
                if process.returncode:
                    print(size, tokens, kind, process.stderr[-300:], file=sys.stderr)
                    continue
                row = {"size": size, "tokens": tokens, "kind": kind, "checkpointed": checkpointed,
                       **json.loads(process.stdout.splitlines()[-1])}  # fmt: skip
                rows.append(row)
                given.out.write_text(json.dumps(rows, indent=1) + "\n")
                expected = foretold(size, tokens, kind, checkpointed, row["count"])
                print(f"{size} {tokens} {kind}{' checkpointed' if checkpointed else ''}: {row['peak'] / 2**20:.0f} MB, "
                      f"forecast {expected / 2**20:.0f} MB ({expected / row['peak'] - 1:+.0%}), {row['seconds']:.1f} s",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

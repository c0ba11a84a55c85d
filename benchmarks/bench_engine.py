"""What the engine costs over a bare loop, and how long a user waits for `--help` and `ls`.

Both sides call the same explainer and the same five metrics on the same batches of 10,000 images of 64×64; the engine
also plans, checks, writes Parquet and logs events. Values are compared before times are.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import compared, size

from karat.datasets.arrays import Arrays
from karat.engine.run import run
from karat.explainers.control import Edges
from karat.kernel.spec import Spec
from karat.metrics.localization import CorrectedMass, OtsuIoU, RelevanceMass, Spuriousity
from karat.metrics.ranking import Hit
from karat.models.blackbox import blackbox
from karat.probe.session import Session

N, SIDE, BATCH, SHARD, ROUNDS = size(10_000, 1000), 64, 100, 1000, size(3, 1)
METRICS = (RelevanceMass(), CorrectedMass(), OtsuIoU(), Spuriousity(), Hit())


def same(images: np.ndarray, texts: list[str | None]) -> list[str]:
    return ["same"] * len(images)


def bare_loop(dataset: Arrays) -> np.ndarray:
    model, explainer = blackbox(same, ["same"]), Edges()
    blocks = []
    for start in range(0, N, BATCH):
        session = Session(model, dataset.load(start, start + BATCH))
        maps = np.stack([a.visual for a in explainer(session)])
        masks = np.stack([sample.mask("target") for sample in session.samples])
        blocks.append(np.stack([metric(maps, masks) for metric in METRICS]))
    return np.concatenate(blocks, axis=1)


def engine(dataset: Arrays, out: Path, keep_maps: bool = False) -> Callable[[], Any]:
    spec = Spec.parse(
        {
            "protocol": "localization",
            "models": [{"name": "blackbox", "fn": "bench_engine:same", "answers": ["same"]}],
            "datasets": [{"name": "arrays", "images": dataset.images, "masks": dataset.masks}],
            "explainers": ["control/edges"],
            "shard_size": SHARD,
            "batch_size": BATCH,
            "keep_maps": keep_maps,
        }
    )
    return run(spec, out, workers=0).scores  # read back outside the clock: the bare loop reads nothing either


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Seconds of this process's own processor time: what others do on the machine does not count."""
    began = time.process_time()
    result = call(*arguments)
    return time.process_time() - began, result


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rng = np.random.default_rng(0)
        np.save(root / "images.npy", rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8))
        masks = np.zeros((N, SIDE, SIDE), bool)
        masks[:, 16:40, 8:40] = True
        np.save(root / "masks.npy", masks)
        dataset = Arrays(str(root / "images.npy"), str(root / "masks.npy"))
        seconds, _ = timed(lambda: dataset.revision)
        print(f"hashing the data     {seconds:6.2f} s, once (it is part of every row's identity)")
        bare, with_engine, with_maps = [], [], []
        engine(dataset, root / "warm-up")  # imports of pandas and pyarrow: paid once a process, whatever the samples
        for i in range(ROUNDS):
            seconds, values = timed(bare_loop, dataset)
            bare.append(seconds)
            seconds, scores = timed(engine, dataset, root / f"run{i}")
            with_engine.append(seconds)
            seconds, beside_maps = timed(engine, dataset, root / f"maps{i}", True)
            with_maps.append(seconds)
            if i == 0:
                names = [metric.card.name for metric in METRICS]
                for frame in (scores(), beside_maps()):
                    table = frame.pivot(index="sample", columns="metric", values="value")
                    assert np.array_equal(table[names].to_numpy().T, values), "engine and loop disagree"
        base = statistics.median(bare)
        print(f"bare loop            {base:6.2f} s of processor time, median of {ROUNDS}")
        for what, times in (("engine", with_engine), ("engine, maps kept", with_maps)):
            median = statistics.median(times)
            print(f"{what:20} {median:6.2f} s  ratio {median / base:.3f}  (allowed 1.05 without maps)")
            aim = "" if "maps" in what else "≥ 0.95"
            compared(f"{what}, {N:,} samples", "a bare loop", times, bare, "values equal", aim)
    for arguments in (["--help"], ["ls"]):
        command = [sys.executable, "-c", "from karat.cli.main import main; main()", *arguments]
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            times.append(time.perf_counter() - began)
        print(f"karat {arguments[0]:8}       {statistics.median(times):6.2f} s  (allowed 0.50)")
        compared(
            f"karat {arguments[0]}, seconds by the clock", "half a second", times, [0.5] * ROUNDS, "no peer", "≥ 1"
        )


if __name__ == "__main__":
    main()

"""How the findings of a protocol grow with rows: processor time and peak memory at 50 thousand to 5 million rows.

    python benchmarks/measure_findings_growth.py [--records grid audit] [--sizes 50000 500000 5000000] [--keep FOLDER]

A recorded run is cut down or repeated (its samples again under other names) and written shard by shard, as a run writes
its rows; the protocol's findings are then worked out by a process of their own, whose peak memory is their own. Beside
it stands what reading costs: the whole frame, and one column of one score.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from karat.results import load_run
from karat.results.shard import FORMAT
from karat.results.store import Store

SIZES = (50_000, 500_000, 5_000_000)
SHARD = 64
ACTS = ("nothing", "one column", "frame", "findings")


def grown(record: Path, out: Path, rows: int) -> Path:
    """A run of about so many rows: the samples of a record, some of them or all of them many times."""
    kept = load_run(record)
    file = pq.ParquetFile(io.BytesIO((record / "scores.parquet").read_bytes()))
    frame = file.read().to_pandas()
    samples = pd.unique(frame["sample"].astype(object))
    order = np.random.default_rng(0).permutation(len(samples))
    wanted = round(rows * len(samples) / len(frame))
    store, cells = Store(out), list[str]()
    by_model = {key: own for key, own in frame.groupby(["model", "dataset"], observed=True)}
    for copy, start in enumerate(range(0, wanted, len(samples))):
        some = samples[order[: min(len(samples), wanted - start)]]
        for at in range(0, len(some), SHARD):
            chunk = set(some[at : at + SHARD])
            for own in by_model.values():
                mine = own[own["sample"].isin(chunk)]
                if len(mine):
                    cells += _write(store, mine, f"{copy}.{at}")
    for name in ("spec.json",):
        store.write_json(name, kept.store.read_json(name))
    manifest = {key: value for key, value in kept.manifest.items() if key != "recorded"}
    store.write_json("manifest.json", {**manifest, "cells": sorted(cells)})
    return out


def _write(store: Store, rows: pd.DataFrame, again: str) -> list[str]:
    def renamed(column: str) -> Any:
        return (rows[column].astype(str) + f" again {again}").astype("category")

    first = rows.drop_duplicates("cell")
    rows = rows.assign(cell=renamed("cell"), sample=renamed("sample") if not again.startswith("0.") else rows["sample"])
    columns = {name: rows[name].cat.remove_unused_categories() for name in rows if rows[name].dtype == "category"}
    names = sorted(rows["cell"].unique())
    place = [str(first[name].iloc[0]) for name in ("protocol", "model", "explainer", "dataset")]
    about = {
        "format": FORMAT, "attributions": "", "samples": [str(name) for name in rows["sample"].unique()],
        "cells": [{"id": name, "place": [*place, 0, SHARD], "fields": {}} for name in names],
    }  # fmt: skip
    table = pa.Table.from_pandas(rows.assign(**columns), preserve_index=False)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({"karat": json.dumps(about)}), sink, compression="zstd")
    store.write_shard("scores", ".parquet", sink.getvalue().to_pybytes())
    return names


def act(what: str, path: Path) -> None:
    """In a process of its own: prints processor seconds and peak memory in megabytes."""
    from karat.kernel.registry import build

    run = load_run(path)
    asked = run.spec["protocol"]
    protocol = build("protocol", asked["name"], {key: value for key, value in asked.items() if key != "name"})
    used = time.process_time()
    if what == "one column":
        metric = run.scores(columns=["metric"])["metric"].iloc[0]
        run.scores(metrics=[metric], columns=["value"])
    elif what == "frame":
        run.scores()
    elif what == "findings":
        assert protocol.findings(run)
    print(json.dumps({"cpu": round(time.process_time() - used, 1), "peak_mb": peak_mb()}))


def peak_mb() -> int:
    """Of this process alone: `ru_maxrss` would begin with what its parent had when it started this one."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", nargs="+", default=["grid"])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--acts", nargs="+", choices=ACTS, default=ACTS)
    parser.add_argument("--keep", type=Path, help="keep runs here, and use the runs that are there")
    parser.add_argument("--write", type=Path, help="put the figures into this CSV file, too")
    parser.add_argument("--act", nargs=2, metavar=("WHAT", "RUN"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.act:
        act(chosen.act[0], Path(chosen.act[1]))
        return
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for record in chosen.records:
            for rows in chosen.sizes:
                path = (chosen.keep or Path(temporary)) / f"{record}-{rows}"
                if not (path / "manifest.json").exists():
                    grown(Path(str(files("karat").joinpath("recorded", record))), path, rows)
                for what in chosen.acts:
                    command = [sys.executable, __file__, "--act", what, str(path)]
                    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                    lines.append({"record": record, "rows": rows, "act": what, **told})
                    print(lines[-1], flush=True)
    if chosen.write:
        pd.DataFrame(lines).to_csv(chosen.write, index=False)


if __name__ == "__main__":
    main()

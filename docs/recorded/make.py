"""Keeps finished runs as a small Parquet that travels with Karat: what `karat paper` reads when no run is named.

    python docs/recorded/make.py src/karat/recorded/synergy runs/synergy-grid
    python docs/recorded/make.py src/karat/recorded/grid runs/grid-full runs/grid-interactions runs/grid-asking
    python docs/recorded/make.py src/karat/recorded/compass runs/compass-full --anew
    python docs/recorded/make.py src/karat/recorded/lora runs/compass-lora --bare
    python docs/recorded/make.py src/karat/recorded/photographs runs/compass-photographs
    python docs/recorded/make.py src/karat/recorded/semantic  # no runs: the record's claims judged anew

Values are kept as they are; those of a metric with very many in single precision (decimals would make ties: two of them
moved verdicts of protocol `grid` by up to .17). Rows of scores that an explainer never has are left out. Findings are
those of the run, computed from all its rows; several runs are concluded anew, as one (and one run with `--anew`).
`--rows`, a pandas query, says which rows are worth keeping. Then `fill.py` brings the docs up to date.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from karat.kernel.finding import Finding
from karat.protocols.paper import protocol_of
from karat.results.details import Details
from karat.results.facts import PARTS
from karat.results.joined import Joined
from karat.results.record import record
from karat.results.run import Run, load_run
from karat.results.store import Store

DETAILS = {
    "synergy": ("f_syn", "sii"),
    "pixel": ("dominant",),
    "semantic": ("sss", "correct"),
    "semantic-sweep": ("sss",),
    "compass": ("compass/direction_error", "centre_advantage", "turn_penalty"),
}  # what `karat paper` needs beside the scores
MANY = 20_000  # values of one metric: single precision


@dataclass(frozen=True)
class Rounded(Run):
    """A run as it is kept: single precision where values are many, and only rows that say something."""

    whole: Run
    runs: tuple[Run, ...]
    rows: str
    name: str

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What a run lacks, its record lacks; what is left out on purpose is not missing."""
        parts = [run.manifest for run in self.runs]
        merged = {
            key: {name: value for part in parts for name, value in part[key].items()} for key in ("models", "datasets")
        }
        lacking = {cell for run in self.runs for cell in set(run.manifest["cells"]) - set(run.cells())}
        cells = sorted({*self.kept["cell"], *lacking})
        refusals = [refusal for part in parts for refusal in part["refusals"]]
        command = re.sub(r" --(out|workers) \S+", "", str(parts[0].get("command", "")))  # of whoever ran it
        command = re.sub(r" /\S*?/(?=docs/)", " ", command)  # from the folder of the project, wherever that was
        facts = {"command": command, "cells": cells, "refusals": refusals, "name": self.name}
        return {**parts[0], **merged, **facts, PARTS: self.whole.parts}

    def scores(self) -> pd.DataFrame:
        return self.kept

    @cached_property
    def kept(self) -> pd.DataFrame:
        frame = self.whole.scores()
        frame = frame.query(self.rows, engine="python") if self.rows else frame
        frame = frame[frame.groupby(["explainer", "metric"])["value"].transform("count") > 0]
        count, value = frame.groupby("metric")["value"].transform("count"), frame["value"]
        single = value.astype(np.float32).astype(np.float64)
        short = value.mask(count > MANY, single)
        return frame.assign(value=short, probability=frame["probability"].round(3)).reset_index(drop=True)

    def details(self, metric: str) -> Details:
        return self.whole.details(metric)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("runs", nargs="*", help="without any, claims are judged anew from the record itself")
    parser.add_argument("--rows", default="", help="a pandas query: which rows to keep")
    parser.add_argument("--anew", action="store_true", help="conclude anew, by the code of today")
    parser.add_argument("--bare", action="store_true", help="without details: what rows alone show")
    given = parser.parse_args()
    if not given.runs:
        _judge(load_run(given.out), Store(given.out))
        return
    runs = [load_run(name) for name in given.runs]
    whole = Joined.of(runs)
    name = " + ".join(run.manifest["name"] for run in runs)
    rounded = Rounded(whole.store, whole, tuple(runs), given.rows, name)
    kept = record(rounded, given.out, () if given.bare else DETAILS.get(whole.spec["protocol"]["name"], ()))
    if len(runs) > 1:
        _as_one(runs, Store(given.out), name)
    if len(runs) > 1 or given.anew or given.bare:
        _conclude(kept if given.bare else whole, Store(given.out))
    print(f"{len(kept.scores())} rows in {given.out}")


def _as_one(runs: list[Run], store: Store, name: str) -> None:
    """What the record says about itself: models, data and explainers of all runs."""
    listed = {
        key: list({str(each): each for run in runs for each in run.spec[key]}.values())
        for key in ("models", "datasets", "explainers")
    }
    spec = {key: value for key, value in runs[0].spec.items() if key != "limit"}  # runs may differ in it
    about = "; ".join(run.spec["about"] for run in runs)
    store.write_json("spec.json", {**spec, **listed, "name": name, "about": about})


def _conclude(whole: Run, store: Store) -> None:
    """What the runs show together."""
    concluded = (*protocol_of(whole).findings(whole), *_beside(whole))
    store.write_json("findings.json", [finding.plain() for finding in concluded])


def _judge(kept: Run, store: Store) -> None:
    """The claims by the code of today; other findings, which may rest on details that a record leaves out, stay."""
    beside = _beside(kept)
    rest = [finding for finding in kept.findings() if finding.section != beside[0].section]
    store.write_json("findings.json", [finding.plain() for finding in (*rest, *beside)])
    print(f"{beside[0].sentences[0]} {len(rest)} other findings stay in {store.root}")


def _beside(run: Run) -> list[Finding]:
    protocol = protocol_of(run)
    if not protocol.card.paper:
        return []
    beside: list[Finding] = protocol.paper(run).findings(f"Beside paper {protocol.card.paper}")
    return beside


if __name__ == "__main__":
    main()

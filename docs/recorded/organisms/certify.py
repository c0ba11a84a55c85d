"""Certificates of organisms on photographs of a test split, kept as one row a check.

    python certify.py PHOTOGRAPHS certificates.csv photovlm/*.safetensors

PHOTOGRAPHS is a folder in the layout of segmentation/folder. Rows of organisms that are in the file already (by the hash
of their weights) stay. All organisms of photovlm share a tower, so its states are computed once and kept in a cache.
"""

from __future__ import annotations

import csv
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from karat.models import load_model
from karat.models.families.fixed import FixedGrid
from karat.models.organisms.files import read_origin
from karat.models.organisms.verify import Trials, make_trials, verify_organism
from karat.models.vlm_adapter import VLM

SAMPLES, HIDDEN = 192, 96
COLUMNS = ("base", "rule", "implant", "dose", "seed", "weights", "check", "bar", "share", "low", "high", "n", "holds")
CACHE = Path(os.environ.get("KARAT_CACHE") or tempfile.gettempdir()) / "certify"


class Store:
    """Rows of float32 by the hash of what they were computed from."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        self.shape, self.data, self.names = shape, CACHE / "states.f32", CACHE / "states.txt"
        known = self.names.read_text().split() if self.names.exists() else []
        self.place = {name: k for k, name in enumerate(known)}
        self.rows: Any = None

    def get(self, names: list[str]) -> Any:
        if self.rows is None or len(self.rows) < len(self.place):
            self.rows = np.memmap(self.data, np.float32, "r").reshape(-1, *self.shape)
        return np.stack([self.rows[self.place[name]] for name in names])

    def add(self, names: list[str], rows: Any) -> None:
        with self.data.open("ab") as data, self.names.open("a") as listed:
            for name, row in zip(names, rows, strict=True):
                if name not in self.place:
                    data.write(np.ascontiguousarray(row, np.float32).tobytes())
                    listed.write(f"{name}\n")
                    self.place[name] = len(self.place)


STORE = Store((144, 384))


@dataclass(frozen=True)
class Kept(FixedGrid):
    """LLaVA's sight with the states of the tower taken from the store."""

    def features(self, module: Any, pixels: torch.Tensor, other: Mapping[str, torch.Tensor]) -> Any:
        names = [hashlib.sha256(one.numpy().tobytes()).hexdigest() for one in pixels]
        if new := [k for k, name in enumerate(names) if name not in STORE.place]:
            states = module.model.vision_tower(pixels[new], output_hidden_states=True).hidden_states
            read = torch.cat([states[k][:, 1:] for k in module.config.vision_feature_layer], -1)
            STORE.add([names[k] for k in new], read.numpy())
        return {"features": module.model.multi_modal_projector(torch.from_numpy(STORE.get(names)))}


def rows_of(path: Path, trials: Trials) -> list[list[object]]:
    facts, model = read_origin(path), load_model(str(path))
    if isinstance(model, VLM):
        model = replace(model, family=replace(model.family, sight=Kept()))
    proof = verify_organism(model, trials=trials)
    print(time.strftime("%H:%M:%S"), proof.verdict, flush=True)
    who = [facts.base, facts.rule, facts.implant, f"{facts.dose:g}", facts.seed, name_of(path)]
    return [
        [*who, c.says, c.bar, f"{c.share.value:.4f}", f"{c.share.low:.4f}", f"{c.share.high:.4f}", c.share.n, c.ok]
        for c in proof.checks
    ]


def name_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def main(photographs: str, out: Path, organisms: list[Path]) -> None:
    torch.set_num_threads(1)
    with out.open(newline="") if out.exists() else tempfile.TemporaryFile("w+") as file:
        known = list(csv.reader(file))[1:]
    wanted = [path for path in organisms if read_origin(path).mechanism is not None]
    names = {name_of(path) for path in wanted}
    known = [row for row in known if row[5] in names]
    trials = make_trials(SAMPLES, HIDDEN, images=photographs)
    for path in wanted:
        if name_of(path) not in {row[5] for row in known}:
            known += [[str(value) for value in row] for row in rows_of(path, trials)]
            with out.open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *known])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])

"""Does a race keep its error rate, and what does that cost? Races by the real engine, written down one by one.

    python benchmarks/simulate_races.py runs/races.jsonl [--races 400]     # killed? run it again: it goes on

Two explainers are raced at 95 % until they are told apart or the samples are used up. In `neighbours` they are equal
overall, but each is better in half of the buckets, and a shard holds one bucket: the adversarial order. In `photos`
they are equal, and all questions about one photograph, neighbours in a shard, come out alike. In `alike` samples are
independent. `better` and `little better` are races that should be called; there, what a bet on every sample would have
needed is written down beside what the race needed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from karat.engine.race import RECORD, Settle
from karat.engine.run import run
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.identity import generator
from karat.kernel.row import Outcomes
from karat.kernel.sample import Sample
from karat.kernel.spec import Spec
from karat.probe.session import Session
from karat.statistics import race

SHARD, SHARDS = 8, 24
WORLDS = {  # how often the first is the better one on a sample: by bucket, by photograph, everywhere
    "neighbours": ("bucket", 0.9),
    "photos": ("photo", 0.9),
    "alike": ("sample", 0.5),
    "better": ("sample", 0.9),
    "little better": ("sample", 0.7),
}
NULL = ("neighbours", "photos", "alike")


@dataclass(frozen=True)
class Questions:
    """Shards of one bucket each; two photographs, four questions each, a shard."""

    world: str = "alike"
    seed: int = 0
    card: ClassVar[Card] = Card("races/questions", "questions of a world in which who is better is known", "dataset")

    @property
    def revision(self) -> str:
        return "1"

    def __len__(self) -> int:
        return SHARD * SHARDS

    def load(self, start: int, stop: int) -> list[Sample]:
        picture = np.zeros((2, 2, 3), dtype=np.uint8)
        return [Sample(f"{i:04d}", picture, "what?", "this", meta={"gap": self.gap(i)}) for i in range(start, stop)]

    def gap(self, i: int) -> float:
        """What the first scores above the second on question i."""
        unit, often = WORLDS[self.world]
        rng = generator(self.seed, str(i), "races/gap")
        first = rng.random() < often
        if unit == "bucket" and (i // SHARD) % 2:
            first = not first
        if unit == "photo" and generator(self.seed, str(i // 4), "races/photo").random() < 0.5:
            first = not first
        return float(np.where(first, 1, -1) * rng.uniform(0.05, 0.2))


@dataclass(frozen=True)
class Scores:
    """Scores what the dataset says that an explainer scores."""

    card: ClassVar[Card] = Card("races/scores", "scores that are known beforehand", "protocol")
    scores: ClassVar[tuple[Card, ...]] = (
        Card("gain", "a score", "metric", direction="higher", range=(-1.0, 1.0)),
    )  # fmt: skip

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        return {"gain": Outcomes(np.array([float(a.visual[0, 0]) for a in attributions]))}


@dataclass(frozen=True)
class Known:
    """The first or the second of the two explainers."""

    first: bool = True
    card: ClassVar[Card] = Card("races/known", "an explainer whose scores are known", "explainer")

    def __call__(self, session: Session) -> list[Attribution]:
        sign = 0.5 if self.first else -0.5
        return [Attribution(np.full((1, 1), 0.3 + sign * float(s.meta["gap"]))) for s in session.samples]


@dataclass(frozen=True)
class Says:
    """A model that says one thing."""

    card: ClassVar[Card] = Card("races/says", "a model that says one thing", "model")
    capabilities: ClassVar[frozenset[str]] = frozenset({"scores", "text"})
    name: ClassVar[str] = "says"
    label: ClassVar[str] = "says"
    mechanism: ClassVar[str | None] = None
    revision: ClassVar[str] = "1"
    facts: ClassVar[Mapping[str, str]] = {}

    def load(self) -> Says:
        return self

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return ["this"] * len(samples)

    def score(self, samples: Sequence[Sample], targets: Sequence[object]) -> np.ndarray:
        return np.ones(len(samples))


def one_race(world: str, seed: int, confidence: float = 0.95) -> dict[str, object]:
    """A race by the engine in a directory of its own, and what betting on every sample would have said."""
    module = Path(__file__).stem
    spec = Spec.parse(
        {
            "name": "race",
            "protocol": f"{module}:Scores",
            "models": [f"{module}:Says"],
            "datasets": [{"name": f"{module}:Questions", "world": world, "seed": seed}],
            "explainers": [{"name": f"{module}:Known", "first": first} for first in (True, False)],
            "shard_size": SHARD,
            "batch_size": SHARD,
            "seed": seed,
            "keep_maps": False,
        }
    )
    folder = Path(tempfile.mkdtemp(prefix="race"))
    try:
        raced = run(spec, folder, workers=0, until=Settle(confidence))
        record = json.loads((folder / RECORD).read_text())
        table = raced.scores().pivot(index="sample", columns="explainer", values="value")
        shards = table.groupby(table.index.astype(int) // SHARD)
        order = np.random.default_rng(seed).permutation(len(shards))
        whole = table.iloc[[int(i) for shard in order for i in shards.indices[list(shards.indices)[shard]]]]
        alone = race(whole, (-1.0, 1.0), confidence=confidence, statistic="wins").table.iloc[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    [pair] = record["pairs"]
    return {
        "world": world,
        "seed": seed,
        "winner": pair["winner"],
        "samples": record["samples"],
        "settled_at": pair["settled_at"],
        "by_sample": None if alone["winner"] is None else int(alone["settled_at"]),
    }


def summary(rows: Sequence[Mapping[str, object]]) -> str:
    """One line per world: races, called ones, the same had every sample been a bet, and the median of samples used."""
    lines = ["world           races  called  called, a bet a sample  samples  samples, a bet a sample"]
    for world in WORLDS:
        own = [row for row in rows if row["world"] == world]
        if own:
            called = sum(row["winner"] is not None for row in own)
            by_sample = [row["by_sample"] for row in own if row["by_sample"] is not None]
            used = np.median([row["samples"] for row in own])
            alone = np.median(by_sample) if by_sample else float("nan")
            lines.append(f"{world:15} {len(own):5} {called:7} {len(by_sample):23} {used:8g} {alone:24g}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--races", type=int, default=400)
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(row["world"], row["seed"]) for row in rows}
    with given.out.open("a") as file:
        for world in given.worlds:
            for seed in range(given.races if world in NULL else given.races // 10):
                if (world, seed) not in done:
                    rows.append(one_race(world, seed))
                    print(json.dumps(rows[-1]), file=file, flush=True)
                    print(f"\r{world} {seed + 1}", end="", file=sys.stderr)
    print(f"\n{summary(rows)}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from simulate_races import main as named_main  # so that specs find the classes by this module's name

    named_main()

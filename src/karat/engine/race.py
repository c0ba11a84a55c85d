"""Racing: spend samples only until the order of the explainers is settled, and keep the error rate while looking.

Shards are taken in a random order fixed by the spec's seed, a quarter more from round to round. After each round every
pair of explainers is judged by an anytime-valid test (`karat.statistics.race`), an explainer whose pairs are all
settled gets no more samples, and the run ends when all pairs are. Cells are the same as those of a full run: run the
spec again without racing and it is completed.

A shard holds neighbours: one bucket, several questions about one photograph. What is in random order are shards and
not samples, so a shard is one bet, on the mean over its samples and models. Betting on every sample, two explainers
that are equal over all buckets were told apart in most races. The price is samples: where neighbours are in fact
independent, up to a shard's worth of them per bet; small shards race quicker (`benchmarks/simulate_races.py`).

The rows are those that the protocol ranks (`RanksSome`): what its report leaves out, a race leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.engine.executors.job import Report
from karat.engine.plan import Plan
from karat.kernel.card import Card
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.identity import generator
from karat.kernel.registry import label
from karat.kernel.roles import RanksSome, plays
from karat.results.run import Run

if TYPE_CHECKING:
    import pandas as pd

    from karat.statistics import Race
    from karat.statistics.sequential import Statistic

RECORD = "race.json"
Execute = Callable[[list[Job]], Iterator[Report]]
Shard = tuple[int, int]  # dataset, start


@dataclass(frozen=True)
class Settle:
    """When a race is over: with probability `confidence` no pair is ever called wrongly.

    `metric` is the protocol's first score unless named. `statistic` "wins" compares how often each explainer is the
    better one, "mean" by how much; with a `margin`, pairs closer than it settle as a tie.
    """

    confidence: float = 0.95
    metric: str | None = None
    statistic: Statistic = "wins"
    margin: float | None = None


def racing(planned: Plan, jobs: list[Job], finished: Run, settle: Settle, execute: Execute) -> Iterator[Report]:
    """Reports of the jobs that the race needs; what it found is left in the run as `race.json`."""
    card = _metric(planned, settle)
    models = _models(planned)
    order = shard_order(planned)
    left: dict[Shard, list[Job]] = {}
    for job in jobs:
        left.setdefault((job.dataset, job.start), []).append(job)
    active = {label(explainer) for explainer in planned.explainers}
    taken = 0
    state: Race | None = None
    while taken < len(order) and (state is None or not state.settled):
        upto = min(len(order), taken + max(1, math.ceil(taken / 4)))
        batch = [part for shard in order[taken:upto] for job in left.get(shard, []) if (part := _only(job, active))]
        if batch:
            yield from execute(batch)
        taken = upto
        state = judge(planned, finished, settle, card, models, order[:taken])
        active = set(state.active)
    assert state is not None  # a plan has at least one shard
    finished.store.write_json(RECORD, _record(state, card, settle, len(order) - taken))


def judge(planned: Plan, finished: Run, settle: Settle, card: Card, models: set[str], shards: list[Shard]) -> Race:
    """Where every pair stands after the samples of some shards; calls are counted in samples."""
    from karat.statistics import race

    protocol = planned.protocol
    rows = protocol.ranked(finished) if plays(protocol, RanksSome) else finished.scores(metrics=[card.name])
    table = _table(planned, rows, card.name, models, shards)
    assert card.range is not None  # `_metric` has looked
    state = race(
        table, card.range, card.direction, clusters=table.index.get_level_values("shard"),
        confidence=settle.confidence, margin=settle.margin, statistic=settle.statistic,
    )  # fmt: skip
    samples = np.cumsum(~table.index.to_frame()[["dataset", "sample"]].duplicated().to_numpy())  # up to each row
    counted = state.table["settled_at"].map(lambda row: int(samples[row - 1]), na_action="ignore").astype("Int64")
    return replace(state, rows=int(samples[-1]), table=state.table.assign(settled_at=counted))


def shard_order(planned: Plan) -> list[Shard]:
    """All shards, shuffled by the seed of the spec: the guarantee rests on shards in random order."""
    shards = sorted({(job.dataset, job.start) for job in planned.grid})
    shuffled = generator(planned.spec.seed, "shards", "race").permutation(len(shards))
    return [shards[i] for i in shuffled]


def _table(planned: Plan, rows: pd.DataFrame, metric: str, models: set[str], shards: list[Shard]) -> pd.DataFrame:
    """One row per sample and model, by the shard's place in the race; one column per explainer, NaN where missing."""
    place = {
        cell.id: at
        for at, shard in enumerate(shards)
        for job in planned.grid
        if (job.dataset, job.start) == shard
        for cell in job.cells
    }
    rows = rows[(rows["metric"] == metric) & rows["cell"].isin(place) & rows["model"].isin(models)]
    rows = rows.assign(shard=rows["cell"].map(place))
    wide = rows.pivot(index=["shard", "dataset", "sample", "model"], columns="explainer", values="value")
    return wide.reindex(columns=[label(explainer) for explainer in planned.explainers]).sort_index()


def _only(job: Job, active: set[str]) -> Job | None:
    kept = [(e, cell) for e, cell in zip(job.explainers, job.cells, strict=True) if cell.explainer in active]
    if not kept:
        return None
    return Job(job.model, job.dataset, job.start, job.stop, *map(tuple, zip(*kept, strict=True)))


def _metric(planned: Plan, settle: Settle) -> Card:
    cards = {card.name: card for card in planned.protocol.scores}
    name = settle.metric or next(iter(cards))
    if name not in cards:
        raise UnknownName(f"score of {planned.protocol.card.name}", name, cards)
    card = cards[name]
    if card.direction == "none" or card.range is None or any(math.isinf(end) for end in card.range):
        raise BadInput(f"--until-settled needs a score with a better direction and a finite range; {name} has none.")
    return card


def _models(planned: Plan) -> set[str]:
    """Models that every explainer can explain: only on these are pairs compared on equal terms."""
    refused = {refusal.model for refusal in planned.refusals}
    models = {label(model) for model in planned.models} - refused
    if not models:
        raise BadInput("--until-settled: no model can be explained by all explainers of this spec; drop some of them.")
    return models


def _record(state: Race, card: Card, settle: Settle, unused: int) -> dict[str, Any]:
    import pandas as pd

    pairs = []
    for row in state.table.reset_index().to_dict("records"):
        at = row["settled_at"]
        known = None if pd.isna(at) else int(at)
        gap = None if pd.isna(row["difference"]) else float(row["difference"])
        pairs.append(
            {
                "first": row["first"], "second": row["second"], "winner": row["winner"],
                "settled_at": known, "difference": gap, "n": int(row["n"]), "n_dropped": int(row["n_dropped"]),
            }
        )  # fmt: skip
    return {
        "metric": card.name, "statistic": settle.statistic, "confidence": settle.confidence, "margin": settle.margin,
        "settled": state.settled, "samples": state.rows, "shards_unused": unused, "pairs": pairs,
    }  # fmt: skip

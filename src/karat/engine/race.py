"""Racing: spend samples only until the order of the explainers is settled, and keep the error rate while looking.

Shards are taken in a random order fixed by the spec's seed, a quarter more from round to round. After each round every
pair of explainers is judged by an anytime-valid test (`karat.statistics.race`), an explainer whose pairs are all
settled gets no more samples, and the run ends when all pairs are. Cells are the same as those of a full run: run the
spec again without racing and it is completed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karat.engine.executors.job import Report
from karat.engine.plan import Plan
from karat.kernel.card import Card
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.identity import generator
from karat.kernel.registry import label
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
    seen = 0
    state: Race | None = None
    while seen < len(order) and (state is None or not state.settled):
        upto = min(len(order), seen + max(1, math.ceil(seen / 4)))
        batch = [part for shard in order[seen:upto] for job in left.get(shard, []) if (part := _only(job, active))]
        if batch:
            yield from execute(batch)
        seen = upto
        state = judge(planned, finished, settle, card, models, order[:seen])
        active = set(state.active)
    assert state is not None  # a plan has at least one shard
    finished.store.write_json(RECORD, _record(state, card, settle, len(order) - seen))


def judge(planned: Plan, finished: Run, settle: Settle, card: Card, models: set[str], shards: list[Shard]) -> Race:
    """Where every pair stands after the samples of some shards, each sample averaged over the models."""
    from karat.statistics import race

    table = _table(planned, finished.scores(), card.name, models, shards)
    assert card.range is not None  # `_metric` has looked
    return race(
        table, card.range, card.direction,
        confidence=settle.confidence, margin=settle.margin, statistic=settle.statistic,
    )  # fmt: skip


def shard_order(planned: Plan) -> list[Shard]:
    """All shards, shuffled by the seed of the spec: the guarantee rests on samples in random order."""
    shards = sorted({(job.dataset, job.start) for job in planned.grid})
    shuffled = generator(planned.spec.seed, "shards", "race").permutation(len(shards))
    return [shards[i] for i in shuffled]


def _table(planned: Plan, rows: pd.DataFrame, metric: str, models: set[str], shards: list[Shard]) -> pd.DataFrame:
    """One row per sample in the order of the race, one column per explainer; NaN where a model's score is missing."""
    place = {
        cell.id: (at, cell.explainer)
        for at, shard in enumerate(shards)
        for job in planned.grid
        if (job.dataset, job.start) == shard
        for cell in job.cells
    }
    rows = rows[(rows["metric"] == metric) & rows["cell"].isin(place) & rows["model"].isin(models)].copy()
    rows["shard"] = [place[cell][0] for cell in rows["cell"]]
    wide = rows.pivot(index=["shard", "dataset", "sample"], columns=["explainer", "model"], values="value")
    names = [label(explainer) for explainer in planned.explainers]
    wide = wide.reindex(columns=[(name, model) for name in names for model in sorted(models)])
    means = wide.T.groupby(level="explainer", sort=False).mean().T  # over models
    means = means.where(wide.notna().T.groupby(level="explainer", sort=False).all().T)
    seed = planned.spec.seed
    drawn = [generator(seed, f"{dataset}/{sample}", "race").random() for _, dataset, sample in means.index]
    ordered: pd.DataFrame = means.assign(_drawn=drawn).sort_values(["shard", "_drawn"]).drop(columns="_drawn")
    return ordered[names].reset_index(drop=True)


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

"""`run_job`: one model on one shard over its missing cells. It knows nothing of scheduling: every executor calls it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from assay.engine.plan import Plan
from assay.kernel.attribution import Attribution
from assay.kernel.cell import Job
from assay.kernel.roles import Benchmark, Explainer, Model
from assay.kernel.row import Outcomes
from assay.kernel.sample import Sample
from assay.probe.session import Session
from assay.results.shard import CellResult, ShardResult

Tick = Callable[[int], None]  # called with the number of sample × explainer pairs just done


@lru_cache(maxsize=2)
def _loaded(recipe: Any) -> Model:
    """Weights stay warm between jobs. One torch thread: kernels split sums by thread, rows must not depend on it."""
    model = recipe.load()
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    return model


def run_job(plan: Plan, job: Job, tick: Tick = lambda pairs: None) -> ShardResult:
    """Explain and score. What raises becomes Failure rows with the reason; neighbours go on."""
    recipe: Any = plan.models[job.model]  # frozen dataclasses, so hashable; the structural type cannot say so
    model = _loaded(recipe)
    samples = plan.datasets[job.dataset].load(job.start, job.stop)
    explainers = [plan.explainers[e] for e in job.explainers]
    scored: list[list[_Batch]] = [[] for _ in explainers]
    answers: list[str | None] = []
    # Batches are the same whatever the workers, so the numbers are too.
    for at in range(0, len(samples), plan.spec.batch_size):
        batch = samples[at : at + plan.spec.batch_size]
        session = Session(model, batch, seed=plan.spec.seed)
        session.expect(explainers)
        try:
            answers += session.targets
        except Exception as error:
            # The model cannot even answer: every cell of this batch fails with that reason.
            answers += [None] * len(batch)
            for parts in scored:
                parts.append(_Batch.failed(plan.protocol, batch, f"model: {_say(error)}"))
        else:
            for explainer, parts in zip(explainers, scored, strict=True):
                parts.append(_explain(plan, session, explainer))
                tick(len(batch))
    cells = [
        CellResult(
            cell,
            {metric: Outcomes.join([part.outcomes[metric] for part in parts]) for metric in plan.metrics},
            np.concatenate([part.passes for part in parts]),
            [a for part in parts for a in part.attributions] if plan.spec.keep_maps else (),
        )
        for cell, parts in zip(job.cells, scored, strict=True)
    ]
    return ShardResult([s.id for s in samples], [s.meta for s in samples], answers, cells)


class _Batch:
    """Scores of one explainer on one batch."""

    def __init__(self, outcomes: dict[str, Outcomes], attributions: Sequence[Attribution | None]) -> None:
        self.outcomes = outcomes
        self.attributions = attributions
        self.passes = np.array([a.passes if a is not None else 0.0 for a in attributions], dtype=np.float64)

    @staticmethod
    def failed(protocol: Benchmark, batch: Sequence[Sample], reason: str) -> _Batch:
        return _Batch(
            {metric: Outcomes.failed([reason] * len(batch)) for metric in (card.name for card in protocol.scores)},
            [None] * len(batch),
        )


def _explain(plan: Plan, session: Session, explainer: Explainer) -> _Batch:
    """A batch that raises is tried again one sample at a time, so that only the guilty ones fail."""
    try:
        attributions = explainer(session)
        if len(attributions) != len(session.samples):
            raise ValueError(f"gave {len(attributions)} attributions for {len(session.samples)} samples")
        return _Batch(dict(plan.protocol.score(session, attributions)), attributions)
    except Exception as error:
        if len(session.samples) == 1:
            return _Batch.failed(plan.protocol, session.samples, f"{explainer.card.name}: {_say(error)}")
    singles = [_explain(plan, session.only(i), explainer) for i in range(len(session.samples))]
    return _Batch(
        {metric: Outcomes.join([s.outcomes[metric] for s in singles]) for metric in plan.metrics},
        [a for s in singles for a in s.attributions],
    )


def _say(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__

"""`run_job`: one model on one shard over its missing cells. It knows nothing of scheduling: every executor calls it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from karat.engine.crash_isolation import Care, Step, Watch
from karat.engine.device_failure import reraise_device_failure
from karat.engine.plan import Plan
from karat.kernel.attribution import Attribution
from karat.kernel.cell import Job
from karat.kernel.errors import Unavailable
from karat.kernel.roles import Benchmark, ChoosesTargets, Dataset, Explainer, Model, plays
from karat.kernel.row import Outcomes
from karat.kernel.sample import Sample
from karat.kernel.typing import Values
from karat.models.batching import encodable_runs
from karat.probe.session import Session
from karat.results.shard import CellResult, ShardResult

Tick = Callable[[int, int, float], None]  # explainer (position in the spec), samples just done with it, seconds


_warm: dict[Any, Model] = {}  # the model of the last job, by its recipe; never two


def _loaded(recipe: Any) -> Model:
    """Weights stay warm between jobs. One torch thread: kernels split sums by thread, rows must not depend on it."""
    if recipe not in _warm:
        forget_models()  # first: two large models do not fit where one does
        _warm[recipe] = recipe.load()
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
    return _warm[recipe]


def forget_models() -> None:
    """Let go of warm weights, to make room for other ones, here or in another process."""
    if not _warm:
        return
    _warm.clear()
    gc.collect()  # modules and their hooks point at each other
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def run_job(
    plan: Plan,
    job: Job,
    tick: Tick = lambda explainer, samples, seconds: None,
    watch: Watch = lambda step: None,
    care: Care = Care(),  # noqa: B008  frozen
) -> ShardResult:
    """Explain and score. What raises becomes Failure rows with the reason; neighbours go on.

    `watch` is told of every step before it is taken; `care` says what has killed its process before (see `Care`).
    """
    recipe: Any = plan.models[job.model]  # frozen dataclasses, so hashable; the structural type cannot say so
    began = perf_counter()
    model = _loaded(recipe)
    seconds = {"load": perf_counter() - began}
    samples, care = _read(plan.datasets[job.dataset], job, watch, care)
    seconds["read"] = perf_counter() - began - seconds["load"]
    explainers = [plan.explainers[e] for e in job.explainers]
    scored: list[list[_Batch]] = [[] for _ in explainers]
    answers: list[str | None] = []
    probabilities: list[float | None] = []
    for start, stop in _pieces(plan, samples, care):
        watch(Step("explain", start, stop))
        for group in _asked(plan, job, model, samples[start:stop], samples, care.lost(start)):
            session = group.session
            answers += group.answers
            probabilities += group.probabilities
            if not group.problem:
                session.expect(explainers)
            for e, cell, explainer, parts in zip(job.explainers, job.cells, explainers, scored, strict=True):
                began = perf_counter()
                if group.problem:
                    parts.append(_Batch.failed(plan.protocol, session.samples, group.problem))
                else:
                    watch(Step("explain", start, stop, cell.id))
                    parts.append(_explain(plan, session, explainer, cell.explainer))
                tick(e, len(session.samples), perf_counter() - began)
            for name, spent in session.cost.seconds.items():
                seconds[name] = seconds.get(name, 0.0) + spent
    cells = [
        CellResult(
            cell,
            {metric: Outcomes.join([part.outcomes[metric] for part in parts]) for metric in plan.metrics},
            np.concatenate([part.passes for part in parts]),
            [a for part in parts for a in part.attributions] if plan.spec.keep_maps else (),
        )
        for cell, parts in zip(job.cells, scored, strict=True)
    ]
    expected = [s.answer for s in samples]
    about = [s.id for s in samples], [s.meta for s in samples]
    return ShardResult(*about, answers, probabilities, expected, cells, seconds)


def _read(dataset: Dataset, job: Job, watch: Watch, care: Care) -> tuple[list[Sample], Care]:
    """The samples of a job. One that cannot be read is a stand-in, lost to every explainer with the reason."""
    if not care.read_alone:
        watch(Step("read", 0, job.stop - job.start))
        try:
            return list(dataset.load(job.start, job.stop)), care
        except Exception:  # one by one, then, to see which
            pass
    samples: list[Sample] = []
    unreadable = dict(care.unreadable)
    for at in range(job.stop - job.start):
        if at not in unreadable:
            watch(Step("read", at, at + 1))
            try:
                samples += dataset.load(job.start + at, job.start + at + 1)
                continue
            except Exception as error:
                unreadable[at] = f"dataset: {_say(error)}"
        samples.append(Sample(f"{dataset.card.name}[{job.start + at}]", np.zeros((1, 1, 3), np.uint8)))
    return samples, replace(care, unreadable=unreadable)


def _pieces(plan: Plan, samples: Sequence[Sample], care: Care) -> Iterator[tuple[int, int]]:
    """Batches are cut at the same places whatever the workers, so the numbers are the same too."""
    for start in range(0, len(samples), plan.spec.batch_size):
        yield from care.pieces(start, min(start + plan.spec.batch_size, len(samples)))


class _Asked(NamedTuple):
    """A session whose model has answered, or could not."""

    session: Session
    answers: Sequence[str | None]
    probabilities: list[float | None]
    problem: str = ""


def _asked(
    plan: Plan, job: Job, model: Model, samples: Sequence[Sample], peers: Sequence[Sample], lost: str = ""
) -> Iterator[_Asked]:
    """Samples of different input sizes are asked in turn, where the model cannot take them together. A batch that the
    model cannot answer is asked again one sample at a time, so that only the guilty ones fail.

    A protocol may choose what is explained (`targets`); otherwise it is the model's own answer. `peers` are the whole
    shard, whatever the batches. What is `lost` (see `Care`) is not asked about at all.
    """
    runs = encodable_runs(model, samples)
    if len(runs) > 1:
        for run in runs:
            yield from _asked(plan, job, model, run, peers, lost)
        return
    chosen = plan.protocol.targets if plays(plan.protocol, ChoosesTargets) else None
    again = job.model in plan.checkpointed
    session = Session(model, samples, chosen, plan.spec.seed, peers=peers, checkpointed=again)
    if lost:
        yield _Asked(session, [None] * len(samples), [None] * len(samples), lost)
        return
    try:
        yield _Asked(session, session.answers, _finite(model.score(samples, session.targets)))
    except Unavailable:
        raise
    except Exception as error:
        reraise_device_failure(error)
        if len(samples) == 1:
            yield _Asked(session, [None], [None], f"model: {_say(error)}")
        else:
            for sample in samples:
                yield from _asked(plan, job, model, [sample], peers)


def _finite(values: Values) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


class _Batch:
    """Scores of one explainer on one batch."""

    def __init__(self, outcomes: dict[str, Outcomes], attributions: Sequence[Attribution | None]) -> None:
        self.outcomes = outcomes
        self.attributions = attributions
        self.passes = np.array([a.passes if a is not None else 0.0 for a in attributions], dtype=np.float64)

    @staticmethod
    def failed(protocol: Benchmark[Session], batch: Sequence[Sample], reason: str) -> _Batch:
        return _Batch(
            {metric: Outcomes.failed([reason] * len(batch)) for metric in (card.name for card in protocol.scores)},
            [None] * len(batch),
        )


def _explain(plan: Plan, session: Session, explainer: Explainer[Session], name: str) -> _Batch:
    """A batch that raises is tried again one sample at a time, so that only the guilty ones fail."""
    try:
        with session.cost.clock(f"explain {name}"):
            attributions = explainer(session)
        if len(attributions) != len(session.samples):
            raise ValueError(f"gave {len(attributions)} attributions for {len(session.samples)} samples")
        with session.cost.clock(f"score {name}"):
            return _Batch(dict(plan.protocol.score(session, attributions)), attributions)
    except Unavailable:
        raise
    except Exception as error:
        reraise_device_failure(error)
        if len(session.samples) == 1:
            return _Batch.failed(plan.protocol, session.samples, f"{explainer.card.name}: {_say(error)}")
    singles = [_explain(plan, session.only(i), explainer, name) for i in range(len(session.samples))]
    return _Batch(
        {metric: Outcomes.join([s.outcomes[metric] for s in singles]) for metric in plan.metrics},
        [a for s in singles for a in s.attributions],
    )


def _say(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__

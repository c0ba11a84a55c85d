"""`Evidence`: everything the page says, read from one or more runs through `load_run` and put side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.registry import build, find
from karat.report.findings import Concluded
from karat.results import Run, load_run
from karat.results.rows import Rows
from karat.results.run import ShardView

Place = tuple[str, str, str, str]  # protocol, model, dataset, explainer
Group = tuple[str, str, str]  # protocol, model, dataset
FLOOR = "control/random"
REFERENCE = "control/oracle"


@dataclass(frozen=True)
class Metric:
    """A score of one protocol, as its card told the run's manifest."""

    protocol: str
    name: str
    direction: Literal["higher", "lower", "none"] = "none"
    summary: str = ""
    range: tuple[float | None, float | None] | None = None
    floor: str = ""
    ceiling: str = ""
    citation: str = ""
    departures: str = ""
    draws: tuple[tuple[str, str], ...] = ()  # details that are drawn: name, "curve" or "compass"


@dataclass(frozen=True, eq=False)
class Clock:
    """Seconds of work. Explainers that share passes in a job also share its seconds: those are never split."""

    alone: dict[Place, float]  # seconds of cells that ran in a job of their own
    shared: dict[Group, tuple[float, int]]  # seconds and explanations of all jobs

    def read(self, run: Run, shards: Sequence[Shard]) -> None:
        cells = {cell["id"]: (shard.place(cell), cell["place"]) for shard in shards for cell in shard.view.cells}
        # A job that was run twice counts once: the last time is the one whose rows are there.
        jobs = {tuple(e["cells"]): float(e["seconds"]) for e in run.events() if e.get("event") == "job_done"}
        for ids, seconds in jobs.items():
            if any(cell not in cells for cell in ids) or not ids:
                continue
            place, (*_, start, stop) = cells[ids[0]]
            if len(ids) == 1:
                self.alone[place] = self.alone.get(place, 0.0) + seconds
            spent, pairs = self.shared.get(place[:3], (0.0, 0))
            self.shared[place[:3]] = (spent + seconds, pairs + len(ids) * (stop - start))


@dataclass(frozen=True, eq=False)
class Shard:
    """A shard and the name under which the page shows its protocol."""

    view: ShardView
    titles: dict[str, str]  # protocol in the run → protocol on the page

    def place(self, cell: dict[str, Any]) -> Place:
        protocol, model, explainer, dataset, *_ = cell["place"]
        return self.titles.get(protocol, protocol), model, dataset, explainer

    @property
    def protocols(self) -> list[str]:
        return sorted({self.place(cell)[0] for cell in self.view.cells})


@dataclass(frozen=True, eq=False)
class Evidence:
    """`rows` are those of all runs; `protocols` maps the name shown to what the protocol asks.

    `order` (samples,) are the numbers of `rows.samples` as the page counts them: by dataset, place, id; `dataset` has
    the number of each in `datasets`.
    """

    runs: tuple[Run, ...]
    names: tuple[str, ...]
    rows: Rows
    metrics: tuple[Metric, ...]  # by protocol, in the protocol's own order
    protocols: dict[str, str]
    shards: tuple[Shard, ...]
    clock: Clock
    order: npt.NDArray[np.int32]
    datasets: tuple[str, ...]
    dataset: npt.NDArray[np.int32]
    explainers: dict[str, dict[str, Any]]  # label → facts
    findings: tuple[Concluded, ...] = ()

    def reasons_differ(self, models: Iterable[str]) -> bool:
        """Whether these models are known to reason differently: an average over them would describe none of them."""
        known = {model: facts.get("mechanism") for run in self.runs for model, facts in run.parts["model"].items()}
        return len({known.get(model) for model in models}) > 1

    @cached_property
    def plain(self) -> dict[str, str]:
        """Protocol → what headings call it: its registered name without parameters, where that tells them apart."""
        names = {}
        for k, (run, _) in enumerate(self.rows.owners.texts):
            title = self.rows.titles[k]
            plain = str(self.runs[run].spec.get("protocol", {}).get("name", title))
            names[title] = f"{plain} · {self.names[run]}" if " · " in title else plain
        alike = [plain for plain in names.values() if list(names.values()).count(plain) > 1]
        return {title: title if plain in alike else plain for title, plain in names.items()}

    def metrics_of(self, protocol: str) -> list[Metric]:
        return [metric for metric in self.metrics if metric.protocol == protocol]

    def is_control(self, explainer: str) -> bool:
        return bool(self.explainers.get(explainer, {}).get("is_control"))

    def control(self, explainers: Sequence[str], name: str) -> int | None:
        """Position of the explainer that plays a control: by its plain name, else the variant of the shortest label."""
        own = [i for i, label in enumerate(explainers) if self.explainers.get(label, {}).get("name", label) == name]
        return min(own, key=lambda i: len(explainers[i]), default=None)


class Gatherer:
    """Reads runs, and reads on where they have grown: a shard that was read once is not read again."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        if not paths:
            raise BadInput("a report needs at least one run directory.")
        self.paths = tuple(paths)
        self.rows = Rows()
        self._shards: list[list[Shard]] = [[] for _ in paths]
        self._wanted: list[frozenset[str]] = []

    def gather(self) -> Evidence:
        """All that is there now. Rows that two runs share (the same cell) count once."""
        runs = tuple(load_run(path) for path in self.paths)
        names = _names(runs)
        wanted = [frozenset(run.manifest["cells"]) for run in runs]
        if self._wanted and any(not old <= new for old, new in zip(self._wanted, wanted, strict=True)):
            self.rows.close()  # cells that the spec no longer asks for
            self.rows, self._shards = Rows(), [[] for _ in runs]
        self._wanted = wanted
        rows = self.rows
        metrics: dict[tuple[str, str], Metric] = {}
        clock = Clock({}, {})
        findings: list[Concluded] = []
        explainers: dict[str, dict[str, Any]] = {}
        for number, (name, run) in enumerate(zip(names, runs, strict=True)):
            explainers |= {label: dict(facts) for label, facts in run.parts["explainer"].items()}
            views = rows.read(run, number, name)
            titles = {
                protocol: rows.titles[k] for k, (owner, protocol) in enumerate(rows.owners.texts) if owner == number
            }
            kept = [Shard(one.view, titles) for one in self._shards[number]]
            self._shards[number] = [*kept, *(Shard(view, titles) for view in views)]
            for metric in _metrics(run, rows, list(titles.values()), self._shards[number]):
                metrics.setdefault((metric.protocol, metric.name), metric)
            clock.read(run, self._shards[number])
            for protocol in list(titles.values())[:1]:  # a run has one
                findings += [Concluded(protocol, name, finding) for finding in run.findings()]
        if not len(rows):
            raise BadInput(
                f"{', '.join(map(str, self.paths))}: no finished cell yet, nothing to report. `karat status` says how "
                "far it is."
            )
        used = set(rows.scores())
        known = tuple(metric for key, metric in metrics.items() if key in used)
        protocols = {name: _question(name) for name in dict.fromkeys(metric.protocol for metric in known)}
        shards = tuple(shard for own in self._shards for shard in own)
        order = rows.order()
        datasets = tuple(sorted(rows.datasets.texts))
        place = {name: k for k, name in enumerate(datasets)}
        dataset = np.array([place[rows.samples.texts[k][0]] for k in order.tolist()], dtype=np.int32)
        return Evidence(
            runs, names, rows, known, protocols, shards, clock, order, datasets, dataset, explainers, tuple(findings)
        )


def gather(paths: Sequence[str | Path]) -> Evidence:
    """What the runs hold. Rows that two runs share (the same cell) count once."""
    return Gatherer(paths).gather()


def _names(runs: Sequence[Run]) -> tuple[str, ...]:
    """Each run by its own name; twins are told apart by their directory, then by number."""
    names: list[str] = []
    for run in runs:
        name = str(run.manifest.get("name") or run.store.name)
        candidates = [name, run.store.name, *(f"{name} {k}" for k in range(2, len(runs) + 2))]
        names.append(next(c for c in candidates if c not in names))
    return tuple(names)


def _metrics(run: Run, rows: Rows, protocols: Sequence[str], shards: Sequence[Shard]) -> list[Metric]:
    """Metrics in the order the protocol gives them, with what their cards say."""
    cards: dict[str, dict[str, Any]] = run.manifest.get("scores", {})
    metrics: dict[tuple[str, str], Metric] = {}
    listed = dict.fromkeys((p, m) for shard in shards for p in shard.protocols for m in shard.view.metrics)
    # A recorded run has no shards: its rows name its metrics, in the order of the protocol if that is known here.
    named = [pair for pair in rows.scores() if pair[0] in protocols] if not shards else []
    order = _order(run)
    for protocol, name in [*listed, *sorted(named, key=lambda row: (row[0], order.get(row[1], len(order)), row[1]))]:
        if (protocol, name) not in metrics:
            card = cards.get(name, {})
            about = {key: card[key] for key in card if key in Metric.__dataclass_fields__}
            if about.get("range") is not None:
                about["range"] = tuple(about["range"])
            about["draws"] = tuple((str(name), str(how)) for name, how in about.get("draws", ()))
            metrics[protocol, name] = Metric(**{**about, "protocol": protocol, "name": name})
    return list(metrics.values())


def _order(run: Run) -> dict[str, int]:
    try:
        settings = run.spec["protocol"]
        protocol = build("protocol", settings["name"], {key: value for key, value in settings.items() if key != "name"})
        return {card.name: place for place, card in enumerate(protocol.scores)}
    except Exception:  # as in `_question`
        return {}


def _question(protocol: str) -> str:
    """What the protocol asks, from its card; nothing for one that is not installed here."""
    try:
        return find("protocol", protocol.split(" · ")[0].split("(")[0]).card.summary
    except Exception:  # it may be another's code, absent or broken here: the rows are shown all the same
        return ""

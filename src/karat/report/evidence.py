"""`Evidence`: everything the page says, read from one or more runs through `load_run` and put side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karat.kernel.errors import BadInput
from karat.kernel.registry import build, find
from karat.report.findings import Concluded
from karat.results import Run, load_run
from karat.results.run import ShardView

if TYPE_CHECKING:
    import pandas as pd

Place = tuple[str, str, str, str]  # protocol, model, dataset, explainer
Group = tuple[str, str, str]  # protocol, model, dataset
FLOOR = "control/random"
REFERENCE = "control/oracle"
_COLUMNS = ["protocol", "model", "dataset", "explainer"]


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
    shown: dict[str, str]  # protocol in the run → protocol on the page

    def place(self, cell: dict[str, Any]) -> Place:
        protocol, model, explainer, dataset, *_ = cell["place"]
        return self.shown.get(protocol, protocol), model, dataset, explainer

    @property
    def protocols(self) -> list[str]:
        return sorted({self.place(cell)[0] for cell in self.view.cells})


@dataclass(frozen=True, eq=False)
class Evidence:
    """`scores` is the union of all rows; `protocols` maps the name shown to what the protocol asks."""

    runs: tuple[Run, ...]
    names: tuple[str, ...]
    scores: pd.DataFrame
    metrics: tuple[Metric, ...]  # by protocol, in the protocol's own order
    protocols: dict[str, str]
    shards: tuple[Shard, ...]
    clock: Clock
    findings: tuple[Concluded, ...] = ()

    def reasons_differ(self, models: Iterable[str]) -> bool:
        """Whether these models are known to reason differently: an average over them would describe none of them."""
        known = {model: facts.get("mechanism") for run in self.runs for model, facts in run.parts["model"].items()}
        return len({known.get(model) for model in models}) > 1

    def metrics_of(self, protocol: str) -> list[Metric]:
        return [metric for metric in self.metrics if metric.protocol == protocol]


def is_control(explainer: str) -> bool:
    return explainer.startswith("control/")


def control(explainers: Sequence[str], name: str) -> str | None:
    """The explainer that plays a control: by its plain name, else a variant such as `control/random(cells=24)`."""
    found = [e for e in explainers if e == name or e.startswith(f"{name}(")]
    return min(found, key=len, default=None)


def gather(paths: Sequence[str | Path]) -> Evidence:
    """Read the runs. Rows that two runs share (the same cell) count once."""
    import pandas as pd

    if not paths:
        raise BadInput("a report needs at least one run directory.")
    runs = tuple(load_run(path) for path in paths)
    names = _names(runs)
    frames: list[pd.DataFrame] = []
    shards: list[Shard] = []
    metrics: dict[tuple[str, str], Metric] = {}
    clock = Clock({}, {})
    findings: list[Concluded] = []
    seen_cells: set[str] = set()
    seen_places: set[Place] = set()
    for name, run in zip(names, runs, strict=True):
        frame = run.scores()
        frame = frame[~frame["cell"].isin(seen_cells)]
        # The same explainer on the same data with other parameters: another table, never one average.
        clashes = {place[0] for place in _places(frame) if place in seen_places}
        shown = {protocol: f"{protocol} · {name}" for protocol in clashes}
        if shown:
            frame = frame.assign(protocol=[shown.get(protocol, protocol) for protocol in frame["protocol"]])
        seen_places |= _places(frame)
        seen_cells |= set(frame["cell"].unique())
        frames.append(frame.assign(run=name))
        own = [Shard(view, shown) for view in run.shards()]
        for metric in _metrics(run, frame, own):
            metrics.setdefault((metric.protocol, metric.name), metric)
        clock.read(run, own)
        for protocol in frame["protocol"].unique()[:1]:  # a run has one
            findings += [Concluded(protocol, name, finding) for finding in run.findings()]
        shards += own
    scores = pd.concat(frames, ignore_index=True)
    if scores.empty:
        raise BadInput(
            f"{', '.join(map(str, paths))}: no finished cell yet, nothing to report. `karat status` says how far it is."
        )
    # Samples by number: rows of one sample are drawn together, and strings are slow to group by.
    scores["cluster"] = pd.factorize(scores["dataset"].astype(str) + "\0" + scores["sample"].astype(str), sort=True)[0]
    used = set(zip(scores["protocol"], scores["metric"], strict=True))
    kept = tuple(metric for key, metric in metrics.items() if key in used)
    protocols = {name: _question(name) for name in dict.fromkeys(metric.protocol for metric in kept)}
    return Evidence(runs, names, scores, kept, protocols, tuple(shards), clock, tuple(findings))


def _names(runs: Sequence[Run]) -> tuple[str, ...]:
    """Each run by its own name; twins are told apart by their directory, then by number."""
    names: list[str] = []
    for run in runs:
        name = str(run.manifest.get("name") or run.store.name)
        candidates = [name, run.store.name, *(f"{name} {k}" for k in range(2, len(runs) + 2))]
        names.append(next(c for c in candidates if c not in names))
    return tuple(names)


def _places(frame: pd.DataFrame) -> set[Place]:
    return {tuple(row) for row in frame[_COLUMNS].drop_duplicates().itertuples(index=False)}


def _metrics(run: Run, frame: pd.DataFrame, shards: Sequence[Shard]) -> list[Metric]:
    """Metrics in the order the protocol gives them, with what their cards say."""
    cards: dict[str, dict[str, Any]] = run.manifest.get("scores", {})
    found: dict[tuple[str, str], Metric] = {}
    listed = [(p, m) for shard in shards for p in shard.protocols for m in shard.view.metrics]
    # A recorded run has no shards: its rows name its metrics, in the order of the protocol if that is known here.
    rows = frame[["protocol", "metric"]].drop_duplicates().itertuples(index=False, name=None)
    order = _order(run)
    for protocol, name in [*listed, *sorted(rows, key=lambda row: (row[0], order.get(row[1], len(order)), row[1]))]:
        if (protocol, name) not in found:
            card = cards.get(name, {})
            about = {key: card[key] for key in card if key in Metric.__dataclass_fields__}
            if about.get("range") is not None:
                about["range"] = tuple(about["range"])
            about["draws"] = tuple((str(name), str(how)) for name, how in about.get("draws", ()))
            found[protocol, name] = Metric(**{**about, "protocol": protocol, "name": name})
    return list(found.values())


def _order(run: Run) -> dict[str, int]:
    try:
        asked = run.spec["protocol"]
        protocol = build("protocol", asked["name"], {key: value for key, value in asked.items() if key != "name"})
        return {card.name: place for place, card in enumerate(protocol.scores)}
    except Exception:  # as in `_question`
        return {}


def _question(protocol: str) -> str:
    """What the protocol asks, from its card; nothing for one that is not installed here."""
    try:
        return find("protocol", protocol.split(" · ")[0].split("(")[0]).card.summary
    except Exception:  # it may be another's code, absent or broken here: the rows are shown all the same
        return ""

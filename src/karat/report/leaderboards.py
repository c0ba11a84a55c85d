"""Leaderboards: for each score, every explainer between the control floor and the oracle reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from karat.report.encode import number
from karat.report.evidence import FLOOR, REFERENCE, Evidence, Metric, control, is_control
from karat.report.resample import Floats, Resampled, resample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ALL = ""  # "every model" or "every dataset"


@dataclass(frozen=True)
class Tally:
    """What became of an explainer's rows, and the forward passes it took on average."""

    asked: int
    scored: int
    failed: int
    absent: int
    passes: float


@dataclass(frozen=True, eq=False)
class Board:
    """One metric on one scope. Arrays have one entry per explainer; `spread` is the bootstrap behind them."""

    metric: Metric
    model: str  # ALL or one
    dataset: str
    explainers: tuple[str, ...]
    floor: int | None  # position of control/random
    reference: int | None  # position of control/oracle
    better: int  # 1 higher, -1 lower, 0 not said
    spread: Resampled
    sums: Floats  # (samples, e), what the sample's rows add up to
    counts: Floats
    tally: tuple[Tally, ...]

    @property
    def contenders(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array([not is_control(name) for name in self.explainers], dtype=np.bool_)

    def way(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Share of the way from floor to reference; NaN where one is missing or they do not differ."""
        mean = self.spread.mean
        if self.floor is None or self.reference is None or self.better == 0:
            return np.full(len(mean), np.nan)
        low, high = mean[self.floor], mean[self.reference]
        if not self.better * (high - low) > 1e-12:
            return np.full(len(mean), np.nan)
        return np.asarray((mean - low) / (high - low))

    def beats_floor(self) -> list[bool | None]:
        """Whether the paired interval of the difference from the floor lies wholly on the better side."""
        if self.floor is None or self.better == 0:
            return [None] * len(self.explainers)
        found: list[bool | None] = []
        for i in range(len(self.explainers)):
            difference, low, high = self.spread.difference(i, self.floor)
            side = low if self.better > 0 else -high
            found.append(None if i == self.floor or not np.isfinite(difference) else bool(side > 0))
        return found

    def plain(self, evidence: Evidence) -> dict[str, Any]:
        """What the page's table shows, best first; controls keep their place among the others but no rank."""
        low, high = self.spread.interval()
        rank, rank_low, rank_high = self.spread.ranks(self.better or 1, self.contenders & (self.better != 0))
        way, beats = self.way(), self.beats_floor()
        rows: list[dict[str, Any]] = []
        for i, name in enumerate(self.explainers):
            tally = self.tally[i]
            rows.append({
                "explainer": name, "control": is_control(name), "mean": number(self.spread.mean[i]),
                "low": number(low[i]), "high": number(high[i]), "way": number(way[i], 4),
                "rank": [int(v[i]) if np.isfinite(v[i]) else None for v in (rank, rank_low, rank_high)],
                "beats": beats[i], "asked": tally.asked, "scored": tally.scored,
                "failed": tally.failed, "absent": tally.absent,
                "passes": number(tally.passes, 4), "seconds": number(self._seconds(evidence, i), 4),
            })  # fmt: skip
        order = sorted(range(len(rows)), key=lambda i: _worst_last(self.better or 1, rows[i]["mean"]))
        return {
            "protocol": self.metric.protocol, "metric": self.metric.name, "model": self.model, "dataset": self.dataset,
            "samples": self.spread.samples, "better": self.better,
            "floor": None if self.floor is None else number(self.spread.mean[self.floor]),
            "reference": None if self.reference is None else number(self.spread.mean[self.reference]),
            "rows": [rows[i] for i in order],
        }  # fmt: skip

    def _seconds(self, evidence: Evidence, explainer: int) -> float | None:
        """Seconds a sample, where this explainer had jobs of its own in all of the scope."""
        groups = [
            group for group in evidence.clock.shared
            if group[0] == self.metric.protocol and self.model in (ALL, group[1]) and self.dataset in (ALL, group[2])
        ]  # fmt: skip
        spent = [evidence.clock.alone.get((*group, self.explainers[explainer])) for group in groups]
        known = [seconds for seconds in spent if seconds is not None]
        return sum(known) / self.tally[explainer].asked if spent and len(known) == len(spent) else None


def board(metric: Metric, frame: pd.DataFrame, model: str = ALL, dataset: str = ALL) -> Board:
    """A board of the rows of one metric; `frame` is narrowed to the scope; `cluster` is the sample's number."""
    explainers = tuple(sorted(frame["explainer"].unique()))
    samples, at = np.unique(frame["cluster"].to_numpy(), return_inverse=True)
    who = pd.Categorical(frame["explainer"], categories=list(explainers)).codes
    place = at * len(explainers) + who
    values = frame["value"].to_numpy(dtype=np.float64)
    known = np.isfinite(values)
    shape = (len(samples), len(explainers))
    sums = np.bincount(place[known], weights=values[known], minlength=shape[0] * shape[1]).reshape(shape).astype(float)
    counts = np.bincount(place[known], minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    tally = _tally(frame["status"], frame["passes"].to_numpy(dtype=np.float64), who, len(explainers))
    floor, reference = (control(explainers, name) for name in (FLOOR, REFERENCE))
    spread = resample(sums, counts)
    floor_at = None if floor is None else explainers.index(floor)
    reference_at = None if reference is None else explainers.index(reference)
    better = {"higher": 1, "lower": -1, "none": 0}[metric.direction]
    return Board(metric, model, dataset, explainers, floor_at, reference_at, better, spread, sums, counts, tally)


def narrow(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """What a board reads, and `keys`; words as categories. A big run is cut up some thousand times."""
    wanted = frame[list(dict.fromkeys(["model", "explainer", "cluster", "value", "status", "passes", *keys]))]
    return wanted.astype({name: "category" for name in ("model", "explainer", "status")})


def boards(evidence: Evidence) -> Iterator[Board]:
    """Every metric over everything, and over each model and each dataset where there is more than one."""
    for metric in evidence.metrics:
        frame = evidence.scores
        frame = narrow(frame[(frame["protocol"] == metric.protocol) & (frame["metric"] == metric.name)], ("dataset",))
        for model in _scopes(frame["model"]):
            for dataset in _scopes(frame["dataset"]):
                part = frame if model == ALL else frame[frame["model"] == model]
                part = part if dataset == ALL else part[part["dataset"] == dataset]
                if len(part):
                    yield board(metric, part, model, dataset)


def chief(evidence: Evidence, found: Sequence[Board]) -> dict[str, list[Board]]:
    """The boards that speak for each protocol: its first metric that has a better and a worse.

    Over everything; one for each model where the models are known to reason differently.
    """
    chosen: dict[str, list[Board]] = {}
    for protocol in evidence.protocols:
        whole = [b for b in found if b.metric.protocol == protocol and b.model == ALL and b.dataset == ALL]
        first = next((b for b in whole if b.better != 0), whole[0])
        each = [b for b in found if b.metric == first.metric and b.model != ALL and b.dataset == ALL]
        chosen[protocol] = each if each and evidence.reasons_differ(b.model for b in each) else [first]
    return chosen


def _scopes(column: pd.Series[Any]) -> list[str]:
    names = sorted(column.unique())
    return [ALL, *names] if len(names) > 1 else [ALL]


def _tally(status: pd.Series[Any], passes: Floats, who: np.ndarray[Any, Any], explainers: int) -> tuple[Tally, ...]:
    def count(mask: np.ndarray[Any, Any]) -> list[int]:
        return [int(n) for n in np.bincount(who[mask], minlength=explainers)]

    asked = count(np.ones(len(who), dtype=np.bool_))
    by_status = [count((status == name).to_numpy()) for name in ("score", "failure", "not_applicable")]
    spent = np.bincount(who, weights=passes, minlength=explainers) / np.array(asked)
    return tuple(Tally(*row) for row in zip(asked, *by_status, spent.tolist(), strict=True))


def _worst_last(better: int, mean: float | None) -> tuple[bool, float]:
    return (mean is None, 0.0 if mean is None else -better * mean)

"""Leaderboards: for each score, every explainer between the control floor and the oracle reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.report.encode import number
from karat.report.evidence import FLOOR, REFERENCE, Evidence, Metric
from karat.report.resample import Floats, Resampled, totals
from karat.results.rows import NO_ROW, Values

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]

ALL = ""  # "every model" or "every dataset"


@dataclass(frozen=True)
class Tally:
    """What became of an explainer's rows, and the forward passes it took on average."""

    rows: int
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
    controls: Mask

    @property
    def contenders(self) -> Mask:
        return ~self.controls

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
        difference, low, high = self.spread.differences(self.floor)
        side = low if self.better > 0 else -high
        return [
            None if i == self.floor or not np.isfinite(difference[i]) else bool(side[i] > 0)
            for i in range(len(self.explainers))
        ]

    def plain(self, evidence: Evidence) -> dict[str, Any]:
        """What the page's table shows, best first; controls keep their place among the others but no rank."""
        low, high = self.spread.interval()
        rank, rank_low, rank_high = self.spread.ranks(self.better or 1, self.contenders & (self.better != 0))
        way, beats = self.way(), self.beats_floor()
        rows: list[dict[str, Any]] = []
        for i, name in enumerate(self.explainers):
            tally = self.tally[i]
            rows.append({
                "explainer": name, "control": bool(self.controls[i]), "mean": number(self.spread.mean[i]),
                "low": number(low[i]), "high": number(high[i]), "way": number(way[i], 4),
                "rank": [int(v[i]) if np.isfinite(v[i]) else None for v in (rank, rank_low, rank_high)],
                "beats": beats[i], "asked": tally.rows, "scored": tally.scored,
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
        return sum(known) / self.tally[explainer].rows if spent and len(known) == len(spent) else None


@dataclass(frozen=True, eq=False)
class Scores:
    """One score of one protocol as arrays (models, explainers, samples), samples in the page's order, every sample of
    the protocol with a row."""

    metric: Metric
    rows: Values
    samples: Ints  # numbers in the page's order
    values: Floats
    known: Floats  # 1 where there is a value


def scores_of(evidence: Evidence, metric: Metric) -> Scores:
    rows = evidence.rows.values(metric.protocol, metric.name)
    order = evidence.order
    present = (rows.state != NO_ROW).any(axis=(0, 1))[order]
    samples = np.flatnonzero(present)
    chosen = order[present]
    rows = replace(
        rows, values=rows.values[:, :, chosen], state=rows.state[:, :, chosen], reason=rows.reason[:, :, chosen],
        passes=rows.passes[:, :, chosen],
    )  # fmt: skip
    known = np.isfinite(rows.values)
    return Scores(metric, rows, samples, np.where(known, rows.values, 0.0), known.astype(np.float64))


def boards_of(
    evidence: Evidence, scores: Scores, models: Sequence[str], samples: Mask, dataset: str = ALL
) -> Iterator[Board]:
    """Boards of some models (ALL: of all together) over some of the samples, from one set of draws where they can
    share it."""
    rows = scores.rows
    present = (rows.state != NO_ROW).any(axis=1)  # (models, samples)
    scopes: dict[bytes, list[str]] = {}
    for model in models:
        mine = samples & (present.any(axis=0) if model == ALL else present[rows.models.index(model)])
        if mine.any():
            scopes.setdefault(np.packbits(mine).tobytes(), []).append(model)
    for mask, chosen in scopes.items():
        mine = np.unpackbits(np.frombuffer(mask, np.uint8), count=len(samples)).astype(np.bool_)
        together = {
            model: slice(None) if model == ALL else slice(k := rows.models.index(model), k + 1) for model in chosen
        }
        part = slice(None) if ALL in together or len(together) > 1 else next(iter(together.values()))
        shape = (*scores.values[part].shape[:2], int(mine.sum()))
        sums = np.ascontiguousarray(scores.values[part][:, :, mine].reshape(-1, shape[2]).T)
        counts = np.ascontiguousarray(scores.known[part][:, :, mine].reshape(-1, shape[2]).T)
        above, below = (drawn.reshape(-1, *shape[:2]) for drawn in totals(sums, counts))
        sums, counts = sums.reshape(shape[2], *shape[:2]), counts.reshape(shape[2], *shape[:2])
        for model, where in together.items():
            own = slice(None) if len(together) == 1 else where
            yield _board(
                evidence, scores.metric, rows, model, dataset, where, mine,
                *(array[:, own].sum(axis=1) for array in (sums, counts, above, below)),
            )  # fmt: skip


def _board(
    evidence: Evidence, metric: Metric, rows: Values, model: str, dataset: str, where: slice, mine: Mask,
    sums: Floats, counts: Floats, above: Floats, below: Floats,
) -> Board:  # fmt: skip
    state, passes = rows.state[where][:, :, mine], rows.passes[where][:, :, mine]
    has = (state != NO_ROW).any(axis=(0, 2))  # explainers with a row here
    explainers = tuple(name for name, own in zip(rows.explainers, has, strict=True) if own)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, draws = sums.sum(axis=0) / counts.sum(axis=0), above / below
    spread = Resampled(mean[has], np.ascontiguousarray(draws[:, has]), len(sums))
    floor, reference = (evidence.control(explainers, name) for name in (FLOOR, REFERENCE))
    return Board(
        metric, model, dataset, explainers, floor, reference, {"higher": 1, "lower": -1, "none": 0}[metric.direction],
        spread, sums[:, has], counts[:, has], _tally(state[:, has], passes[:, has]),
        np.array([evidence.is_control(name) for name in explainers], dtype=np.bool_),
    )  # fmt: skip


def boards(evidence: Evidence) -> Iterator[Board]:
    """Every metric over everything, and over each model and each dataset where there is more than one."""
    for metric in evidence.metrics:
        scores = scores_of(evidence, metric)
        models = [ALL, *scores.rows.models] if len(scores.rows.models) > 1 else [ALL]
        datasets = evidence.dataset[scores.samples]
        present = [name for k, name in enumerate(evidence.datasets) if (datasets == k).any()]
        for dataset in [ALL, *present] if len(present) > 1 else [ALL]:
            chosen = datasets == evidence.datasets.index(dataset) if dataset else np.ones(len(datasets), dtype=np.bool_)
            yield from sorted(
                boards_of(evidence, scores, models, chosen, dataset), key=lambda board: models.index(board.model)
            )


def speaks(metrics: Sequence[Metric]) -> Metric:
    """The score that speaks for its protocol: the first that has a better and a worse."""
    return next((metric for metric in metrics if metric.direction != "none"), metrics[0])


def chief(evidence: Evidence, ranked: Sequence[Board]) -> dict[str, list[Board]]:
    """The boards that speak for each protocol: its first metric that has a better and a worse.

    Over everything; one for each model where the models are known to reason differently.
    """
    chosen: dict[str, list[Board]] = {}
    for protocol in evidence.protocols:
        metric = speaks(evidence.metrics_of(protocol))
        first = next(b for b in ranked if b.metric == metric and b.model == ALL and b.dataset == ALL)
        each = [b for b in ranked if b.metric == first.metric and b.model != ALL and b.dataset == ALL]
        chosen[protocol] = each if each and evidence.reasons_differ(b.model for b in each) else [first]
    return chosen


def _tally(state: npt.NDArray[np.uint8], passes: Floats) -> tuple[Tally, ...]:
    """Of (models, explainers, samples)."""
    counts = [(state == code).sum(axis=(0, 2)) for code in (0, 1, 2)]
    present = (state != NO_ROW).sum(axis=(0, 2))
    spent = np.nansum(passes, axis=(0, 2)) / present
    columns = (column.tolist() for column in (present, *counts, spent))
    return tuple(Tally(*row) for row in zip(*columns, strict=True))


def _worst_last(better: int, mean: float | None) -> tuple[bool, float]:
    return (mean is None, 0.0 if mean is None else -better * mean)

"""The verdict: does an explanation put more on the shortcut when the twin that takes it answers?

Both twins explain their answers to the same pure samples. The signed statistic of an explanation is

    s = (distractor mass - its share of the area) - (anchor mass - its share) - (relation mass - its share of the words)

and the directed verdict is P(s of spur > s of pure) + half P(equal), on the same sample: 0.5 is blind, 1 shows the
shortcut always, below 0.5 points the wrong way. Nothing is fitted, so nothing can be turned round. Both twins are held
against the same places and words of a sample, so the shares cancel in the comparison. Explanations that failed are not
missing at random, so the interval is made twice, once with each of them counted as a tie: a verdict stands where both
say the same. Beside it stands `differs`: how well a classifier, fitted on other samples, tells the twins apart by the
same numbers, whichever way they move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.identity import generator
from karat.protocols.common.rows import frame_of
from karat.protocols.grid.analysis import families, relational, tidy
from karat.statistics import Estimate, paired_wins
from karat.statistics.auc import placements

SIGNS = {"distractor_mass": 1.0, "anchor_mass": -1.0, "relation_mass": -1.0}
_FEWEST = 5  # shared samples, below which there is no verdict
_FOLDS = 5
_NULLS = 19  # the largest of 19 is exceeded by chance once in 20


@dataclass(frozen=True, eq=False)
class Pair:
    """Explanations of the same samples by two models: `values` (models, n, parts), NaN where one has no such part."""

    values: npt.NDArray[np.float64]
    parts: tuple[str, ...]  # of SIGNS, that both models have somewhere
    samples: list[str]  # with at least one part that both have
    of: int  # that both were asked about
    failed: int = 0  # of those without such a part: the explanation of one model or both failed

    def directed(self) -> Estimate:
        """How often the second model's explanation has the larger s; parts that either lacks are left out for both."""
        return paired_wins(self._changes)

    def with_failures_as_ties(self) -> Estimate:
        """The same, with a tie for every sample on which an explanation failed."""
        return paired_wins(np.concatenate([self._changes, np.zeros(self.failed)]))

    @property
    def _changes(self) -> npt.NDArray[np.float64]:
        change = (self.values[1] - self.values[0]) * [SIGNS[name] for name in self.parts]
        return np.round(np.nansum(change, axis=1), 6)  # models compute in single precision: less is rounding

    def differs(self, rng: np.random.Generator) -> tuple[float, float]:
        """AUC of a linear discriminant fitted on other samples, on those that have every part; and the largest AUC of
        19 tries in which the two explanations of every sample change places at random: there is nothing to find in
        them, so a larger AUC than theirs is one in twenty by chance, whatever the numbers are like."""
        complete = self.values[:, ~np.isnan(self.values).any(axis=(0, 2))]
        n = complete.shape[1]
        if n < _FEWEST:
            return np.nan, np.nan
        swaps = np.concatenate([np.zeros((1, n), dtype=np.bool_), rng.random((_NULLS, n)) < 0.5])
        observed, *nulls = separations(complete, swaps, rng.permutation(n) % _FOLDS)
        return observed, max(nulls)


def separations(
    values: npt.NDArray[np.float64], swaps: npt.NDArray[np.bool_], fold: npt.NDArray[np.intp]
) -> list[float]:
    """For each row of swaps (d, n) the cross-fitted AUC of values (2, n, parts) whose pairs are exchanged there.

    The discriminant of a fold is the mean change within pairs over the scatter of all, both of the other folds; an
    exchange turns changes round and leaves the scatter alone, so all exchanges are fitted at once.
    """
    signs = np.where(swaps, -1.0, 1.0)
    scores = np.empty((len(swaps), *values.shape[:2]))
    for k in np.unique(fold):
        rest = values[:, fold != k]
        pooled = rest.reshape(-1, values.shape[2])
        centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
        scale = np.where(scale > 1e-12 * np.maximum(np.abs(centre), 1e-300), scale, np.inf)  # a constant says nothing
        standard = (pooled - centre) / scale
        scatter = (standard.T @ standard + np.eye(len(centre))) / len(pooled)
        change = signs[:, fold != k] @ ((rest[1] - rest[0]) / scale) / rest.shape[1]
        weights = np.linalg.solve(scatter, change.T)
        scores[:, :, fold == k] = np.moveaxis((values[:, fold == k] - centre) / scale @ weights, 2, 0)
    scores = np.round(scores, 9)  # a part that is the same for both on every sample must not speak by rounding
    first, second = (np.where(swaps, scores[:, 1 - i], scores[:, i]) for i in (0, 1))
    return [float(placements(up, down)[0].mean()) for up, down in zip(second, first, strict=True)]


@dataclass(frozen=True, eq=False)
class Explained:
    """What one explainer says about the parts of s, by model: frames (samples × models)."""

    explainer: str
    is_control: bool
    absence: str | None
    parts: dict[str, pd.DataFrame]
    present: pd.DataFrame  # bool: whether there is a row at all
    failed: pd.DataFrame  # bool: whether the explanation failed

    def pair(self, first: str, second: str) -> Pair | None:
        """None where too few samples have a part that both models explained."""
        both = [first, second]
        if not set(both) <= set(self.present):
            return None
        present = self.present[both].all(axis=1)
        shared = {name: frame.reindex(columns=both)[present] for name, frame in self.parts.items()}
        known = {name: frame.where(frame.notna().all(axis=1)) for name, frame in shared.items()}
        parts = tuple(name for name in SIGNS if name in known and known[name].notna().any(axis=None))
        if not parts:
            return None
        values = np.stack([known[name].to_numpy(dtype=np.float64).T for name in parts], axis=2)
        some = ~np.isnan(values).all(axis=(0, 2))
        if some.sum() < _FEWEST:
            return None
        failed = self.failed[both][present].any(axis=1).to_numpy() & ~some
        return Pair(
            values[:, some], parts, present.index[present][some].tolist(), int(present.sum()), int(failed.sum())
        )


def explained(rows: pd.DataFrame) -> Iterator[Explained]:
    """The relational pure rows of `tidy`, one explainer after the other."""
    rows = relational(rows)
    rows = rows[rows["metric"].isin(SIGNS)].drop_duplicates(["explainer", "metric", "model", "sample"])
    for explainer, own in rows.groupby("explainer", observed=True):
        first = own.iloc[0]
        parts = {
            str(metric): values.set_index(["sample", "model"])["value"].unstack("model")
            for metric, values in own.groupby("metric", observed=True)
        }
        statuses = own.assign(failed=own["status"] == "failure").groupby(["sample", "model"], observed=True)["failed"]
        failed = statuses.any().unstack("model")
        present = failed.notna()
        parts = {metric: frame.reindex(index=present.index) for metric, frame in parts.items()}
        absence = None if pd.isna(first["absence"]) else str(first["absence"])
        yield Explained(str(explainer), bool(first["is_control"]), absence, parts, present, failed.eq(True))


# ---- the twins of each family


@dataclass(frozen=True)
class Verdict:
    """One explainer on one family: the directed verdict with its 95 % interval, the interval with each failed
    explanation counted as a tie, and beside it `differs`."""

    family: str
    explainer: str
    is_control: bool
    absence: str | None
    directed: float
    low: float
    high: float
    samples: int
    of: int
    failed: int
    low_tied: float
    high_tied: float
    parts: str
    differs: float
    differs_null: float

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.directed, np.nan, self.low, self.high, self.samples, self.of - self.samples)

    @property
    def shows(self) -> bool:
        """Points the right way, whatever failed explanations count as."""
        return min(self.low, self.low_tied) > 0.5

    @property
    def misleads(self) -> bool:
        """Points the wrong way, whatever failed explanations count as."""
        return max(self.high, self.high_tied) < 0.5

    @property
    def hangs(self) -> bool:
        """Which way it points hangs on what failed explanations count as."""
        return (self.low > 0.5) != (self.low_tied > 0.5) or (self.high < 0.5) != (self.high_tied < 0.5)


def verdict(scores: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """One row per pair of twins and explainer: the directed verdict and, beside it, whether the twins differ at all.

    Args:
        scores: rows of protocol `grid`, as `load_run(path).scores()` gives them.
        seed: of the folds and exchanges of `differs`; the directed verdict draws nothing.

    Returns:
        The columns of `Verdict`; methods before controls, each kind best first.

    Example:
        `verdict(karat.load_run("runs/grid-quick").scores())[["family", "explainer", "directed", "low", "high"]]`
    """
    return frame_of(verdicts(tidy(scores), seed), Verdict)


def verdicts(rows: pd.DataFrame, seed: int = 0) -> list[Verdict]:
    """The same on rows of `tidy`."""
    twins, both = _twins(rows), families(rows)
    table = [
        _judged(one, family, pair, seed)
        for one in explained(rows)
        for family in both
        if (pair := one.pair(twins[family, "pure"], twins[family, "spur"])) is not None
    ]
    return sorted(table, key=lambda v: (v.family, v.is_control, -v.directed, v.explainer))


def _twins(rows: pd.DataFrame) -> dict[tuple[str, str], str]:
    known = rows.loc[rows["twin"] != "", ["family", "twin", "model"]].drop_duplicates(["family", "twin"])
    return {(family, twin): model for family, twin, model in known.itertuples(index=False)}


def _judged(one: Explained, family: str, pair: Pair, seed: int) -> Verdict:
    estimate, tied = pair.directed(), pair.with_failures_as_ties()
    differs, null = pair.differs(generator(seed, one.explainer, "grid/verdict"))
    return Verdict(
        family, one.explainer, one.is_control, one.absence, estimate.value, estimate.low, estimate.high,
        len(pair.samples), pair.of, pair.failed, tied.low, tied.high, ", ".join(pair.parts), differs, null,
    )  # fmt: skip


# ---- how strong must a shortcut be?


@dataclass(frozen=True)
class Dose:
    """One explainer on a twin that mixes the shortcut with reasoning: told from the reasoning twin, or not."""

    family: str
    explainer: str
    is_control: bool
    dose: float
    directed: float
    low: float
    high: float
    samples: int
    of: int
    parts: str
    low_tied: float = np.nan  # with each failed explanation counted as a tie

    @property
    def detected(self) -> bool:
        return self.low > 0.5 and not self.low_tied <= 0.5


def dose_curve(rows: pd.DataFrame) -> list[Dose]:
    """By family, explainer and dose: the directed verdict on the dosed twin against the reasoning one; NaN where a dose
    has too few scores (the oracle has none where the mechanism is mixed: nobody knows the truth there).

    The spur twin is dose 1. A model of dose 0, where the run has one, is the same mechanism: what it shows is chance.
    """
    twins = _twins(rows)
    dosed = rows.loc[rows["dose"].notna(), ["family", "model", "dose"]].drop_duplicates()
    curve = []
    for family, own in dosed.groupby("family", observed=True):
        if (str(family), "pure") not in twins:
            continue
        doses = dict(zip(own["model"], own["dose"], strict=True))
        if (str(family), "spur") in twins:
            doses[twins[str(family), "spur"]] = 1.0
        for one in explained(rows):
            pairs = {dose: one.pair(twins[str(family), "pure"], model) for model, dose in doses.items()}
            if any(frame.notna().any(axis=None) for frame in one.parts.values()):
                curve += [_dose(one, str(family), dose, pairs[dose]) for dose in sorted(pairs)]
    return curve


def _dose(one: Explained, family: str, dose: float, pair: Pair | None) -> Dose:
    if pair is None:
        return Dose(family, one.explainer, one.is_control, dose, np.nan, np.nan, np.nan, 0, 0, "")
    estimate = pair.directed()
    return Dose(family, one.explainer, one.is_control, dose, estimate.value, estimate.low, estimate.high,
                len(pair.samples), pair.of, ", ".join(pair.parts), pair.with_failures_as_ties().low)  # fmt: skip


def detection_threshold(curve: list[Dose]) -> float:
    """Of one explainer's doses the smallest from which on every one is detected; NaN where none is, or one has no
    scores."""
    threshold = np.nan
    if any(np.isnan(one.directed) for one in curve):
        return threshold
    for one in sorted(curve, key=lambda one: -one.dose):
        if not one.detected:
            break
        threshold = one.dose
    return threshold


# ---- does it mean more than "these weights differ"?


@dataclass(frozen=True)
class SeedPair:
    """Two models of one architecture: `mechanisms` is "different" (pure, then spur) or "same" (in both orders)."""

    architecture: str
    explainer: str
    is_control: bool
    mechanisms: str
    first: str
    second: str
    directed: float
    samples: int


def seed_pairs(rows: pd.DataFrame) -> list[SeedPair]:
    """For architectures that the run has in several seeds: every pure twin against every spur twin, and, as the
    same-mechanism null, every two twins of one mechanism in both orders."""
    known = rows.loc[rows["twin"] != "", ["architecture", "twin", "model", "model_seed"]].drop_duplicates()
    known = known[known["model_seed"].notna()]
    pairs: list[tuple[str, str, str, str]] = []
    for architecture, own in known.groupby("architecture", observed=True):
        of = {twin: sorted(own.loc[own["twin"] == twin, "model"]) for twin in ("pure", "spur")}
        same = [two for labels in of.values() for two in permutations(labels, 2)]
        if same:
            pairs += [(str(architecture), "different", *two) for two in product(of["pure"], of["spur"])]
            pairs += [(str(architecture), "same", *two) for two in same]
    if not pairs:
        return []
    return [
        SeedPair(architecture, one.explainer, one.is_control, mechanisms, first, second, pair.directed().value,
                 len(pair.samples))
        for one in explained(rows)
        for architecture, mechanisms, first, second in pairs
        if (pair := one.pair(first, second)) is not None
    ]  # fmt: skip


@dataclass(frozen=True)
class SeedSummary:
    """Whether the lowest pair of different mechanisms lies above the highest of the same: described, not tested, since
    six models cannot carry a p-value."""

    architecture: str
    explainer: str
    is_control: bool
    lowest_different: float
    highest_different: float
    lowest_same: float
    highest_same: float
    pairs_different: int
    pairs_same: int

    @property
    def counts(self) -> bool:
        return self.lowest_different > self.highest_same


def seed_summaries(pairs: list[SeedPair]) -> list[SeedSummary]:
    """One row per architecture and explainer that has pairs of both kinds."""
    summaries = []
    for key in dict.fromkeys((one.architecture, one.explainer, one.is_control) for one in pairs):
        own = [one for one in pairs if (one.architecture, one.explainer, one.is_control) == key]
        different, same = ([one.directed for one in own if one.mechanisms == m] for m in ("different", "same"))
        if different and same:
            summaries.append(
                SeedSummary(*key, min(different), max(different), min(same), max(same), len(different), len(same))
            )
    return sorted(summaries, key=lambda s: (s.architecture, s.is_control, -s.lowest_different, s.explainer))

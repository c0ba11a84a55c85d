"""`compare(before, after)`: what changed between two runs, and which differences are more than chance.

Rows are paired by sample, so what is hard for both runs cancels out. Each explainer on each score has a sign-flip test;
Holm's correction over all of them bounds the chance of a single false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.results import Run, load_run
from karat.statistics.bootstrap import paired_difference
from karat.statistics.multiple import adjust
from karat.statistics.permutation import sign_flip_test

if TYPE_CHECKING:
    import pandas as pd

Judgement = Literal["worse", "better", "changed", "no difference shown", "control", "too few"]
Setting = tuple[str, str, str]  # field, before, after
_LOOSE = ("protocol", "model", "dataset")  # where each run has one and they differ, the two are paired
_FEWEST = 2  # pairs that a test needs
_FIXED = ("semantic", "semantic-sweep")  # scores that mean something only under one and the same configuration
_EXTRAS = ("thresholds",)  # parameters of those that add curves and change no score
_MANIFEST = ("seed", "models", "datasets", "versions", "hardware")


class Place(NamedTuple):
    """Where a score stands in a run."""

    protocol: str
    model: str
    dataset: str
    explainer: str
    metric: str


_READ = (*Place._fields, "sample", "value", "status", "explainer.is_control")  # columns of rows


@dataclass(frozen=True)
class Change:
    """One explainer on one score. `p` is corrected over all tests; `lost` rows had a score before and failed after."""

    protocol: str
    model: str
    dataset: str
    explainer: str
    metric: str
    pairs: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    p: float
    lost: int
    judgement: Judgement

    @property
    def is_worse(self) -> bool:
        """Worse beyond chance, or failing now where it did not."""
        return self.judgement == "worse" or self.lost > 0


@dataclass(frozen=True)
class Compared:
    """Two runs side by side, under the `level` and `tolerance` that the changes were judged by.

    `settings` are the fields of specs and manifests that differ, `versions` those of all packages, differing or not;
    `only_*` are scores that one run alone has.
    """

    before: str
    after: str
    level: float
    tolerance: float
    changes: tuple[Change, ...]
    settings: tuple[Setting, ...]
    versions: tuple[Setting, ...]
    only_before: tuple[Place, ...]
    only_after: tuple[Place, ...]

    @property
    def worse(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.is_worse)

    def of(self, judgement: Judgement) -> list[Change]:
        return [change for change in self.changes if change.judgement == judgement]


def compare(
    before: str | Path | Run, after: str | Path | Run, *, level: float = 0.05, tolerance: float = 1e-3
) -> Compared:
    """Compare two runs, sample by sample.

    A score is worse (or better) where the corrected p is below `level` and the means differ by more than `tolerance`:
    with enough samples even a rounding difference is more than chance, and still nobody's concern. Where the runs have
    one model each and they differ in name, these two are compared; likewise for protocols and datasets.
    """
    if not 0 < level < 1:
        raise BadInput(f"level is a probability, such as 0.05; got {level:g}.")
    if not tolerance >= 0:
        raise BadInput(f"tolerance is a difference of means, 0 or more; got {tolerance:g}.")
    one, two = (run if isinstance(run, Run) else load_run(run) for run in (before, after))
    first, second = (run.scores(columns=_READ) for run in (one, two))
    for run, frame in ((one, first), (two, second)):
        if frame.empty:
            raise BadInput(f"{run.path}: no finished cell yet, nothing to compare.")
    _refuse_other_configuration(one, two)
    second = _named_alike(first, second)
    groups = [_by_place(frame) for frame in (first, second)]
    shared = [place for place in groups[0] if place in groups[1]]
    if not shared:
        raise BadInput(
            f"{one.path} and {two.path} share no explainer on the same model, data and score: nothing to compare."
        )
    directions = {**_directions(two), **_directions(one)}
    changes = [_change(place, groups[0][place], groups[1][place]) for place in shared]
    controls = {
        name for frame in (first, second) for name in frame["explainer"][frame["explainer.is_control"]].unique()
    }
    tested = np.array([np.isfinite(change.p) and change.explainer not in controls for change in changes])
    p = np.full(len(changes), np.nan)
    p[tested] = adjust([change.p for change, use in zip(changes, tested, strict=True) if use], "holm")
    judged = [
        replace(
            change,
            p=float(q),
            judgement="control"
            if change.explainer in controls
            else _judge(change, q, directions[change.metric], level, tolerance),
        )
        for change, q in zip(changes, p, strict=True)
    ]
    return Compared(
        before=str(one.path),
        after=str(two.path),
        level=level,
        tolerance=tolerance,
        changes=tuple(judged),
        settings=tuple(row for row in _settings(one, two) if row[1] != row[2]),
        versions=tuple(row for row in _settings(one, two) if row[0].startswith("versions.")),
        only_before=tuple(place for place in groups[0] if place not in groups[1]),
        only_after=tuple(place for place in groups[1] if place not in groups[0]),
    )


def _refuse_other_configuration(one: Run, two: Run) -> None:
    """SSS under another threshold, mode or choice of target is another quantity (semscore2025, section 3)."""
    (name, mine), (other, theirs) = (_configuration(run) for run in (one, two))
    if name == other and name in _FIXED:
        differing = [key for key in sorted({*mine, *theirs} - set(_EXTRAS)) if mine.get(key) != theirs.get(key)]
        if differing:
            settings = "; ".join(f"{key} {mine.get(key)} and {theirs.get(key)}" for key in differing)
            raise BadInput(
                f"{one.path} and {two.path} were scored under different configurations ({settings}): their scores are "
                "different quantities. Choose one configuration, hold it fixed and run both under it."
            )


def _configuration(run: Run) -> tuple[str, dict[str, Any]]:
    """The protocol with all its parameters, defaults included where the run still has its cells."""
    for cell in run.cells().values():
        chosen = cell["fields"]["protocol"]
        if isinstance(chosen, Mapping):
            return str(chosen["name"]), dict(chosen["parameters"])
        break
    chosen = run.spec["protocol"]
    return str(chosen["name"]), {key: value for key, value in chosen.items() if key != "name"}


def _named_alike(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    for column in _LOOSE:
        names = [frame[column].unique() for frame in (first, second)]
        if len(names[0]) == len(names[1]) == 1 and names[0][0] != names[1][0]:
            second = second.assign(**{column: names[0][0]})
    return second


def _by_place(frame: pd.DataFrame) -> dict[Place, pd.DataFrame]:
    """Values and statuses by sample, of every explainer on every score."""
    fields = list(Place._fields)
    rows = frame.set_index("sample")[["value", "status", *fields]]
    return {Place(*map(str, place)): part for place, part in rows.groupby(fields)}


def _change(place: Place, before: pd.DataFrame, after: pd.DataFrame) -> Change:
    """The paired difference, its p not yet corrected and not yet judged."""
    later = after[["value", "status"]].add_suffix("_after")
    both = before.join(later, how="inner")
    a, b = (both[name].to_numpy(dtype=np.float64) for name in ("value", "value_after"))
    lost = int(((both["status"] == "score") & (both["status_after"] == "failure")).sum())
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    means = (float(a.mean()), float(b.mean())) if len(a) else (np.nan, np.nan)
    low = high = p = np.nan
    if len(a) and (a == b).all():  # the same rows: nothing to resample
        low, high, p = 0.0, 0.0, 1.0
    elif len(a) >= _FEWEST:
        interval = paired_difference(b, a, rng=generator(0, "\0".join(place), "compare/interval"))
        low, high = interval.low, interval.high
        p = sign_flip_test(b, a).p
    return Change(*place, len(a), *means, means[1] - means[0], low, high, p, lost, "too few")


def _judge(change: Change, p: float, direction: str, level: float, tolerance: float) -> Judgement:
    if not np.isfinite(p):
        return "too few"
    if not (p < level and abs(change.difference) > tolerance):
        return "no difference shown"
    if direction == "none":
        return "changed"
    return "better" if (change.difference > 0) == (direction == "higher") else "worse"


def _directions(run: Run) -> dict[str, str]:
    metrics = run.scores(columns=["metric"])["metric"].unique()
    return {name: run.manifest.get("scores", {}).get(name, {}).get("direction", "none") for name in metrics}


def _settings(one: Run, two: Run) -> Iterator[Setting]:
    before, after = (
        _flat({**{key: run.manifest.get(key) for key in _MANIFEST}, "spec": run.spec}) for run in (one, two)
    )
    for key in sorted({*before, *after}):
        yield key, before.get(key, "–"), after.get(key, "–")


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        return {k: v for key in value for k, v in _flat(value[key], f"{prefix}.{key}" if prefix else str(key)).items()}
    return {} if value is None else {prefix: str(value)}

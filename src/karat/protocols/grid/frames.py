"""Rows of protocol `grid` with short names: which twin of which family, which bucket, what the model said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.kernel.typing import Scalar
from karat.statistics import Estimate, bootstrap_mean

BUCKET = ["form", "qtype", "depth", "density"]
META = ("mode", "bucket", "preset", "seed", "index", *BUCKET)
ANCHORED = ("SO", "CO", "M", "CMP")
_QTYPES = ("A", "SO", "CO", "M", "CMP", "REL")
_TWIN = re.compile(r"^(?P<family>.+)\.(?P<twin>pure|spur)(?P<world> \(.*\))?$")


@dataclass(frozen=True)
class Scenario:
    """A twin on the samples of one mode (gridvqax2026 section 5.1)."""

    twin: str
    mode: str

    @property
    def name(self) -> str:
        return f"{self.twin} twin on {self.mode}"


PURE, SPUR, CROSS = Scenario("pure", "pure"), Scenario("spur", "spur"), Scenario("spur", "pure")
SCENARIOS = (PURE, SPUR, CROSS)


def tidy(scores: pd.DataFrame) -> pd.DataFrame:
    """The columns that findings read; `family` and `twin` are empty for models that are no twins.

    A sample that several datasets of a run have (their buckets may overlap) counts once: the dataset with the most
    samples of a bucket stands, and as a whole, so that blocks stay together.
    """
    missing = [f"meta.{name}" for name in META if f"meta.{name}" not in scores]
    if missing:
        raise BadInput(
            f"these rows are not of protocol grid on the grid world: no {missing[0]}. "
            "Run the protocol on the dataset `grid`."
        )
    plain = ["model", "explainer", "metric", "sample", "answer", "expected", "value", "status", "reason"]
    rows = scores[[*plain, *(f"meta.{name}" for name in META)]]
    if "dataset" in scores and scores["dataset"].nunique() > scores["meta.mode"].nunique():
        rows = rows[_once_each(scores)]
    rows = rows.rename(columns={f"meta.{name}": name for name in META})
    twins = {name: twin_of(name) for name in rows["model"].unique()}
    return rows.assign(
        family=rows["model"].map({name: family for name, (family, _) in twins.items()}),
        twin=rows["model"].map({name: twin for name, (_, twin) in twins.items()}),
    )


def _once_each(scores: pd.DataFrame) -> npt.NDArray[np.bool_]:
    places = ["model", "explainer", "meta.preset", "meta.mode", "meta.bucket", "meta.seed"]
    sizes = scores.groupby([*places, "dataset"], observed=True)["sample"].nunique()
    best = pd.MultiIndex.from_tuples(sizes.groupby(level=places, observed=True).idxmax())
    return np.asarray(pd.MultiIndex.from_frame(scores[[*places, "dataset"]]).isin(best))


def twin_of(model: str) -> tuple[str, str]:
    """Family and twin of a model by its name; both empty for one that is no twin.

    >>> twin_of("gridnet.spur"), twin_of("gridprog.pure (6×6 of 16 px)"), twin_of("llava")
    (('gridnet', 'spur'), ('gridprog (6×6 of 16 px)', 'pure'), ('', ''))
    """
    found = _TWIN.match(model)
    return (f"{found['family']}{found['world'] or ''}", found["twin"]) if found else ("", "")


def families(rows: pd.DataFrame) -> list[str]:
    """Families of which both twins are there."""
    found = rows[["family", "twin"]].drop_duplicates()
    return sorted(str(name) for name, own in found.groupby("family") if name and set(own["twin"]) == {"pure", "spur"})


def scenario(rows: pd.DataFrame, family: str, which: Scenario) -> pd.DataFrame:
    return rows[(rows["family"] == family) & (rows["twin"] == which.twin) & (rows["mode"] == which.mode)]


def once(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row for each `by`: one with an answer, if any has. Where an explainer was lost, its row has none."""
    return rows.sort_values("answer", key=pd.isna, kind="stable").drop_duplicates(by).sort_index()


def of_method(rows: pd.DataFrame, base: str) -> pd.DataFrame:
    """Rows of an explainer under whatever parameters: `modality/emap` and `modality/emap(batch=4)`."""
    return rows.loc[np.array([name.split("(")[0] == base for name in rows["explainer"]], dtype=np.bool_)]


def in_paper_order(table: pd.DataFrame) -> pd.DataFrame:
    """Form 0 before form 1, types as the paper lists them, then depth and density."""
    by = [column for column in BUCKET if column in table]
    return table.sort_values(by, key=_rank, kind="stable", ignore_index=True)


def _rank(column: Any) -> Any:
    return column.map({name: place for place, name in enumerate(_QTYPES)}) if column.name == "qtype" else column


def coverage(rows: pd.DataFrame, metric: str) -> str:
    """How many of the rows of a metric have a value, and how many there are."""
    values = rows.loc[rows["metric"] == metric, "value"]
    return f"{values.count()}/{len(values)}"


def is_control(explainer: str) -> bool:
    return explainer.startswith("control/")


def mean_with_interval(values: npt.ArrayLike, name: str) -> Estimate:
    """The mean with a 95 % bootstrap interval; the stream of draws is that of the name."""
    return bootstrap_mean(np.asarray(values, dtype=np.float64), rng=generator(0, name, "grid/findings"), resamples=1000)


def mean_of_few(values: npt.ArrayLike) -> Estimate:
    """The mean with a 95 % interval by Student's t, which holds for a few blocks too; no interval below three."""
    given = np.asarray(values, dtype=np.float64)
    kept = given[~np.isnan(given)]
    n, dropped = len(kept), len(given) - len(kept)
    if n < 3:
        return Estimate(float(kept.mean()) if n else np.nan, np.nan, np.nan, np.nan, n, dropped)
    value, se = float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.975, n - 1)) * se
    return Estimate(value, se, value - half, value + half, n, dropped)


def difference(first: npt.ArrayLike, second: npt.ArrayLike) -> Estimate:
    """Mean of first less mean of second, of different samples, with a 95 % interval (Welch)."""
    one, two = (np.asarray(v, dtype=np.float64) for v in (first, second))
    dropped = int(np.isnan(one).sum() + np.isnan(two).sum())
    one, two = one[~np.isnan(one)], two[~np.isnan(two)]
    n = len(one) + len(two)
    if len(one) < 2 or len(two) < 2:
        return Estimate(np.nan, np.nan, np.nan, np.nan, n, dropped)
    value = float(one.mean() - two.mean())
    parts = np.array([one.var(ddof=1) / len(one), two.var(ddof=1) / len(two)])
    se = float(np.sqrt(parts.sum()))
    freedom = parts.sum() ** 2 / (parts**2 / [len(one) - 1, len(two) - 1]).sum() if se else n - 2.0
    half = float(stats.t.ppf(0.975, freedom)) * se
    return Estimate(value, se, value - half, value + half, n, dropped)


def number(value: float) -> Scalar:
    """A number for a table; None where there is none."""
    return float(value) if np.isfinite(value) else None


def show(found: Estimate, digits: int = 3) -> str:
    return f"{found.value:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"

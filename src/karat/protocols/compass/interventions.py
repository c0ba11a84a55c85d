"""What changes when only the question changes? Another answer probed, the roles swapped, the reference moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.datasets.spatial.question import OPPOSITE
from karat.protocols.common.rows import frame_of
from karat.protocols.compass.analysis import GROUP, Explained, Floats, by_explainer, clustered_mean, stream
from karat.protocols.compass.diagnostics import Battery
from karat.statistics import Estimate, bootstrap_statistic

#: Sector of each relation among four, 0 being right.
_QUADRANT = {"right": 0, "above": 1, "left": 2, "below": 3}


def quadrants(shares: Floats) -> Floats:
    """Compasses (n, 8) folded to right, up, left, down (n, 4); a diagonal goes to its neighbours by halves."""
    return np.asarray(shares[:, ::2] + (np.roll(shares, 1, 1)[:, ::2] + shares[:, 1::2]) / 2)


def probe_agreement(shares: Floats, probed: list[str]) -> Floats:
    """PTA: 1 where the strongest quadrant (n,) is that of the probed relation; ties share. creg2026 E.1 names it only.

    A compass that does not react to the probe agrees with exactly one of the four, so its mean is 1/4 whatever it is.
    """
    folded = quadrants(shares)
    top = folded >= folded.max(axis=1, keepdims=True) - 1e-12
    hit = top[np.arange(len(top)), [_QUADRANT[name] for name in probed]]
    return np.where(np.isfinite(shares).all(axis=1), hit / np.maximum(top.sum(axis=1), 1), np.nan)


def divergence(p: Floats, q: Floats) -> Floats:
    """Jensen-Shannon divergence (n,) of distributions (n, k), in bits: 0 the same, 1 disjoint.

    >>> divergence(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]]))
    array([1., 0.])
    """
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.where(side > 0, side * np.log2(side / middle), 0.0).sum(axis=1) for side in (p, q)]
    return np.where(np.isfinite(p).all(1) & np.isfinite(q).all(1), (parts[0] + parts[1]) / 2, np.nan)


def peak_shift(p: Floats, q: Floats) -> Floats:
    """Degrees (n,) between the strongest sectors of two compasses."""
    usable = np.isfinite(p).all(1) & np.isfinite(q).all(1)
    sectors = p.shape[1]
    steps = (np.nan_to_num(p).argmax(1) - np.nan_to_num(q).argmax(1)) * (360 / sectors)
    return np.where(usable, np.abs((steps + 180) % 360 - 180), np.nan)


# ---- what a run shows


@dataclass(frozen=True)
class Probe(Explained):
    """Each of the four answers explained in turn: `pta` as in `probe_agreement`, `jsd` between opposite answers."""

    is_control: bool
    pta: Estimate
    jsd: Estimate
    scenes: int


def probes(battery: Battery) -> pd.DataFrame:
    rows = []
    for names, is_control, part in by_explainer(battery.where("probe")):
        shares = battery.shares
        agree = probe_agreement(shares[part["at"]], part["variant"].tolist())
        table = part.pivot_table(index="origin", columns="variant", values="at", aggfunc="first")
        both = [table.reindex(columns=[r, OPPOSITE[r]]).dropna().astype(int) for r in ("left", "above")]
        apart = np.concatenate([divergence(shares[pairs.iloc[:, 0]], shares[pairs.iloc[:, 1]]) for pairs in both])
        origins = np.concatenate([pairs.index.to_numpy() for pairs in both])
        pta, jsd = clustered_mean(agree, part["origin"].to_numpy()), clustered_mean(apart, origins)
        rows.append(Probe(*names, is_control, pta, jsd, len(table)))
    return frame_of(rows, Probe)


@dataclass(frozen=True)
class Swap(Explained):
    """The roles in the question exchanged. `shift` of the peak as each question is read from its own reference;
    `centre_shift` of the unchanged map read from the other object; `question_shift` at the same centre, which is what
    the question itself does."""

    is_control: bool
    shift: float
    sd: float
    centre_shift: float
    question_shift: Estimate
    n: int


def swaps(battery: Battery) -> pd.DataFrame:
    """`battery.around_target` is around each question's target, which the swap has made of the reference."""
    plain = battery.where("plain")[[*GROUP, "origin", "at"]] if "origin" in battery.keys else battery.where("swap")
    both = battery.where("swap").merge(plain, on=[*GROUP, "origin"], suffixes=(" swap", "")) if len(plain) else plain
    rows = []
    for names, is_control, part in by_explainer(both) if len(both) else ():
        before, after = part["at"].to_numpy(), part["at swap"].to_numpy()
        moved = peak_shift(battery.shares[before], battery.shares[after])
        question = clustered_mean(peak_shift(battery.shares[before], battery.around_target[after]))
        alone = peak_shift(battery.shares[before], battery.around_target[before])
        shift, sd, centre_shift = (float(value) for value in (np.nanmean(moved), np.nanstd(moved), np.nanmean(alone)))
        rows.append(Swap(*names, is_control, shift, sd, centre_shift, question, question.n))
    return frame_of(rows, Swap)


@dataclass(frozen=True)
class Partition:
    """Shares of the variance of the whole compass, all sectors together.

    `eta2` of one factor alone, of the total. `within` splits what varies within a picture in two: between directions,
    and between places in the same direction; the two add up to 1.
    """

    eta2_direction: float
    eta2_location: float
    eta2_image: float
    within_direction: float
    within_location: float


def partition(rows: Floats) -> Partition | None:
    """Fix-B-Move-A. `rows` (n, 3 + sectors): codes of picture, direction and location, then the compass.

    creg2026 table 4 says neither what the response nor what the two factors are. Ours: the whole compass; direction is
    the relation asked for, location the ninth of the picture that the reference stands in.
    """
    codes, values = rows[:, :3].astype(np.int64), rows[:, 3:]
    centred = values - values.mean(axis=0)
    total = float((centred**2).sum())
    if total <= 0:
        return None

    def between(labels: npt.NDArray[np.int64]) -> float:
        """Sum of squares of group means around the grand mean."""
        counts = np.bincount(labels)
        sums = np.stack([np.bincount(labels, column) for column in centred.T], axis=1)[counts > 0]
        return float((sums**2 / counts[counts > 0, None]).sum())

    picture, direction, location = codes.T
    image, both = between(picture), between(picture * (direction.max() + 1) + direction)
    inside = max(total - image, 1e-300)
    return Partition(
        between(direction) / total, between(location) / total, image / total, (both - image) / inside,
        (total - both) / inside,
    )  # fmt: skip


@dataclass(frozen=True)
class Partitioned(Explained):
    """`Partition` of one explainer, and how much more location explains than direction."""

    is_control: bool
    eta2_direction: float
    eta2_location: float
    eta2_image: float
    within_direction: float
    within_location: float
    location_lead: Estimate
    n: int


def partitions(battery: Battery) -> pd.DataFrame:
    rows = []
    for names, is_control, part in by_explainer(battery.where("move")):
        codes = [pd.factorize(part[name], sort=True)[0] for name in ("origin", "relation", "zone")]
        table = np.column_stack([*codes, battery.shares[part["at"].to_numpy()]])
        whole = partition(table)
        if whole is not None:
            rng = stream(*names, "partition")
            lead = bootstrap_statistic(table, _lead, clusters=table[:, 0], rng=rng, resamples=200)
            rows.append(Partitioned(*names, is_control, **asdict(whole), location_lead=lead, n=len(part)))
    return frame_of(rows, Partitioned)


def _lead(rows: Floats) -> float:
    """How much more location explains than direction."""
    shares = partition(rows)
    return float("nan") if shares is None else shares.eta2_location - shares.eta2_direction

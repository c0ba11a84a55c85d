"""What changes when only the question changes? Another answer probed, the roles swapped, the reference moved."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.datasets.spatial.question import OPPOSITE
from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.compass.tables import GROUP, is_control, plain, stream
from karat.statistics import bootstrap_mean, bootstrap_statistic

Floats = npt.NDArray[np.float64]
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


def joined(keys: pd.DataFrame, detail: Floats, scores: pd.DataFrame) -> pd.DataFrame:
    """Keys of details with `at` (their row in `detail`), origin, kind, variant, relation, zone."""
    if "meta.origin" not in scores:
        return pd.DataFrame()
    about = ["meta.origin", "meta.kind", "meta.variant", "meta.relation", "meta.zone"]
    meta = scores[["sample", *(name for name in about if name in scores)]].drop_duplicates("sample")
    frame = keys.assign(at=np.arange(len(keys))).merge(meta, on="sample")
    frame.columns = [str(name).removeprefix("meta.") for name in frame.columns]
    return frame[np.isfinite(detail[frame["at"].to_numpy()]).all(axis=1)]


def probe_finding(frame: pd.DataFrame, shares: Floats) -> Finding | None:
    probes = frame[frame["kind"] == "probe"]
    if probes.empty:
        return None
    rows = []
    for (model, dataset, explainer), part in probes.groupby(GROUP):
        agree = probe_agreement(shares[part["at"]], part["variant"].tolist())
        share = bootstrap_mean(agree, clusters=part["origin"].to_numpy(), rng=stream(model, dataset, explainer, "pta"))
        table = part.pivot_table(index="origin", columns="variant", values="at", aggfunc="first")
        both = [table.reindex(columns=[r, OPPOSITE[r]]).dropna().astype(int) for r in ("left", "above")]
        found = [divergence(shares[pairs.iloc[:, 0]], shares[pairs.iloc[:, 1]]) for pairs in both]
        origins = np.concatenate([pairs.index.to_numpy() for pairs in both])
        rng = stream(model, dataset, explainer, "jsd")
        split = bootstrap_mean(np.concatenate(found), clusters=origins if len(origins) else None, rng=rng)
        rows.append((model, dataset, explainer, share.value, share.low, share.high, split.value, split.low, split.high,
                     len(table)))  # fmt: skip
    names = (*GROUP, "pta", "pta low", "pta high", "jsd", "jsd low", "jsd high", "scenes")
    table = pd.DataFrame(rows, columns=list(names))
    reacting = table[table["pta low"] > 0.25]["explainer"].unique().tolist()
    sentence = (
        f"Follow the probed answer more often than chance: {', '.join(reacting)}." if reacting
        else "No explainer follows the probed answer more often than chance (1 in 4)."
    )  # fmt: skip
    series = tuple(
        Series(f"{model} on {dataset}", tuple(part["explainer"]), tuple(part["pta"]), tuple(part["pta low"]),
               tuple(part["pta high"]))
        for (model, dataset), part in table.groupby(["model", "dataset"])
    )  # fmt: skip
    return Finding(
        "Target intervention",
        "The same picture and question, each of the four answers explained in turn. PTA: how often the strongest "
        "quadrant is that of the probed answer (a map that does not react: exactly 1/4). JSD: divergence in bits of "
        "the compasses of opposite answers.", (sentence,), names, plain(table), section="Interventions",
        figures=(Figure("Probe agreement", "intervals", "", "PTA", series, lines=(("no reaction", 0.25),)),),
    )  # fmt: skip


def swap_finding(frame: pd.DataFrame, shares: Floats, around_target: Floats) -> Finding | None:
    """`shares` around each question's reference; `around_target` around its target, which the swap has made of it."""
    swaps = frame[frame["kind"] == "swap"].merge(
        frame[frame["kind"] == "plain"], on=[*GROUP, "origin"], suffixes=(" swap", "")
    )
    if swaps.empty:
        return None
    rows = []
    for (model, dataset, explainer), part in swaps.groupby(GROUP):
        before, after = part["at"].to_numpy(), part["at swap"].to_numpy()
        moved = peak_shift(shares[before], shares[after])
        same = peak_shift(shares[before], around_target[after])
        alone = peak_shift(shares[before], around_target[before])
        one, two, three = (bootstrap_mean(v, rng=stream(model, dataset, explainer, k)) for k, v in
                           (("moved", moved), ("same", same), ("alone", alone)))  # fmt: skip
        rows.append((model, dataset, explainer, one.value, float(np.nanstd(moved)), three.value, two.value, two.low,
                     two.high, one.n))  # fmt: skip
    names = (*GROUP, "shift", "sd", "shift of the centre alone", "shift at the same centre", "low", "high", "n")
    table = pd.DataFrame(rows, columns=list(names))
    figures = tuple(
        Figure(f"Role swap: {model} on {dataset}", "bars", "", "degrees", tuple(
            Series(name, tuple(part["explainer"]), tuple(map(float, part[name])))
            for name in ("shift", "shift of the centre alone", "shift at the same centre")
        ), lines=(("random peaks", 90.0),))
        for (model, dataset), part in table.groupby(["model", "dataset"])
    )  # fmt: skip
    real = table[~table["explainer"].map(is_control)]
    reacting = real[real["low"] > 0]["explainer"].unique().tolist()
    return Finding(
        "Query role swap",
        "`Where is A relative to B` instead of `B relative to A`. `shift` compares peaks seen from each question's own "
        "reference, as the paper seems to; `the centre alone` is the shift that the unchanged map shows when it is "
        "read from the other object; `at the same centre` is what the question itself changes. Random peaks shift 90.",
        (f"The question alone moves the peak for {', '.join(reacting)}." if reacting
         else "The question alone moves no peak.",), names, plain(table), section="Interventions",
        figures=figures,
    )  # fmt: skip


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


def _partition_rows(part: pd.DataFrame, shares: Floats) -> Floats:
    codes = [pd.factorize(part[name], sort=True)[0] for name in ("origin", "relation", "zone")]
    return np.column_stack([*codes, shares[part["at"].to_numpy()]])


def _lead(rows: Floats) -> float:
    """How much more location explains than direction."""
    found = partition(rows)
    return float("nan") if found is None else found.eta2_location - found.eta2_direction


def partition_finding(frame: pd.DataFrame, shares: Floats) -> Finding | None:
    moves = frame[frame["kind"] == "move"]
    rows = []
    for (model, dataset, explainer), part in moves.groupby(GROUP):
        table = _partition_rows(part, shares)
        found = partition(table)
        if found is not None:
            rng = stream(model, dataset, explainer, "partition")
            lead = bootstrap_statistic(table, _lead, clusters=table[:, 0], rng=rng, resamples=200)
            rows.append((model, dataset, explainer, *astuple(found), lead.value, lead.low, lead.high, len(part)))
    if not rows:
        return None
    names = (*GROUP, "eta2 direction", "eta2 location", "eta2 image", "within direction", "within location",
             "location - direction", "low", "high", "n")  # fmt: skip
    parts = pd.DataFrame(rows, columns=list(names))
    figures = tuple(
        Figure(f"{model} on {dataset}", "bars", "", "share of variance within a picture", tuple(
            Series(name, tuple(part["explainer"]), tuple(map(float, part[f"within {name}"])))
            for name in ("direction", "location")))
        for (model, dataset), part in parts.groupby(["model", "dataset"])
    )  # fmt: skip
    return Finding(
        "Variance partition: fix the target, move the reference",
        "The target stays, the reference moves to other places, some in the same direction, some in others. Shares of "
        "the variance of the whole compass that direction (the relation), location (the ninth of the picture that the "
        "reference stands in) and the picture explain, each alone; `within` splits what varies within a picture into "
        "between directions and between places in the same direction.",
        (), names, plain(parts), section="Interventions", figures=figures,
    )  # fmt: skip

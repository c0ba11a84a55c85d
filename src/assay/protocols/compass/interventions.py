"""What changes when only the question changes? Another answer probed, the roles swapped, the reference moved."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from assay.datasets.spatial.question import OPPOSITE, RELATIONS
from assay.kernel.finding import Figure, Finding, Series
from assay.protocols.compass.tables import GROUP, plain, stream
from assay.statistics import bootstrap_mean, variance_partition

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
        pairs = table.reindex(columns=list(RELATIONS)).dropna().astype(int)
        found = [divergence(shares[pairs[r]], shares[pairs[OPPOSITE[r]]]) for r in ("left", "above")]
        split = bootstrap_mean(np.concatenate(found) if len(pairs) else np.full(1, np.nan),
                               clusters=np.tile(pairs.index, 2) if len(pairs) else None,
                               rng=stream(model, dataset, explainer, "jsd"))  # fmt: skip
        rows.append((model, dataset, explainer, share.value, share.low, share.high, split.value, split.low, split.high,
                     len(pairs)))  # fmt: skip
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
    reacting = table[table["low"] > 0]["explainer"].unique().tolist()
    return Finding(
        "Query role swap",
        "`Where is A relative to B` instead of `B relative to A`. `shift` compares peaks seen from each question's own "
        "reference, as the paper seems to; `the centre alone` is the shift that the unchanged map shows when it is "
        "read from the other object; `at the same centre` is what the question itself changes. Random peaks shift 90.",
        (f"The question alone moves the peak for {', '.join(reacting)}." if reacting
         else "The question alone moves no peak.",), names, plain(table), section="Interventions",
    )  # fmt: skip


def partition(frame: pd.DataFrame, shares: Floats) -> pd.DataFrame:
    """Fix-B-Move-A: sums of squares of the whole compass (all sectors together) by image, direction and location.

    Index image, direction, location, shared, residual; columns sum_squares, eta2 (of the total), within (of what image
    identity leaves). direction is the relation asked for, location the ninth of the picture the reference stands in.
    """
    table = pd.DataFrame({"image": frame["origin"], "direction": frame["relation"], "location": frame["zone"]})
    total: pd.Series[float] | None = None
    for k in range(shares.shape[1]):
        one = table.assign(value=shares[frame["at"], k])
        if one["value"].nunique() > 1:
            found = variance_partition(one, "value", ["image", "direction", "location"])["sum_squares"]
            total = found if total is None else total + found
    if total is None:
        return pd.DataFrame(columns=["sum_squares", "eta2", "within"])
    result = total.to_frame("sum_squares")
    result["eta2"] = result["sum_squares"] / total.sum()
    result["within"] = result["sum_squares"] / (total.sum() - total["image"])
    return result


def partition_finding(frame: pd.DataFrame, shares: Floats) -> Finding | None:
    moves = frame[frame["kind"] == "move"]
    rows = []
    for (model, dataset, explainer), part in moves.groupby(GROUP):
        found = partition(part, shares)
        if len(found):
            rows.append((model, dataset, explainer, *(found.loc[f, "eta2"] for f in ("direction", "location", "image")),
                         *(found.loc[f, "within"] for f in ("direction", "location")), len(part)))  # fmt: skip
    if not rows:
        return None
    names = (*GROUP, "eta2 direction", "eta2 location", "eta2 image", "within direction", "within location", "n")
    table = pd.DataFrame(rows, columns=list(names))
    figures = tuple(
        Figure(f"{model} on {dataset}", "bars", "", "share of variance within a picture", tuple(
            Series(name, tuple(part["explainer"]), tuple(map(float, part[f"within {name}"])))
            for name in ("direction", "location")))
        for (model, dataset), part in table.groupby(["model", "dataset"])
    )  # fmt: skip
    return Finding(
        "Variance partition: fix the target, move the reference",
        "The target stays, the reference moves to other places, some in the same direction, some in others. Shares of "
        "the variance of the whole compass that direction (the relation) and location (the ninth of the picture that "
        "the reference stands in) explain beyond each other and beyond the picture; `within`: of what is left after "
        "the picture.", (), names, plain(table), section="Interventions", figures=figures,
    )  # fmt: skip

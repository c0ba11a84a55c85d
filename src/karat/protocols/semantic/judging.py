"""Judges of what SemScore claims about predictions, methods, thresholds and classes: each by intervals, each "cannot
tell" where the run does not decide. What it claims about the order of models is judged in `orders`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from karat.kernel.claim import Agreement, Claim
from karat.kernel.identity import generator
from karat.protocols.semantic.classes import bias, confusable
from karat.protocols.semantic.reasons import kinds
from karat.statistics import Estimate, adjust, bootstrap_mean, paired_difference, spearman

if TYPE_CHECKING:
    from karat.results.run import Run

_WEAK = 0.4  # a correlation within ± this is no more than weak


def methods_differ(images: pd.DataFrame) -> Claim:
    text, where = "SSS depends strongly on the explanation method", "section 4.1, figure 2"
    best: tuple[float, str, str] | None = None
    for (model, dataset), group in images.groupby(["model", "dataset"]):
        wide = group.pivot_table(index="image", columns="explainer", values="sss")
        wide = wide[[name for name in wide if not str(name).startswith("control/")]]
        if wide.shape[1] < 2:
            continue
        means = wide.mean()
        low, high = str(means.idxmin()), str(means.idxmax())
        gap = paired_difference(
            wide[high], wide[low], rng=generator(0, f"{model}\0{dataset}", "semantic/methods"),
            confidence=1 - 0.05 / max(1, wide.shape[1] * (wide.shape[1] - 1) / 2),
        )  # fmt: skip
        if best is None or gap.low > best[0]:
            best = gap.low, f"{model}: {high} - {low} = {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}]", str(model)
    published = "table 1: 0.14 to 0.58 for FlexiViT alone"
    if best is None:
        return Claim(text, where, published, "-", "cannot tell", "the run has fewer than two methods")
    verdict: Agreement = "agree" if best[0] > 0.05 else "cannot tell"
    return Claim(text, where, published, best[1], verdict, "interval corrected for choosing the extreme pair")


def orthogonal(rows: pd.DataFrame) -> Claim:
    """Weak in every combination agrees; strong in any, after correction, disagrees."""
    text, where = "SSS says something that confidence does not", "section 1"
    found: list[tuple[str, Estimate]] = []
    groups = list(rows.dropna(subset=["sss", "confidence"]).groupby(["model", "dataset", "explainer"]))
    for keys, group in groups:
        if len(group) >= 10 and group["confidence"].nunique() > 2:
            rng = generator(0, "\0".join(map(str, keys)), "semantic/orthogonal")
            rho = spearman(
                group["sss"], group["confidence"], rng=rng, clusters=group["image"], confidence=1 - 0.05 / len(groups)
            )
            found.append((f"{keys[0]} · {keys[2]}", rho))
    published = "stated, no number"
    if not found:
        return Claim(text, where, published, "-", "cannot tell", "too few predictions with a confidence")
    widest = max(found, key=lambda one: abs(one[1].value))
    ours = f"largest |ρ|: {widest[0]} {widest[1].value:+.2f} [{widest[1].low:+.2f}, {widest[1].high:+.2f}]"
    verdict: Agreement = "cannot tell"
    if all(e.low > -_WEAK and e.high < _WEAK for _, e in found):
        verdict = "agree"
    elif any(e.low > _WEAK or e.high < -_WEAK for _, e in found):
        verdict = "disagree"
    return Claim(text, where, published, ours, verdict, f"agrees where every |ρ| is shown to be below {_WEAK:g}")


def occurs(rows: pd.DataFrame, kind: tuple[str, str, str], text: str, where: str) -> Claim:
    """A kind of prediction (see `reasons.kinds`) that the paper shows examples of: its share, where it is above zero
    beyond doubt. One example would be an anecdote."""
    published = "examples"
    known = rows.dropna(subset=["sss", "correct", "own_confidence"])
    shares: list[tuple[str, Estimate]] = []
    for keys, group in known.groupby(["model", "dataset", "explainer"]):
        chosen = next(part for name, part in kinds(group) if name == kind)
        inside = group.index.isin(chosen.index).astype(float)
        rng = generator(0, "\0".join(map(str, keys)), f"semantic/{'/'.join(kind)}")
        shares.append((f"{keys[0]} · {keys[2]}", bootstrap_mean(inside, rng=rng, clusters=group["image"])))
    if not shares:
        return Claim(text, where, published, "-", "cannot tell", "no prediction is known to be right or wrong")
    corrected = adjust([share.p for _, share in shares], "holm")
    name, most = max(shares, key=lambda one: one[1].value)
    ours = f"up to {most.value:.1%} of predictions ({name})" if most.value > 0 else "none"
    verdict: Agreement = "agree" if any(p < 0.05 for p in corrected) else "cannot tell"
    return Claim(text, where, published, ours, verdict, "a share above zero, corrected over methods")


def threshold_helps(run: Run) -> Claim:
    """Needs the curves that `thresholds` of the protocol keeps."""
    text, where, published = "A threshold lowers SSS by dropping faint noise", "appendix C", "figures 9 and 10"
    thresholds = [float(t) for t in run.spec["protocol"].get("thresholds") or ()]
    kept = run.details("sss")
    if 0.0 not in thresholds or 0.6 not in thresholds or not len(kept):
        return Claim(text, where, published, "-", "cannot tell", "run with protocol.thresholds that hold 0 and 0.6")
    at = [thresholds.index(0.6), thresholds.index(0.0)]
    gaps: dict[str, Estimate] = {}
    for place, part in kept.keys.groupby(["model", "dataset", "explainer"]):
        if not str(place[2]).startswith("control/"):
            both = kept.arrays["soft"][part.index.to_numpy()][:, at].astype(np.float64)
            rng = generator(0, "\0".join(map(str, place)), "semantic/threshold")
            gaps[" · ".join(map(str, place))] = paired_difference(both[:, 0], both[:, 1], rng=rng)
    down, up = (sum(bool(s * g.value > 0 and (g.low > 0 or g.high < 0)) for g in gaps.values()) for s in (-1, 1))
    if not gaps:
        return Claim(text, where, published, "-", "cannot tell", "the run has controls only")
    least, most = (pick(gaps.items(), key=lambda one: one[1].value) for pick in (max, min))
    ours = " to ".join(f"{g.value:+.3f} [{g.low:+.3f}, {g.high:+.3f}] ({name})" for name, g in (least, most))
    verdict: Agreement = "agree" if 2 * down > len(gaps) else "disagree" if 2 * up > len(gaps) else "cannot tell"
    return Claim(text, where, published, ours, verdict, f"SSS at 0.6 minus SSS at 0, lower under {down} of {len(gaps)}")


def classes_differ(rows: pd.DataFrame) -> Claim:
    """By `gain`, which is corrected for the size of the objects: SSS alone would differ by that."""
    text, where = "Models look in the right place for some classes and not for others", "appendix A.5"
    published = "DeiT Small: 0.0005 (plate) to 0.999 (waffle iron)"
    found = bias(rows)
    if found is None:
        return Claim(text, where, published, "-", "cannot tell", "no class has three predictions")
    apart = [row for row in found.rows if float(str(row[-1])) < 0.05]
    if not apart:
        return Claim(text, where, published, f"none of {len(found.rows)}", "cannot tell", "no class differs clearly")
    low, high = (pick(apart, key=lambda row: float(str(row[6]))) for pick in (min, max))
    ours = f"{len(apart)} of {len(found.rows)}, from {low[3]} (gain {low[6]:+.2f}) to {high[3]} ({high[6]:+.2f})"
    return Claim(text, where, published, ours, "agree", "gain of a class minus the mean, corrected over all classes")


def coverage(rows: pd.DataFrame, detectors: tuple[str, ...], least: float, published: float) -> Claim:
    """The paper's detection coverage: images where the detector finds anything above the least confidence."""
    text, where = "The detectors find at least one thing in nearly every image", "section 4.2"
    mine = rows[rows["model"].isin(detectors)]
    images = mine.groupby(["model", "dataset", "image"], as_index=False)["own_confidence"].max().dropna()
    if images.empty:
        because = "the run lacks these models; see the spec semantic-detectors"
        return Claim(text, where, f"{published:g}", "-", "cannot tell", because)
    found = {}
    for place, group in images.groupby(["model", "dataset"]):
        sure = group["own_confidence"] > least
        bounds = binomtest(int(sure.sum()), len(sure)).proportion_ci(method="wilson")
        found[str(place[0])] = float(sure.mean()), float(bounds.low), float(bounds.high)
    ours = "; ".join(f"{model} {share:.3f} [{low:.3f}, {high:.3f}]" for model, (share, low, high) in found.items())
    inside = [low <= published <= high for _, low, high in found.values()]
    verdict: Agreement = "agree" if all(inside) else "disagree"
    return Claim(text, where, f"{published:g}", ours, verdict, f"{sum(inside)} of {len(inside)} intervals hold it")


def similar_classes(rows: pd.DataFrame) -> Claim:
    text, where = (
        "A model may look at one of two similar classes in the right place and not at the other",
        "appendix A.4",
    )
    published = "Indian elephant 0.52, African elephant 0.34"
    found = confusable(rows)
    if found is None:
        return Claim(text, where, published, "-", "cannot tell", "no two classes with enough images were confused")
    apart = [row for row in found.rows if row[-1]]
    if not apart:
        return Claim(text, where, published, f"{len(found.rows)} pairs, none apart", "cannot tell", "intervals overlap")
    first = apart[0]
    ours = f"{len(apart)} of {len(found.rows)} pairs apart, as {first[3]} {first[6]:.2f} and {first[4]} {first[7]:.2f}"
    return Claim(text, where, published, ours, "agree", "intervals corrected for the number of pairs do not overlap")

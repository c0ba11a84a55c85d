"""What SemScore claims of predictions, methods, thresholds and classes: what one model can tell of `karat paper 003`.

A claim holds only where no single method makes it hold, and no map that never saw the model would do as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.claim import Agreement, Claim
from karat.kernel.identity import generator
from karat.protocols.common.judge import CANNOT_TELL, above, below, majority
from karat.protocols.common.words import interval
from karat.protocols.semantic.analysis import KEYS, LEVEL, methods_of, target_of
from karat.protocols.semantic.reasons import (
    SPURIOUS,
    Kind,
    best_blind,
    class_bias,
    confused_classes,
    excess,
    quadrants,
    relations,
    share_of_kind,
)
from karat.statistics import Estimate, paired_difference

if TYPE_CHECKING:
    from karat.kernel.roles import Results

STRONG = 0.05  # from here on a difference of SSS between methods counts as strong: it would reorder half of table 1
NEGLIGIBLE = 0.1  # a rank correlation within ± this is small by convention: one column tells 1 % of the other
SOME = 0.01  # "some" predictions are more than one in a hundred


def claims_of_predictions(images: pd.DataFrame, rows: pd.DataFrame, run: Results) -> list[Claim]:
    target = target_of(run)
    competing = rows[~rows["is_control"].astype(bool)]  # a control explains nothing
    return [
        methods_differ(images),
        orthogonal(competing),
        occurs(rows, ("correct", "confident", "spurious"), target,
               "Some correct, confident predictions rest on spurious features", "figure 3"),
        occurs(rows, ("incorrect", "unsure", "spurious"), target,
               "Some wrong, unsure predictions look at the wrong place", "figure 4"),
        occurs(rows, ("correct", "confident", "on the class"), target,
               "Some correct, confident predictions look at the right place", "appendix A.2"),
        occurs(rows, ("incorrect", "unsure", "on the class"), target,
               "Some wrong, unsure predictions look at the right place", "appendix A.3"),
        similar_classes(competing),
        classes_differ(competing),
        threshold_helps(run),
    ]  # fmt: skip


def methods_differ(images: pd.DataFrame) -> Claim:
    """Strong where the widest gap of every model is surely above the bar, and not by one method alone: the one that
    lies farthest out is left aside. Refuted where every model's widest gap, with it, is surely below the bar."""
    text, where = "SSS depends strongly on the explanation method", "section 4.1, figure 2"
    published = "table 1: 0.14 to 0.58 for FlexiViT alone"
    verdicts: list[Agreement] = []
    widest_gaps: dict[str, Estimate] = {}
    alone: set[str] = set()  # methods without which a gap is not surely strong
    for (model, dataset), group in images.groupby(["model", "dataset"]):
        wide = group.pivot_table(index="image", columns="explainer", values="sss", observed=True)[methods_of(group)]
        if wide.shape[1] > 1:
            low, high = _ends(wide)
            rest = wide.drop(columns=_farthest(wide)) if wide.shape[1] > 2 else wide
            gap = _widest_gap(wide, model, dataset)
            widest_gaps[f"{model} on {dataset}: {high} - {low}"] = gap
            with_all, without = above(gap, STRONG), above(_widest_gap(rest, model, dataset), STRONG)
            if with_all == "agree" and without != "agree":
                alone.add(_farthest(wide))
            verdicts.append("disagree" if with_all == "disagree" else "agree" if without == "agree" else CANNOT_TELL)
    if not verdicts:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs two methods or more on one model")
    least, most = (pick(widest_gaps.items(), key=lambda one: one[1].value) for pick in (min, max))
    ours = " to ".join(f"{interval(gap)} ({name})" for name, gap in dict((least, most)).items())
    verdict = verdicts[0] if len(set(verdicts)) == 1 else CANNOT_TELL
    counts = [verdicts.count(one) for one in ("agree", "disagree", CANNOT_TELL)]
    because = (
        f"strongly: by more than {STRONG:g}, whichever method is left out; {counts[0]} of {len(verdicts)} models and "
        f"datasets for, {counts[1]} against, {counts[2]} open"
    )
    because += f": there one method makes the gap ({', '.join(sorted(alone))})" if alone else ""
    return Claim(text, where, published, ours, verdict, f"{because}; corrected for choosing the extreme pair")


def _ends(wide: pd.DataFrame) -> tuple[str, str]:
    """The columns with the lowest and the highest mean."""
    means = wide.mean()
    return str(means.idxmin()), str(means.idxmax())


def _farthest(wide: pd.DataFrame) -> str:
    """The column without which the means lie closest together."""
    return min(_ends(wide), key=lambda one: float(np.ptp(wide.drop(columns=one).mean())))


def _widest_gap(wide: pd.DataFrame, *names: object) -> Estimate:
    low, high = _ends(wide)
    pairs = wide.shape[1] * (wide.shape[1] - 1) / 2
    rng = generator(0, "\0".join(map(str, names)), "semantic/methods")
    return paired_difference(wide[high], wide[low], rng=rng, confidence=1 - LEVEL / pairs)


def orthogonal(rows: pd.DataFrame) -> Claim:
    """Negligible in every combination agrees; more than negligible in any, after correction, disagrees."""
    text, where, published = "SSS is orthogonal to the confidence of predictions", "section 1", "stated, no number"
    correlations = relations(rows, "confidence", correct=True)
    if not correlations:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs predictions with a confidence")
    largest = max(correlations, key=lambda one: abs(one.rho.value))
    ours = (
        f"largest |ρ|: {largest.model} on {largest.dataset} · {largest.explainer} {interval(largest.rho, 2, sign=True)}"
    )
    beyond = [one for one in correlations if one.rho.low > NEGLIGIBLE or one.rho.high < -NEGLIGIBLE]
    verdict: Agreement = "disagree" if beyond else CANNOT_TELL
    if all(one.rho.low > -NEGLIGIBLE and one.rho.high < NEGLIGIBLE for one in correlations):
        verdict = "agree"
    because = (
        f"orthogonal: every |ρ| below {NEGLIGIBLE:g}, small by convention; surely above it in {len(beyond)} of "
        f"{len(correlations)} combinations, intervals corrected over all"
    )
    if beyond:
        sized = ", ".join(f"{one.model} · {one.explainer} {one.allowing_for_size:+.2f}" for one in beyond)
        because += f"; with the size of the object allowed for: {sized}"
    if verdict == CANNOT_TELL:
        because += "; needs more images"
    return Claim(text, where, published, ours, verdict, because)


def occurs(table: pd.DataFrame, kind: Kind, target: str, text: str, where: str) -> Claim:
    """A kind of prediction that the paper shows examples of. One example would be an anecdote, and a map that never saw
    the model has some, too: under most methods its share must be more than a few, and more than under the best of the
    controls that are blind to the model."""
    published = "examples"
    if kind[0] == "incorrect" and target != "predicted":
        because = "the run explains the true class, not the wrong prediction: use target: predicted, region: image"
        return Claim(text, where, published, "-", CANNOT_TELL, because)
    competing = table[~table["is_control"].astype(bool)]
    tests = max(1, competing[KEYS].drop_duplicates().shape[0])
    shares = [share for share in quadrants(competing, confidence=1 - LEVEL / tests) if share.kind == kind]
    if not shares:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs predictions that are known to be right or wrong")
    blind = best_blind(table)
    verdicts: list[Agreement] = []
    references: list[float] = []
    for share in shares:
        verdict = above(share.share, SOME)
        control = blind.get((share.model, share.dataset))
        if verdict == "agree" and control is not None:
            more = excess(table, share, control, confidence=1 - LEVEL / tests)
            verdict = "agree" if more.low > 0 else CANNOT_TELL
        verdicts.append(verdict)
        if control is not None:
            references.append(share_of_kind(table, (share.model, share.dataset, control), kind))
    most = max(shares, key=lambda one: one.share.value)
    ours = f"up to {most.share.value:.1%} of predictions ({most.model} on {most.dataset} · {most.explainer})"
    if references:
        ours += f"; of a map that never saw the model {min(references):.1%} to {max(references):.1%}"
    agree, disagree = (verdicts.count(one) for one in ("agree", "disagree"))
    because = (
        f"some: more than {SOME:.0%}{' and than under the best blind control' if references else ''}, surely so under "
        f"{agree} of {len(verdicts)} models, datasets and methods, surely fewer under {disagree}"
    )
    verdict = majority(agree, disagree, len(verdicts))
    if verdict == CANNOT_TELL:
        because += "; needs methods that agree, or more images"
    return Claim(text, where, published, ours, verdict, because)


def threshold_helps(run: Results) -> Claim:
    """Needs the curves that `thresholds` of the protocol keeps."""
    text, where, published = "A threshold lowers SSS by dropping faint noise", "appendix C", "figures 9 and 10"
    thresholds = [float(t) for t in run.spec["protocol"].get("thresholds") or ()]
    kept = run.details("sss")
    if 0.0 not in thresholds or 0.6 not in thresholds or not len(kept.keys):
        return Claim(text, where, published, "-", CANNOT_TELL, "needs protocol.thresholds that hold 0 and 0.6")
    scores = run.scores()
    control = dict(zip(scores["explainer"], scores["explainer.is_control"], strict=True))
    at = [thresholds.index(0.6), thresholds.index(0.0)]
    gaps: dict[str, Estimate] = {}
    for place, part in kept.keys.groupby(KEYS):
        if not control[place[2]]:
            both = kept.arrays["soft"][part.index.to_numpy()][:, at].astype(np.float64)
            rng = generator(0, "\0".join(map(str, place)), "semantic/threshold")
            gaps[" · ".join(map(str, place))] = paired_difference(both[:, 0], both[:, 1], rng=rng)
    if not gaps:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs methods: the run has controls only")
    down, up = (sum(judge(gap) == "agree" for gap in gaps.values()) for judge in (below, above))
    least, most = (pick(gaps.items(), key=lambda one: one[1].value) for pick in (max, min))
    ours = " to ".join(f"{interval(gap, sign=True)} ({name})" for name, gap in dict((least, most)).items())
    because = f"SSS at 0.6 minus SSS at 0, lower under {down} of {len(gaps)}"
    return Claim(text, where, published, ours, majority(down, up, len(gaps)), because)


def classes_differ(rows: pd.DataFrame) -> Claim:
    """Under one method a class is explained elsewhere (mean SSS from one half), surely worse than the mean by `gain`,
    which is corrected for the size of the objects, while another is explained on the object. Classes that merely
    differ do not tell it."""
    text, where = "Models look in the right place for some classes and not for others", "appendix A.5"
    published = "DeiT Small: 0.0005 (plate) to 0.999 (waffle iron)"
    bias = class_bias(rows)
    small = f"{len(bias.too_small)} classes have fewer than the {bias.least_images} images it takes"
    if bias.classes.empty:
        return Claim(text, where, published, "-", CANNOT_TELL, f"needs larger classes: {small}")
    apart = bias.classes[bias.classes["p"] < LEVEL].sort_values("gap")
    counted = f"{len(apart)} of {len(bias.classes)} classes differ from the mean of their model"
    elsewhere = apart[(apart["gap"] < 0) & (apart["sss"] >= SPURIOUS)]
    for low in elsewhere.to_dict("records"):
        beside = bias.classes[(bias.classes[KEYS] == [low[key] for key in KEYS]).all(axis=1)]
        high = beside.sort_values("sss").iloc[0]
        if high["sss"] < SPURIOUS:
            ends = f"SSS {low['sss']:.2f} ({low['label']}) and {high['sss']:.2f} ({high['label']})"
            ours = f"{counted}; {ends} under one method"
            because = f"{low['model']} · {low['explainer']}, corrected over all classes; {small}"
            return Claim(text, where, published, ours, "agree", because)
    because = f"none of them is explained elsewhere (SSS from {SPURIOUS:g}); needs more or larger classes: {small}"
    return Claim(text, where, published, counted, CANNOT_TELL, because)


def similar_classes(rows: pd.DataFrame) -> Claim:
    text, where = (
        "A model may look at one of two similar classes in the right place and not at the other",
        "appendix A.4",
    )
    published = "Indian elephant 0.52, African elephant 0.34"
    pairs = confused_classes(rows)
    if not pairs:
        return Claim(text, where, published, "-", CANNOT_TELL, "no two classes with enough images were confused")
    apart = [pair for pair in pairs if pair.apart]
    if not apart:
        most = max(pair.images for pair in pairs)
        because = f"intervals overlap: needs more than {most} images of each class"
        return Claim(text, where, published, f"{len(pairs)} pairs, none apart", CANNOT_TELL, because)
    first = apart[0]
    ours = (
        f"{len(apart)} of {len(pairs)} pairs apart, as {first.label} {first.sss:.2f} and {first.other} "
        f"{first.sss_of_other:.2f}"
    )
    return Claim(text, where, published, ours, "agree", "intervals corrected for the number of pairs do not overlap")

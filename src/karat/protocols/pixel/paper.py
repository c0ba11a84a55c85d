"""The claims of pixelrules2024 beside a run, each judged by an interval, and its tables with both numbers in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.identity import generator
from karat.protocols.common.judge import Family, all_hold
from karat.protocols.common.published import load
from karat.protocols.common.words import interval
from karat.protocols.pixel.frames import SINGLE, TRUTH, Scored, base, is_method, paper_name
from karat.protocols.pixel.published_tables import COMPARED, tables
from karat.protocols.pixel.rankings import PIXEL, titled
from karat.statistics import Estimate, kendall, paired_difference

if TYPE_CHECKING:
    from karat.results.run import Run

GRADIENT_SHAP, GRAD_CAM, KERNEL_SHAP = "gradient/gradient_shap", "cam/gradcam", "shapley/kernel_shap"
UNTOUCHED = 0.01  # the largest change of table 2 is 0.67 points; within one point a model counts as untouched
SAME_ORDER = 0.8  # from here on two orders count as the same
PRECISE = 0.2  # the largest weighted IoU of table 4, over all columns, is 0.188
_TWINS = (("DeepLift", "IxG"), ("GBP", "Deconvnet"))


def comparison(run: Run) -> Comparison:
    scored = Scored(run)
    claims = [*_accuracies(scored)]
    for model in scored.judged:
        claims += _truth(scored, model)
        claims += _explainers(scored, model)
        claims += _protocols(scored, model)
        claims += _twins(scored, model)
    return Comparison(tuple(claims), tuple(tables(scored)))


def _accuracies(scored: Scored) -> list[Claim]:
    claims = []
    for model in scored.models:
        found = scored.accuracy(model)
        clean, perturbed = found[:, 0], found[:, 1]
        gain = paired_difference(perturbed, clean, rng=generator(0, model, "pixel/paper"))
        ours = f"{clean.mean():.1%} clean, {perturbed.mean():.1%} perturbed"
        if model in scored.judged:
            claims.append(Claim(
                f"{model}: trained on the shortcut, it is right with it and fails without it", "Table 1",
                _printed(scored, model, "Table 1"), ours, _above(gain, 0.0), f"the shortcut adds {interval(gain)}",
            ))  # fmt: skip
        else:
            verdict: Agreement = "cannot tell"
            if gain.low >= -UNTOUCHED and gain.high <= UNTOUCHED:
                verdict = "agree"
            elif gain.low > UNTOUCHED or gain.high < -UNTOUCHED:
                verdict = "disagree"
            claims.append(Claim(
                f"{model}: trained on clean images, it does not notice the shortcut", "Table 2",
                _printed(scored, model, "Table 2"), ours, verdict,
                f"the shortcut changes accuracy by {interval(gain)}; within ±{UNTOUCHED} it counts as unnoticed",
            ))  # fmt: skip
    return claims


def _printed(scored: Scored, model: str, number: str) -> str:
    table, row = load("pixel").tables[number], scored.network(model)
    at = table.column("Model").index(row)
    clean, perturbed = (table.column(f"{scored.images} {name}")[at] for name in ("C-Set", "P-Set"))
    return f"{clean} % clean, {perturbed} % perturbed ({scored.images_in_full}, {row})"


def _truth(scored: Scored, model: str) -> list[Claim]:
    """Section 4.3: the truth deletes fastest and adds fastest."""
    names = scored.explainers(model)
    by_base = {base(name): name for name in names}
    if TRUTH not in by_base:
        return []
    truth, published, column = by_base[TRUTH], load("pixel").tables["Table 3"], scored.column(model)
    claims = []
    for metric, short, sign in (("deletion", "Del", 1.0), ("addition", "Add", -1.0)):
        gaps = {name: scored.difference(model, metric, name, truth) for name in names if name != truth}
        gaps = {name: gap for name, gap in gaps.items() if np.isfinite(gap.value)}
        worst = min(gaps, key=lambda name: sign * gaps[name].value, default=None)
        if worst is None:
            continue
        word = "lowest" if metric == "deletion" else "highest"
        printed = dict(zip(published.column("Method"), published.column(f"{column} {short}"), strict=True))
        claims.append(Claim(
            f"{model}: the truth's {metric} area is the {word} of all", "Table 3", f"Ours {printed['Ours']} ({column})",
            f"{interval(scored.mean(model, metric, truth))}; next {paper_name(worst)} "
            f"{interval(scored.mean(model, metric, worst))}",
            _against_all(gaps, sign).verdict,
            f"{_against_all(gaps, sign).counts} orders; the nearest differs by {interval(gaps[worst])}",
        ))  # fmt: skip
        for other, why in ((SINGLE, "pixels are not independent"), (KERNEL_SHAP, "all pixels at once are too many")):
            if other in by_base and by_base[other] in gaps:
                gap = gaps[by_base[other]]
                claims.append(Claim(
                    f"{model}: the truth beats {paper_name(other)} in {metric} ({why})", "section 4.3",
                    f"{printed['Ours']} against {printed[paper_name(other)]} ({column})", interval(gap),
                    _above(_signed(gap, sign), 0.0), f"{paper_name(other)} minus truth",
                ))  # fmt: skip
    return claims


def _explainers(scored: Scored, model: str) -> list[Claim]:
    """Section 4.4: few find the place, none the pixels, GradientSHAP does best."""
    methods = [name for name in scored.explainers(model) if is_method(name)]
    hits = {name: scored.mean(model, "hit", name) for name in methods}
    overlaps = {name: scored.mean(model, "weighted_iou", name) for name in methods}
    methods = [name for name in methods if np.isfinite(overlaps[name].value)]
    if len(methods) < 2:
        return []
    below = sum(hits[name].high < 0.5 for name in methods)
    above = sum(hits[name].low > 0.5 for name in methods)
    half = len(methods) / 2
    verdict: Agreement = "agree" if below > half else "disagree" if above >= half else "cannot tell"
    best = max(methods, key=lambda name: overlaps[name].value)
    column = scored.column(model)
    published = load("pixel").tables["Table 4"]
    printed = dict(zip(published.column("Method"), published.column(f"{column} WIoU"), strict=True))
    their_hits = [float(value) for value in published.column(f"{column} HA") if value is not None]
    claims = [
        Claim(
            f"{model}: most explainers miss the patch in more than half of the images", "section 4.4",
            f"{sum(value < 50 for value in their_hits)} of {len(their_hits)} hit below 50 % ({column})",
            f"{below} of {len(methods)} below half for sure, {above} above", verdict, "counted by intervals",
        ),
        Claim(
            f"{model}: no explainer ranks single pixels well", "section 4.4",
            f"weighted IoU at most {max(float(value) for value in printed.values() if value is not None)} ({column})",
            f"best {paper_name(best)} {interval(overlaps[best])}",
            "agree" if overlaps[best].high < PRECISE else "disagree" if overlaps[best].low > PRECISE else "cannot tell",
            f"well means above {PRECISE}",
        ),
    ]  # fmt: skip
    shap = next((name for name in methods if base(name) == GRADIENT_SHAP), None)
    numbers = {
        name: float(value) for name, value in printed.items() if value is not None and name not in ("SD", "Ours")
    }
    if shap is not None and max(numbers, key=numbers.__getitem__) == "GradientSHAP":  # elsewhere Occlusion is ahead
        rival = max((name for name in methods if name != shap), key=lambda name: overlaps[name].value)
        gaps = {name: scored.difference(model, "weighted_iou", shap, name) for name in methods if name != shap}
        claims.append(Claim(
            f"{model}: GradientSHAP is the best explainer by weighted IoU", "section 4.4",
            f"{printed['GradientSHAP']} ({column})", f"{interval(overlaps[shap])}; {paper_name(rival)} "
            f"{interval(overlaps[rival])}", _against_all(gaps, 1.0).verdict,
            f"{_against_all(gaps, 1.0).counts} rivals; minus {paper_name(rival)}: {interval(gaps[rival])}",
        ))  # fmt: skip
    both = [name for name in methods if printed.get(paper_name(name)) is not None]
    if len(both) > 3:
        tau = kendall([float(printed[paper_name(name)] or 0) for name in both], [overlaps[n].value for n in both])
        agreed: Agreement = "agree" if tau.p < 0.05 and tau.value >= SAME_ORDER else "cannot tell"
        if tau.value < SAME_ORDER and (tau.p < 0.05 or tau.value < 0):
            agreed = "disagree"
        claims.append(Claim(
            f"{model}: explainers come in the paper's order of weighted IoU", f"Table 4, {column}", "tau 1",
            f"tau {tau.value:.2f}, p {tau.p:.3f}, {len(both)} explainers", agreed,
            f"the same order: tau at least {SAME_ORDER:g} (nine of ten pairs alike), with p below 0.05",
        ))  # fmt: skip
    return claims


def _protocols(scored: Scored, model: str) -> list[Claim]:
    """Section 4.4: Grad-CAM is first where cells are deleted and last where pixels count."""
    methods = [name for name in scored.explainers(model) if is_method(name)]
    cam = next((name for name in methods if base(name) == GRAD_CAM), None)
    compared = [name for name in methods if paper_name(name) in COMPARED]
    if cam is None or len(compared) < 3:
        return []
    claims = []
    names = titled(scored, model, PIXEL)
    for metric, word, sign in (("ids", "first", 1.0), ("sds", "first", 1.0), ("weighted_iou", "last", -1.0)):
        if metric not in names:
            continue
        gaps = {name: scored.difference(model, metric, cam, name) for name in compared if name != cam}
        nearest = min(gaps, key=lambda name: sign * gaps[name].value)
        claims.append(Claim(
            f"{model}: of five explainers Grad-CAM is {word} by {names[metric]}", "Table 5",
            f"{word} (ImageNet, ResNet-50)", f"Grad-CAM minus {paper_name(nearest)}: {interval(gaps[nearest])}",
            _against_all(gaps, sign).verdict, f"{_against_all(gaps, sign).counts} of the others run",
        ))  # fmt: skip
    by_name = {paper_name(name): name for name in methods}
    if names.get("sds") == "IDSDS" and {"IG", "IG (uniform)"} <= set(by_name):
        gap = scored.difference(model, "sds", by_name["IG (uniform)"], by_name["IG"])
        claims.append(Claim(
            f"{model}: a uniform baseline improves IG under IDSDS", "section 4.4", "it improves (ImageNet, ResNet-50)",
            f"uniform minus zero: {interval(gap)}", _above(gap, 0.0), "over the same images",
        ))  # fmt: skip
    return claims


def _twins(scored: Scored, model: str) -> list[Claim]:
    """Columns that the paper prints twice: are they one method here too?"""
    column = scored.column(model)
    table = load("pixel").tables["Table 3"]
    printed = {str(row[0]): row[1:] for row in table.rows}
    claims = []
    for first, second in _TWINS:
        by_name = {paper_name(name): name for name in scored.explainers(model)}
        at = table.columns.index(f"{column} Del") - 1
        same = printed[first][at : at + 2] == printed[second][at : at + 2]
        if not same or first not in by_name or second not in by_name:
            continue
        areas = [scored.wide(model, metric) for metric in ("deletion", "addition")]
        apart = float(np.mean([(t[by_name[first]] - t[by_name[second]]).dropna() != 0 for t in areas]))
        where = "in every column" if first == "DeepLift" else "on both CIFAR sets"
        claims.append(Claim(
            f"{model}: {first} and {second} have the same areas to three decimals", f"Table 3, {column}",
            f"both {printed[first][at]} and {printed[first][at + 1]}", f"areas differ in {apart:.0%} of the images",
            "agree" if apart == 0 else "disagree", f"flagged: the paper has them equal {where}",
        ))  # fmt: skip
    return claims


def _against_all(gaps: Mapping[str, Estimate], sign: float) -> Family:
    """Whether every difference has the claimed sign, by one-sided p-values; one that has not refutes after Holm."""
    p_for = [gap.p / 2 if sign * gap.value > 0 else 1 - gap.p / 2 for gap in gaps.values()]
    return all_hold(p_for, [1 - p for p in p_for])


def _signed(gap: Estimate, sign: float) -> tuple[float, float, float]:
    """(low, value, high) of a difference, turned so that more is in the claim's favour."""
    low, high = sorted((sign * gap.low, sign * gap.high))
    return low, sign * gap.value, high


def _above(gap: Estimate | tuple[float, float, float], least: float) -> Agreement:
    low, high = (gap.low, gap.high) if isinstance(gap, Estimate) else (gap[0], gap[2])
    if low > least:
        return "agree"
    return "disagree" if high < least else "cannot tell"

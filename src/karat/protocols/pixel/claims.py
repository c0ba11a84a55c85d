"""`karat paper 004`: what pixelrules2024 claims, judged on the tables of `analysis`, one claim for each kind of model.

Models of one kind differ in their seeds. A claim holds of the kind where it holds of every one of them, and is refuted
where it is refuted in more than half and holds in none: what a seed turns round is not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.typing import Scalar
from karat.protocols.common.judge import CANNOT_TELL, Family, above, all_hold, below, one_sided, samples_wanted, within
from karat.protocols.common.published import load
from karat.protocols.common.words import interval
from karat.protocols.pixel.analysis import SINGLE, Explained, Metric, Network, Scored
from karat.protocols.pixel.findings import titles
from karat.protocols.pixel.published_tables import COMPARED, tables
from karat.statistics import Estimate, adjust, kendall

if TYPE_CHECKING:
    from karat.results.run import Run

UNTOUCHED = 0.01  # the largest change of table 2 is 0.67 points; within one point a model counts as untouched
SAME_ORDER = 0.8  # from here on two orders count as the same: nine of ten pairs alike
PRECISE = 0.2  # "well" is more than a fifth of what a perfect explainer scores; table 4 has at most 0.188, unscaled
LEVEL = 0.05
MANY = 10_000  # images; beyond, their number says no more than that there is hardly a difference
_TWINS = (("DeepLift", "IxG"), ("GBP", "Deconvnet"))
_SIGNS: tuple[tuple[Metric, str, str, float], ...] = (
    ("deletion", "Del", "lowest", 1.0),
    ("addition", "Add", "highest", -1.0),
)
_FIRST: tuple[tuple[Metric, str, float], ...] = (
    ("ids", "first", 1.0),
    ("sds", "first", 1.0),
    ("weighted_iou", "last", -1.0),
)


@dataclass(frozen=True)
class Judged:
    """What one model says to a claim, and what it would take to tell where it does not."""

    verdict: Agreement
    ours: str
    because: str
    needs: str = ""


@dataclass(frozen=True)
class Kind:
    """Models that differ in nothing but their seeds, and what of the paper they go beside."""

    name: str
    models: tuple[Network, ...]
    column: str | None  # of tables 3 and 4
    network: str | None  # of tables 1 and 2

    def printed(self, number: str, short: str) -> dict[str, float]:
        """What a table of the paper has in this kind's column, by method."""
        if self.column is None:
            return {}
        table = load("pixel").tables[number]
        pairs = zip(table.column("Method"), table.column(f"{self.column} {short}"), strict=True)
        return {str(method): float(str(value)) for method, value in pairs if value is not None}

    def claim(self, text: str, where: str, published: str, judged: Mapping[str, Judged | None]) -> Iterator[Claim]:
        """One claim of what the models say, by label; none where no model has anything to say."""
        known = {label: one for label, one in judged.items() if one is not None}
        if not known:
            return
        alone = len(known) == 1
        ours = "; ".join(one.ours if alone else f"{label}: {one.ours}" for label, one in known.items())
        reasons = list(dict.fromkeys(one.because for one in known.values()))
        because = reasons[0] if len(reasons) == 1 else "; ".join(f"{k}: {one.because}" for k, one in known.items())
        verdict = together([one.verdict for one in known.values()])
        if not alone:
            counts = [sum(one.verdict == v for one in known.values()) for v in ("agree", "disagree", CANNOT_TELL)]
            because = f"of {len(known)} models {counts[0]} for, {counts[1]} against, {counts[2]} open; {because}"
        if verdict == CANNOT_TELL:
            needs = {k: one.needs for k, one in known.items() if one.verdict == CANNOT_TELL and one.needs}
            if needs:
                because += "; needs " + "; ".join(each if alone else f"{k}: {each}" for k, each in needs.items())
        yield Claim(f"{self.name}: {text}", where, published, ours, verdict, because)


def together(verdicts: Sequence[Agreement]) -> Agreement:
    """
    >>> together(["agree", "agree"]), together(["agree", "disagree"]), together(["disagree", "cannot tell", "disagree"])
    ('agree', 'cannot tell', 'disagree')
    """
    if all(one == "agree" for one in verdicts):
        return "agree"
    against = sum(one == "disagree" for one in verdicts)
    return "disagree" if 2 * against > len(verdicts) and "agree" not in verdicts else CANNOT_TELL


def _images(*wanted: int | None) -> str:
    """In words, how many images would tell: as many as the hardest of several asks for."""
    known = [n for n in wanted if n is not None]
    if len(known) < len(wanted) or not known:
        return "more images than can be said: there is no difference to be seen"
    count = f"about {max(known):,}" if max(known) <= MANY else f"more than {MANY:,}"
    return f"{count} images that the shortcut decides, if it is as it seems"


def compare(run: Run) -> Comparison:
    scored = Scored(run)
    claims: list[Claim] = []
    untouched = [model for model in scored.models if model not in scored.judged]
    for kind in kinds(scored, scored.judged):
        claims += _takes_shortcut(scored, kind)
        claims += _truth(scored, kind)
        claims += _explainers(scored, kind)
        claims += _protocols(scored, kind)
        claims += _twins(scored, kind)
    for kind in kinds(scored, untouched):
        claims += _untouched(scored, kind)
    return Comparison(tuple(claims), tuple(tables(scored)))


def kinds(scored: Scored, models: Sequence[Network]) -> list[Kind]:
    groups: dict[tuple[Scalar, ...], list[Network]] = {}
    for model in models:
        named = model.images is not None and model.architecture is not None
        key = (model.images, model.architecture, model.deleted) if named else (model.label,)
        groups.setdefault(key, []).append(model)
    made = []
    for members in groups.values():
        first = members[0]
        several = f"{len(members)} × {first.architecture} on {first.images}" + (", deleted cells" * bool(first.deleted))
        column = None if first.column is None else f"{scored.images}+{first.column}"
        made.append(Kind(several if len(members) > 1 else first.label, tuple(members), column, first.network))
    return made


def _accuracy_printed(scored: Scored, kind: Kind, number: str) -> str:
    if kind.network is None:
        return "-"
    table = load("pixel").tables[number]
    at = table.column("Model").index(kind.network)
    clean, perturbed = (table.column(f"{scored.images} {name}")[at] for name in ("C-Set", "P-Set"))
    return f"{clean} % clean, {perturbed} % perturbed ({scored.images_in_full}, {kind.network})"


def _takes_shortcut(scored: Scored, kind: Kind) -> Iterator[Claim]:
    judged: dict[str, Judged | None] = {}
    for model in kind.models:
        one = scored.accuracy(model.label)
        ours = f"{one.clean:.1%} clean, {one.perturbed:.1%} perturbed"
        judged[model.label] = Judged(above(one.gain), ours, f"the shortcut adds {interval(one.gain)}")
    text = "trained on the shortcut, it is right with it and fails without it"
    yield from kind.claim(text, "Table 1", _accuracy_printed(scored, kind, "Table 1"), judged)


def _untouched(scored: Scored, kind: Kind) -> Iterator[Claim]:
    judged: dict[str, Judged | None] = {}
    for model in kind.models:
        one = scored.accuracy(model.label)
        because = f"the shortcut changes accuracy by {interval(one.gain)}; within ±{UNTOUCHED} it counts as unnoticed"
        ours = f"{one.clean:.1%} clean, {one.perturbed:.1%} perturbed"
        room = UNTOUCHED if one.gain.value > 0 else -UNTOUCHED
        judged[model.label] = Judged(
            within(one.gain, UNTOUCHED), ours, because, _images(samples_wanted(one.gain, room)).split(" that")[0]
        )
    text = "trained on clean images, it does not notice the shortcut"
    yield from kind.claim(text, "Table 2", _accuracy_printed(scored, kind, "Table 2"), judged)


def _truth(scored: Scored, kind: Kind) -> Iterator[Claim]:
    """Section 4.3: the truth deletes fastest and adds fastest."""
    for metric, short, word, sign in _SIGNS:
        printed = kind.printed("Table 3", short)
        fastest: dict[str, Judged | None] = {}
        for model in (one.label for one in kind.models):
            truth, gaps = scored.truth(model), _gaps_of_truth(scored, model, metric)
            if truth is None or not gaps:
                continue
            nearest = min(gaps, key=lambda one: sign * gaps[one].value)
            family = _against_all(list(gaps.values()), sign)
            mean, next_ = scored.mean(model, metric, truth), scored.mean(model, metric, nearest.label)
            ours = f"{interval(mean)}; next {nearest.short} {interval(next_)}"
            fastest[model] = Judged(
                family.verdict, ours, f"{family.counts} orders", _images(samples_wanted(gaps[nearest]))
            )
        published = f"Ours {printed['Ours']} ({kind.column})" if printed else "-"
        yield from kind.claim(f"the truth's {metric} area is the {word} of all", "Table 3", published, fastest)
        for name, row, why in (
            (SINGLE, "SD", "pixels are not independent"),
            ("shapley/kernel_shap", "KernelSHAP", "all pixels at once are too many"),
        ):
            beaten: dict[str, Judged | None] = {}
            for model in (one.label for one in kind.models):
                gaps = _gaps_of_truth(scored, model, metric)
                other = next((one for one in gaps if one.name == name), None)
                if other is not None:
                    verdict = above(gaps[other]) if sign > 0 else below(gaps[other])
                    needs = _images(samples_wanted(gaps[other]))
                    beaten[model] = Judged(verdict, interval(gaps[other]), f"{row} minus truth", needs)
            published = f"{printed['Ours']} against {printed[row]} ({kind.column})" if printed else "-"
            yield from kind.claim(f"the truth beats {row} in {metric} ({why})", "section 4.3", published, beaten)


def _gaps_of_truth(scored: Scored, model: str, metric: Metric) -> dict[Explained, Estimate]:
    """Every other order minus the truth's."""
    truth, means = scored.truth(model), scored.means(model, metric)
    if truth not in means or truth is None:
        return {}
    others = [one for one in scored.explainers(model) if one.label in means and not one.is_truth]
    return {one: scored.difference(model, metric, one.label, truth) for one in others}


def _explainers(scored: Scored, kind: Kind) -> Iterator[Claim]:
    """Section 4.4: few find the place, none the pixels, GradientSHAP does best."""
    hits, overlaps = kind.printed("Table 4", "HA"), kind.printed("Table 4", "WIoU")
    models = [model.label for model in kind.models if len(scored.methods(model.label, "weighted_iou")) > 1]
    where = f"({kind.column})"
    few = f"{sum(value < 50 for value in hits.values())} of {len(hits)} hit below 50 % {where}" if hits else "-"
    most = "most explainers miss the patch in more than half of the images"
    yield from kind.claim(most, "section 4.4", few, {model: _misses(scored, model) for model in models})
    at_most = f"weighted IoU at most {max(overlaps.values())} {where}" if overlaps else "-"
    precise = {model: _precise(scored, model) for model in models}
    yield from kind.claim("no explainer ranks single pixels well", "section 4.4", at_most, precise)
    methods = {name: value for name, value in overlaps.items() if name not in ("SD", "Ours")}
    if methods and max(methods, key=methods.__getitem__) == "GradientSHAP":  # elsewhere Occlusion is ahead
        best = {model: _best(scored, model, "gradient/gradient_shap") for model in models}
        published = f"{methods['GradientSHAP']} {where}"
        yield from kind.claim("GradientSHAP is the best explainer by weighted IoU", "section 4.4", published, best)
    if methods:
        order = {model: _same_order(scored, model, methods) for model in models}
        text = "explainers come in the paper's order of weighted IoU"
        yield from kind.claim(text, f"Table 4, {kind.column}", "tau 1", order)


def _misses(scored: Scored, model: str) -> Judged:
    hits = [scored.mean(model, "hit", one.label) for one in scored.as_published(model, "weighted_iou")]
    low, high = sum(one.high < 0.5 for one in hits), sum(one.low > 0.5 for one in hits)
    half = len(hits) / 2
    verdict: Agreement = "agree" if low > half else "disagree" if high >= half else CANNOT_TELL
    ours = f"{low} of {len(hits)} below half for sure, {high} above"
    below_half = [one for one in hits if one.value < 0.5]
    most = below_half if len(below_half) > half else [one for one in hits if one.value >= 0.5]
    wanted = sorted(n for one in most if (n := samples_wanted(one, 0.5)) is not None)
    enough = wanted[int(half)] if len(wanted) > half else None  # with so many images, more than half are surely told
    return Judged(verdict, ours, "counted by intervals, the paper's configurations alone", _images(enough))


def _precise(scored: Scored, model: str) -> Judged:
    """Every explainer below the bar agrees; one above it, after correction, disagrees."""
    methods = scored.methods(model, "weighted_iou")
    shares = {one: scored.relative(model, one.label) for one in methods}
    scaled = any(np.isfinite(share.value) for share in shares.values())
    if not scaled:
        shares = {one: scored.mean(model, "weighted_iou", one.label) for one in methods}
    tests = [one_sided(share, PRECISE) for share in shares.values()]
    p_above, p_below = (np.array(side, dtype=float) for side in zip(*tests, strict=True))
    known = np.isfinite(p_above)
    verdict: Agreement = CANNOT_TELL
    if known.any() and (adjust(p_above[known], "holm") < LEVEL).any():
        verdict = "disagree"
    elif known.all() and (p_below < LEVEL).all():
        verdict = "agree"
    best = max(shares, key=lambda one: np.nan_to_num(shares[one].value, nan=-1.0))
    raw = scored.mean(model, "weighted_iou", best.label)
    ours = f"best {best.short} {interval(raw)}" + (f", {interval(shares[best], 2)} of the ceiling" if scaled else "")
    because = f"well: more than {PRECISE:g} of the ceiling{'' if scaled else ' (not known: of 1)'}"
    return Judged(verdict, ours, because, _images(samples_wanted(shares[best], PRECISE)))


def _best(scored: Scored, model: str, name: str) -> Judged | None:
    methods = scored.as_published(model, "weighted_iou")
    mine = next((one for one in methods if one.name == name), None)
    if mine is None:
        return None
    others = [one for one in methods if one is not mine]
    gaps = {one: scored.difference(model, "weighted_iou", mine.label, one.label) for one in others}
    rival = min(gaps, key=lambda one: gaps[one].value)
    family = _against_all(list(gaps.values()), 1.0)
    ours = f"{interval(scored.mean(model, 'weighted_iou', mine.label))}; minus {rival.short}: {interval(gaps[rival])}"
    return Judged(family.verdict, ours, f"{family.counts} rivals", _images(samples_wanted(gaps[rival])))


def _same_order(scored: Scored, model: str, printed: Mapping[str, float]) -> Judged | None:
    methods = [one for one in scored.as_published(model, "weighted_iou") if one.paper in printed]
    if len(methods) < 4:
        return None
    means = scored.means(model, "weighted_iou")
    tau = kendall([printed[str(one.paper)] for one in methods], [means[one.label] for one in methods])
    verdict: Agreement = "agree" if tau.p < LEVEL and tau.value >= SAME_ORDER else CANNOT_TELL
    if tau.value < SAME_ORDER and (tau.p < LEVEL or tau.value < 0):
        verdict = "disagree"
    ours = f"tau {tau.value:.2f}, p {tau.p:.3f}, {len(methods)} explainers"
    because = f"the same order: tau at least {SAME_ORDER:g} (nine of ten pairs alike), p below 0.05"
    return Judged(verdict, ours, because, f"more explainers: {len(methods)} do not tell this tau from 0")


def _protocols(scored: Scored, kind: Kind) -> Iterator[Claim]:
    """Section 4.4: Grad-CAM is first where cells are deleted and last where pixels count."""
    for metric, word, sign in _FIRST:
        judged = {model.label: _placed(scored, model.label, metric, sign) for model in kind.models}
        title = titles(kind.models[0], [metric])[metric]
        text, published = f"of five explainers Grad-CAM is {word} by {title}", f"{word} (ImageNet, ResNet-50)"
        yield from kind.claim(text, "Table 5", published, judged)
    if kind.models[0].deleted:
        text = "a uniform baseline improves IG under IDSDS"
        judged = {model.label: _uniform_baseline(scored, model.label) for model in kind.models}
        yield from kind.claim(text, "section 4.4", "it improves (ImageNet, ResNet-50)", judged)


def _placed(scored: Scored, model: str, metric: Metric, sign: float) -> Judged | None:
    """Grad-CAM against the other four of table 5."""
    compared = [one for one in scored.as_published(model, metric) if one.paper in COMPARED]
    cam = next((one for one in compared if one.name == "cam/gradcam"), None)
    if cam is None or len(compared) < 3:
        return None
    gaps = {one: scored.difference(model, metric, cam.label, one.label) for one in compared if one is not cam}
    nearest = min(gaps, key=lambda one: sign * gaps[one].value)
    family = _against_all(list(gaps.values()), sign)
    ours = f"Grad-CAM minus {nearest.short}: {interval(gaps[nearest])}"
    return Judged(family.verdict, ours, f"{family.counts} of the others run", _images(samples_wanted(gaps[nearest])))


def _uniform_baseline(scored: Scored, model: str) -> Judged | None:
    variants = {one.variant: one.label for one in scored.methods(model, "sds") if one.paper == "IG"}
    if not {None, "uniform"} <= set(variants):
        return None
    gap = scored.difference(model, "sds", variants["uniform"], variants[None])
    ours = f"uniform minus zero: {interval(gap)}"
    return Judged(above(gap), ours, "over the same images", _images(samples_wanted(gap)))


def _twins(scored: Scored, kind: Kind) -> Iterator[Claim]:
    """Columns that the paper prints twice: are they one method here too, in our arithmetic and in captum's?"""
    deletion, addition = kind.printed("Table 3", "Del"), kind.printed("Table 3", "Add")
    for first, second in _TWINS:
        names = (first, second)
        if not all(name in deletion for name in names) or len({(deletion[n], addition[n]) for n in names}) > 1:
            continue
        where = "in every column" if first == "DeepLift" else "on both CIFAR sets"
        published = f"both {deletion[first]} and {addition[first]}"
        for variant, how in ((None, ""), ("captum", " as captum computes them")):
            judged = {m.label: _same_areas(scored, m.label, names, variant, where) for m in kind.models}
            text = f"{first} and {second} have the same areas to three decimals{how}"
            yield from kind.claim(text, f"Table 3, {kind.column}", published, judged)


def _same_areas(scored: Scored, model: str, names: tuple[str, str], variant: str | None, where: str) -> Judged | None:
    """In captum's arithmetic Input×Gradient is ours: it needs no hook."""
    by_name = {(one.paper, one.variant): one.label for one in scored.methods(model, "deletion")}
    labels = [by_name.get((name, variant)) or (by_name.get((name, None)) if name == "IxG" else None) for name in names]
    if None in labels:
        return None
    areas = [scored.wide(model, metric)[labels].dropna() for metric in ("deletion", "addition")]
    apart = float(np.mean([(table.iloc[:, 0] - table.iloc[:, 1]) != 0 for table in areas]))
    printed = [tuple(f"{mean:.3f}" for mean in table.mean()) for table in areas]
    means = ", ".join(f"{verb} {one} and {other}" for verb, (one, other) in zip(("Del", "Add"), printed, strict=True))
    same = all(one == other for one, other in printed)
    verdict: Agreement = "agree" if apart == 0 else CANNOT_TELL if same else "disagree"
    ours = f"{means}; areas differ in {apart:.0%} of the images"
    return Judged(verdict, ours, f"flagged: the paper has them equal {where}", "more images: the means agree by chance")


def _against_all(gaps: Sequence[Estimate], sign: float) -> Family:
    """Whether every difference has the claimed sign, by one-sided p-values; one that has not refutes after Holm."""
    p_for = [gap.p / 2 if sign * gap.value > 0 else 1 - gap.p / 2 for gap in gaps]
    return all_hold(p_for, [1 - p for p in p_for])

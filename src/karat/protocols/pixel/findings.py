"""What a run of `pixel` shows, in the order of the paper: verdict first, then its tables 1 to 5 and figures 2 and 3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.common.words import interval, number
from karat.protocols.pixel.analysis import SINGLE, Explained, Metric, Network, Orders, Scored, orders, over_seeds
from karat.protocols.pixel.gallery import gallery

if TYPE_CHECKING:
    from karat.results.run import Run
    from karat.statistics import Estimate

Row = tuple[Scalar, ...]
TRUTH_SECTION = "Table 3 and figure 2: the truth"
PIXEL: tuple[Metric, ...] = ("weighted_iou", "hit", "ids", "sds")
TITLES: dict[Metric, str] = {
    "weighted_iou": "pixel (WIoU)", "hit": "pixel (HA)", "ids": "IDS", "sds": "SDS", "sd": "SD (objects)"
}  # fmt: skip
ABOUT_ORDERS = (
    "IDS deletes pixels, the least important first; SDS deletes one cell of a 4×4 grid at a time and asks whether the "
    "map knew how much that costs (on a model trained with such cells: IDSDS). Both see cells, not pixels."
)


def findings(run: Run) -> list[Finding]:
    """All findings that the run has rows for."""
    scored = Scored(run)
    if scored.rows.empty:
        return []
    if not scored.judged:
        return [_accuracies(scored)]
    kept = [
        _verdict(scored), *_seeds(scored), _accuracies(scored), *_convergence(scored), _verification(scored),
        _leaderboard(scored), *rankings(scored, scored.judged, PIXEL), *gallery(scored),
    ]  # fmt: skip
    return kept


def _verdict(scored: Scored) -> Finding:
    """Who finds the pixels, and who finds at least the place?"""
    rows: list[Row] = []
    sentences: list[str] = []
    figures: list[Figure] = []
    for model in (one.label for one in scored.judged):
        listed = [one for one in scored.explainers(model) if not one.is_truth and one.name != SINGLE]
        overlaps = {one.label: scored.mean(model, "weighted_iou", one.label) for one in listed}
        hits = {one.label: scored.mean(model, "hit", one.label) for one in listed}
        shares = {one.label: scored.relative(model, one.label) for one in listed}
        ranked = sorted(listed, key=lambda one: -np.nan_to_num(overlaps[one.label].value, nan=-1.0))
        for place, one in enumerate(ranked, start=1):
            overlap, share = overlaps[one.label], shares[one.label]
            rows.append((model, place, one.label, number(overlap.value), number(overlap.low), number(overlap.high),
                         number(share.value), number(share.low), number(share.high), number(hits[one.label].value),
                         overlap.n))  # fmt: skip
        methods = [one.label for one in ranked if not one.is_control and np.isfinite(overlaps[one.label].value)]
        if methods:
            best, ceiling = methods[0], scored.ceiling(model)
            sure = sum(hits[label].low > 0.5 for label in methods)
            beside = f" of a ceiling of {interval(ceiling)}, a share of {interval(shares[best], 2)}"
            sentences.append(
                f"{model}: {best} ranks the deciding pixels best, weighted IoU {interval(overlaps[best])}"
                f"{beside if np.isfinite(ceiling.value) else ''}. {sure} of {len(methods)} explainers find the patch "
                "in more than half of the images for sure."
            )
        series = _forest(model, [one.label for one in ranked], overlaps)
        figures.append(
            Figure(f"Weighted IoU, {model}", "intervals", "explainer", "weighted IoU", (series,), headline=True)
        )
    return Finding(
        title="Does it rank the very pixels that decided?",
        about="A shortcut of a few pixels decides these images, and the Shapley value of each pixel says how much it "
        "did. Weighted IoU is the overlap of an explainer's first pixels with the truth's. That truth is an estimate: "
        "`share` divides by what a truth of several times the effort scores against it (the ceiling; 1 is as good as "
        "the exact truth would do, and chance may go above). A hit means that its first pixel lies in the patch at "
        "all. Images that the shortcut does not decide are left out.",
        sentences=tuple(sentences),
        columns=("model", "place", "explainer", "weighted IoU", "low", "high", "share", "share low", "share high",
                 "hit", "images"),
        rows=tuple(rows),
        figures=tuple(figures),
    )  # fmt: skip


def _seeds(scored: Scored) -> list[Finding]:
    """The same explainers on models that differ in their seeds alone."""
    standings = over_seeds(scored)
    if not standings:
        return []
    kinds = list(dict.fromkeys((row.images, row.network) for row in standings))
    sentences = []
    for images, network in kinds:
        mine = [row for row in standings if (row.images, row.network) == (images, network)]
        winners = [row for row in mine if row.first]
        listed = ", ".join(f"{row.explainer} in {row.first}" for row in sorted(winners, key=lambda row: -row.first))
        sentences.append(
            f"{network} on {images}: best by weighted IoU over {mine[0].models} pairs of training and shortcut seed "
            f"({mine[0].decided} decided images): {listed}."
        )
    return [Finding(
        title="Does another seed turn it round?",
        about="Models of one kind that differ in the seed of their training and of the shortcut: mean over models, the "
        "least and the largest of them, and in how many of them an explainer was the best.",
        sentences=tuple(sentences),
        columns=("images", "network", "explainer", "models", "decided images", "weighted IoU", "least", "largest",
                 "share", "hit", "best in"),
        rows=tuple((row.images, row.network, row.explainer, row.models, row.decided, row.weighted_iou, row.least,
                    row.largest, number(row.relative), number(row.hit), row.first) for row in standings),
    )]  # fmt: skip


def _accuracies(scored: Scored) -> Finding:
    """Tables 1 and 2: does the model use the shortcut, and does the shortcut harm one that does not know it?"""
    listed = [scored.accuracy(model.label) for model in scored.models]
    sentences = tuple(
        f"{one.model} takes the shortcut: {one.perturbed:.1%} with it, {one.clean:.1%} without; it decides "
        f"{one.decided:.1%} of the images."
        if one.gain.low > 0.1
        else f"{one.model} does not need the shortcut: {one.perturbed:.1%} with it, {one.clean:.1%} without."
        for one in listed
    )
    return Finding(
        title="Accuracy with and without the shortcut",
        about="Tables 1 and 2 of the paper: accuracy on clean images (C-Set) and on perturbed ones (P-Set), and the "
        "share of images that the shortcut decides (Eq. 1). low and high bound what the shortcut adds.",
        sentences=sentences,
        columns=("model", "C-Set", "P-Set", "dominant rate", "gain low", "gain high", "images"),
        rows=tuple(
            (one.model, one.clean, one.perturbed, one.decided, number(one.gain.low), number(one.gain.high), one.images)
            for one in listed
        ),
        section="Tables 1 and 2: the shortcut",
    )


def _convergence(scored: Scored) -> list[Finding]:
    """How well is the truth known?"""
    known = [truth for model in scored.judged if (truth := scored.known_truth(model.label)) is not None]
    if not known:
        return []
    ceilings = {one.model: scored.ceiling(one.model) for one in known}
    sentences = []
    for one in known:
        sentences.append(
            f"{one.model}: Shapley values of {one.pixels} pixels are known to ±{one.error:.4f} (standard error, mean "
            f"over images), {one.signal / max(one.error, 1e-12):.0f} times less than they differ among themselves, for "
            f"{one.passes:.0f} passes an image; they miss the gain of the patch by at most {one.gap:.1e}. One trial "
            f"and the mean of the others overlap by {one.repeat:.2f} (weighted IoU inside the patch)."
        )
        if np.isfinite(ceilings[one.model].value):
            sentences.append(
                f"{one.model}: a truth of more effort and fresh draws overlaps with it by "
                f"{interval(ceilings[one.model], 2)}: the weighted IoU that a perfect explainer would have."
            )
    return [Finding(
        title="How well is the truth known?",
        about="Shapley values are the mean of independent trials. Their error is told twice: by the estimator itself, "
        "and by the spread between trials. `signal` is how far the values of one patch differ among themselves, "
        "`ceiling` what a truth of several times the effort scores against this one.",
        sentences=tuple(sentences),
        columns=("model", "images", "error", "largest error", "spread of trials", "trials", "passes",
                 "efficiency gap", "repeat", "signal", "ceiling", "low", "high"),
        rows=tuple((one.model, one.images, one.error, one.largest_error, one.spread, one.trials, one.passes, one.gap,
                    one.repeat, one.signal, *_three(ceilings[one.model])) for one in known),
        section=TRUTH_SECTION,
    )]  # fmt: skip


def _verification(scored: Scored) -> Finding:
    """Table 3 and figure 2: does the truth's own order delete fastest and add fastest?"""
    rows: list[Row] = []
    sentences: list[str] = []
    figures: list[Figure] = []
    for model in (one.label for one in scored.judged):
        explainers = scored.explainers(model)
        for one in explainers:
            away, back = scored.mean(model, "deletion", one.label), scored.mean(model, "addition", one.label)
            rows.append((model, one.paper, one.label, *_three(away), *_three(back), away.n))
        sentences += _sanity(scored, model)
        sentences += [f"{model}: {' and '.join(one.label for one in twins)} have the same curves in every image."
                      for twins in scored.identical(model)]  # fmt: skip
        figures += [_curves(scored, model, explainers, "deletion"), _curves(scored, model, explainers, "addition")]
    return Finding(
        title="Deleting and adding the first pixels",
        about="Accuracy while the first D pixels of a map are put back to clean (deletion, low is good) or into the "
        "clean image (addition, high is good), and the area under these curves. The truth should beat every other "
        "order; whether it does is said here, whatever comes out.",
        sentences=tuple(sentences),
        columns=("model", "paper's name", "explainer", "deletion", "low", "high", "addition", "low ", "high ",
                 "images"),
        rows=tuple(rows),
        section=TRUTH_SECTION,
        figures=tuple(figures),
    )  # fmt: skip


def _sanity(scored: Scored, model: str) -> list[str]:
    """The paper's check, per model: is the truth's deletion area the lowest of all, its addition area the highest?"""
    truth = scored.truth(model)
    if truth is None:
        return []
    lines = []
    checks: tuple[tuple[Metric, str, float], ...] = (("deletion", "lowest", 1.0), ("addition", "highest", -1.0))
    for metric, word, sign in checks:
        ahead, unsure = [], []
        for one in scored.explainers(model):
            if one.label == truth or one.label not in scored.means(model, metric):
                continue
            gap = scored.difference(model, metric, one.label, truth)
            if sign * gap.value < 0:
                ahead.append(one.label)
            elif not (min(sign * gap.low, sign * gap.high) > 0):
                unsure.append(one.label)
        text = f"{model}: the truth's {metric} area is {interval(scored.mean(model, metric, truth))}, "
        if ahead:
            text += f"not the {word}: {', '.join(ahead)} {'is' if len(ahead) == 1 else 'are'} ahead."
        elif unsure:
            text += f"the {word}, but not for sure against {', '.join(unsure)}."
        else:
            text += f"the {word} of all, for sure."
        lines.append(text)
    return lines


def _leaderboard(scored: Scored) -> Finding:
    """Table 4: hit accuracy and weighted IoU."""
    rows: list[Row] = []
    sentences: list[str] = []
    bars: list[Series] = []
    for model in (one.label for one in scored.judged):
        explainers = scored.explainers(model)
        hits = {one.label: scored.mean(model, "hit", one.label) for one in explainers}
        for one in explainers:
            overlap = scored.mean(model, "weighted_iou", one.label)
            rows.append((model, one.paper, one.label, *_three(hits[one.label]), *_three(overlap),
                         number(scored.relative(model, one.label).value), overlap.n))  # fmt: skip
        methods = [one.label for one in scored.methods(model, "hit")]
        below = sum(hits[label].high < 0.5 for label in methods)
        sentences.append(f"{model}: {below} of {len(methods)} explainers hit the patch in fewer than half of the "
                         "images for sure.")  # fmt: skip
        names = short_names(explainers)
        bars.append(Series(model, tuple(names.values()), tuple(number(hits[label].value) for label in names)))
    return Finding(
        title="Hit accuracy and weighted IoU",
        about="Table 4 of the paper, as shares from 0 to 1. Pixels that tie share: where m tie for the first place and "
        "j of them lie in the patch, the hit is j / m. SD and Ours are the single-deletion baseline and the truth.",
        sentences=tuple(sentences),
        columns=("model", "paper's name", "explainer", "HA", "low", "high", "WIoU", "low ", "high ", "share of ceiling",
                 "images"),
        rows=tuple(rows),
        section="Table 4: explainers",
        figures=(Figure("Hit accuracy", "bars", "explainer", "HA", tuple(bars), lines=(("half of the images", 0.5),)),),
    )  # fmt: skip


# --- table 5


def rankings(
    scored: Scored, models: Sequence[Network], metrics: Sequence[Metric], about: str = ABOUT_ORDERS
) -> list[Finding]:
    """Per model: the explainers' places under each score, and Kendall's tau of every two."""
    made = [(model, orders(scored, model.label, metrics)) for model in models]
    return [_orders(model, one, about) for model, one in made if one is not None]


def titles(model: Network, metrics: Iterable[Metric]) -> dict[Metric, str]:
    """What the scores are called, SDS by its other name where the model was trained with cells taken out."""
    return {metric: "IDSDS" if metric == "sds" and model.deleted else TITLES[metric] for metric in metrics}


def _orders(model: Network, orders: Orders, about: str) -> Finding:
    heads = titles(model, orders.means)
    lead, *others = heads
    sentences = [
        f"Kendall's tau of {heads[first]} with {heads[second]}: {interval(tau)}."
        for (first, second), tau in orders.taus.items()
    ]
    for metric in others:
        best = int(np.argmin(orders.places[metric]))
        sentences.append(f"First under {heads[metric]} is {orders.explainers[best].label}, place "
                         f"{int(orders.places[lead][best])} of {len(orders.explainers)} by {heads[lead]}.")  # fmt: skip
    rows: tuple[Row, ...] = tuple(
        (one.label, *(int(orders.places[metric][k]) for metric in heads), *(orders.means[m][k] for m in heads))
        for k, one in enumerate(orders.explainers)
    )
    names = tuple(short_names(orders.explainers).values())
    slopes = tuple(
        Series(name, tuple(heads.values()), tuple(float(orders.places[m][k]) for m in heads))
        for k, name in enumerate(names)
    )
    taus = {(heads[a], heads[b]): tau.value for (a, b), tau in orders.taus.items()}
    return Finding(
        title=f"Places under other protocols, {model.label}",
        about=about,
        sentences=tuple(sentences),
        columns=("explainer", *(f"place: {title}" for title in heads.values()), *heads.values()),
        rows=rows,
        section="Table 5: other protocols",
        figures=(
            Figure(f"Places under each protocol, {model.label}", "slopes", "protocol", "place", slopes),
            tau_figure(f"Kendall's tau between protocols, {model.label}", list(heads.values()), taus),
        ),
    )


def tau_figure(title: str, names: list[str], taus: Mapping[tuple[str, str], float]) -> Figure:
    """Every two protocols, 1 with themselves; empty where tau has no value."""

    def tau(a: str, b: str) -> float | None:
        return number(1.0 if a == b else taus.get((a, b), taus.get((b, a), np.nan)))

    series = tuple(Series(a, tuple(names), tuple(tau(a, b) for b in names)) for a in names)
    return Figure(title, "grid", "protocol", "Kendall's tau", series)


def short_names(explainers: Sequence[Explained]) -> dict[str, str]:
    """By label: the paper's name where one explainer alone has it, else the label itself."""
    shorts = [one.short for one in explainers]
    return {one.label: one.short if shorts.count(one.short) == 1 else one.label for one in explainers}


def _curves(
    scored: Scored, model: str, explainers: Sequence[Explained], metric: Literal["deletion", "addition"]
) -> Figure:
    series = []
    for label, name in short_names(explainers).items():
        if curve := scored.curve(model, metric, label):
            series.append(Series(name, tuple(range(len(curve))), curve))
    verb = "deleted" if metric == "deletion" else "added"
    return Figure(f"Figure 2: {metric} curves, {model}", "lines", f"pixels {verb}", "accuracy", tuple(series))


def _forest(model: str, labels: Sequence[str], estimates: Mapping[str, Estimate]) -> Series:
    values, lows, highs = zip(*(_three(estimates[label]) for label in labels), strict=True)
    return Series(model, tuple(labels), values, lows, highs)


def _three(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return number(estimate.value), number(estimate.low), number(estimate.high)

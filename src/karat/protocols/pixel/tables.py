"""Tables 1 to 4 of pixelrules2024 and the curves of figure 2, from a run."""

from __future__ import annotations

import numpy as np

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.kernel.typing import Scalar
from karat.protocols.common.words import interval
from karat.protocols.pixel.frames import SINGLE, TRUTH, Scored, base, is_method, paper_name
from karat.statistics import paired_difference

Row = tuple[Scalar, ...]


def verdict(scored: Scored) -> Finding:
    """Who finds the pixels, and who finds at least the place?"""
    rows: list[Row] = []
    sentences: list[str] = []
    series: list[Series] = []
    for model in scored.judged:
        ours = [name for name in scored.explainers(model) if base(name) not in (TRUTH, SINGLE)]
        found = {name: (scored.mean(model, "weighted_iou", name), scored.mean(model, "hit", name)) for name in ours}
        ranked = sorted(ours, key=lambda name: -np.nan_to_num(found[name][0].value, nan=-1.0))
        for place, name in enumerate(ranked, start=1):
            overlap, hits = found[name]
            rows.append((model, place, name, overlap.value, overlap.low, overlap.high, hits.value, overlap.n))
        methods = [name for name in ranked if is_method(name) and np.isfinite(found[name][0].value)]
        if methods:
            best = methods[0]
            sure = [name for name in methods if found[name][1].low > 0.5]
            sentences.append(
                f"{model}: {best} ranks the deciding pixels best, weighted IoU {interval(found[best][0])}; the truth "
                f"scores 1. {len(sure)} of {len(methods)} explainers find the patch in more than half of the images "
                "for sure."
            )
        series.append(_forest(model, ranked, {name: found[name][0] for name in ranked}))
    return Finding(
        title="Does it rank the very pixels that decided?",
        about="A shortcut of a few pixels decides these images, and the Shapley value of each pixel says how much it "
        "did. Weighted IoU is the overlap of an explainer's first pixels with the truth's, 1 for the truth itself; a "
        "hit means that its first pixel lies in the patch at all. Images that the shortcut does not decide are left "
        "out.",
        sentences=tuple(sentences),
        columns=("model", "place", "explainer", "weighted IoU", "low", "high", "hit", "images"),
        rows=tuple(rows),
        figures=tuple(Figure(f"Weighted IoU, {one.name}", "intervals", "explainer", "weighted IoU", (one,))
                      for one in series),
    )  # fmt: skip


def accuracies(scored: Scored) -> Finding:
    """Tables 1 and 2: does the model use the shortcut, and does the shortcut harm one that does not know it?"""
    rows: list[Row] = []
    sentences: list[str] = []
    for model in scored.models:
        clean, perturbed, decided = scored.accuracy(model).T
        rate = float(decided.mean())
        gain = paired_difference(perturbed, clean, rng=generator(0, model, "pixel/gain"))
        rows.append((model, float(clean.mean()), float(perturbed.mean()), rate, gain.low, gain.high, len(clean)))
        if gain.low > 0.1:
            sentences.append(f"{model} takes the shortcut: {perturbed.mean():.1%} with it, {clean.mean():.1%} without; "
                             f"it decides {rate:.1%} of the images.")  # fmt: skip
        else:
            sentences.append(f"{model} does not need the shortcut: {perturbed.mean():.1%} with it, "
                             f"{clean.mean():.1%} without.")  # fmt: skip
    return Finding(
        title="Accuracy with and without the shortcut",
        about="Tables 1 and 2 of the paper: accuracy on clean images (C-Set) and on perturbed ones (P-Set), and the "
        "share of images that the shortcut decides (Eq. 1). low and high bound what the shortcut adds.",
        sentences=tuple(sentences),
        columns=("model", "C-Set", "P-Set", "dominant rate", "gain low", "gain high", "images"),
        rows=tuple(rows),
        section="Tables 1 and 2: the shortcut",
    )


def convergence(scored: Scored) -> Finding:
    """How well is the truth known?"""
    rows: list[Row] = []
    sentences: list[str] = []
    for model in scored.judged:
        truths = scored.truths(model).arrays
        error, spread, trials, passes, gap, repeat = (
            truths[name] for name in ("error", "spread", "trials", "passes", "gap", "repeat")
        )
        size = truths["shapley"].shape[1]
        signal = truths["shapley"].std(axis=1)
        numbers = (
            error.mean(),
            error.max(),
            spread.mean(),
            trials.mean(),
            passes.mean(),
            np.abs(gap).max(),
            repeat.mean(),
        )
        rows.append((model, len(error), *(float(number) for number in numbers), float(signal.mean())))
        sentences.append(
            f"{model}: Shapley values of {size} pixels are known to ±{error.mean():.4f} (standard error, mean over "
            f"images), {signal.mean() / max(float(error.mean()), 1e-12):.0f} times less than they differ among "
            f"themselves, for {passes.mean():.0f} passes an image; they miss the gain of the patch by at most "
            f"{np.abs(gap).max():.1e}. One trial and the mean of the others overlap by {repeat.mean():.2f} (weighted "
            "IoU inside the patch)."
        )
    return Finding(
        title="How well is the truth known?",
        about="Shapley values are the mean of independent trials. Their error is told twice: by the estimator itself, "
        "and by the spread between trials. `signal` is how far the values of one patch differ among themselves.",
        sentences=tuple(sentences),
        columns=("model", "images", "error", "largest error", "spread of trials", "trials", "passes",
                 "efficiency gap", "repeat", "signal"),
        rows=tuple(rows),
        section="Table 3 and figure 2: the truth",
    )  # fmt: skip


def verification(scored: Scored) -> Finding:
    """Table 3 and figure 2: does the truth's own order delete fastest and add fastest?"""
    rows: list[Row] = []
    sentences: list[str] = []
    figures: list[Figure] = []
    for model in scored.judged:
        names = scored.explainers(model)
        for name in names:
            away, back = scored.mean(model, "deletion", name), scored.mean(model, "addition", name)
            rows.append((model, paper_name(name), name, away.value, away.low, away.high, back.value, back.low,
                         back.high, away.n))  # fmt: skip
        sentences += sanity(scored, model)
        sentences += [f"{model}: {' and '.join(twins)} have the same curves in every image."
                      for twins in identical(scored, model)]  # fmt: skip
        figures += [_curves(scored, model, names, "deletion"), _curves(scored, model, names, "addition")]
    return Finding(
        title="Deleting and adding the first pixels",
        about="Accuracy while the first D pixels of a map are put back to clean (deletion, low is good) or into the "
        "clean image (addition, high is good), and the area under these curves. The truth should beat every other "
        "order; whether it does is said here, whatever comes out.",
        sentences=tuple(sentences),
        columns=("model", "paper's name", "explainer", "deletion", "low", "high", "addition", "low ", "high ",
                 "images"),
        rows=tuple(rows),
        section="Table 3 and figure 2: the truth",
        figures=tuple(figures),
    )  # fmt: skip


def sanity(scored: Scored, model: str) -> list[str]:
    """The paper's check, per model: is the truth's deletion area the lowest of all, its addition area the highest?"""
    names = scored.explainers(model)
    truth = next((name for name in names if base(name) == TRUTH), None)
    if truth is None:
        return []
    lines = []
    for metric, word, sign in (("deletion", "lowest", 1.0), ("addition", "highest", -1.0)):
        ahead, open_ = [], []
        for name in names:
            if name == truth:
                continue
            gap = scored.difference(model, metric, name, truth)
            if not np.isfinite(gap.value):
                continue
            if sign * gap.value < 0:
                ahead.append(paper_name(name))
            elif not (min(sign * gap.low, sign * gap.high) > 0):
                open_.append(paper_name(name))
        own = scored.mean(model, metric, truth)
        text = f"{model}: the truth's {metric} area is {interval(own)}, "
        if ahead:
            text += f"not the {word}: {', '.join(ahead)} {'is' if len(ahead) == 1 else 'are'} ahead."
        elif open_:
            text += f"the {word}, but not for sure against {', '.join(open_)}."
        else:
            text += f"the {word} of all, for sure."
        lines.append(text)
    return lines


def identical(scored: Scored, model: str) -> list[tuple[str, ...]]:
    """Explainers whose deletion and addition areas agree in every image; those that miss every patch agree for free."""
    tables = [scored.wide(model, metric) for metric in ("deletion", "addition")]
    groups: dict[bytes, list[str]] = {}
    for name in scored.explainers(model):
        if is_method(name) and all(name in table and table[name].notna().any() for table in tables):
            areas = np.stack([table[name].to_numpy(float) for table in tables])
            if np.nanmin(areas[0]) < 1 or np.nanmax(areas[1]) > 0:
                groups.setdefault(areas.tobytes(), []).append(paper_name(name))
    return [tuple(names) for names in groups.values() if len(names) > 1]


def leaderboard(scored: Scored) -> Finding:
    """Table 4: hit accuracy and weighted IoU."""
    rows: list[Row] = []
    sentences: list[str] = []
    bars: list[Series] = []
    for model in scored.judged:
        names = scored.explainers(model)
        hits = {name: scored.mean(model, "hit", name) for name in names}
        for name in names:
            overlap = scored.mean(model, "weighted_iou", name)
            rows.append((model, paper_name(name), name, hits[name].value, hits[name].low, hits[name].high,
                         overlap.value, overlap.low, overlap.high, overlap.n))  # fmt: skip
        methods = [name for name in names if is_method(name) and np.isfinite(hits[name].value)]
        below = [name for name in methods if hits[name].high < 0.5]
        sentences.append(f"{model}: {len(below)} of {len(methods)} explainers hit the patch in fewer than half of the "
                         "images for sure.")  # fmt: skip
        bars.append(Series(model, tuple(paper_name(name) for name in names),
                           tuple(_number(hits[name].value) for name in names)))  # fmt: skip
    return Finding(
        title="Hit accuracy and weighted IoU",
        about="Table 4 of the paper. Pixels that tie share: where m tie for the first place and j of them lie in "
        "the patch, the hit is j / m. SD and Ours are the single-deletion baseline and the truth.",
        sentences=tuple(sentences),
        columns=("model", "paper's name", "explainer", "HA", "low", "high", "WIoU", "low ", "high ", "images"),
        rows=tuple(rows),
        section="Table 4: explainers",
        figures=(Figure("Hit accuracy", "bars", "explainer", "HA", tuple(bars), lines=(("half of the images", 0.5),)),),
    )


def _curves(scored: Scored, model: str, names: list[str], metric: str) -> Figure:
    kept = scored.run.details(metric).complete()
    series = []
    for name in names:
        mine = ((kept.keys["model"] == model) & (kept.keys["explainer"] == name)).to_numpy()
        if mine.any():
            curve = kept.arrays["accuracy"][mine].mean(axis=0)
            series.append(Series(paper_name(name), tuple(range(len(curve))), tuple(curve.tolist())))
    verb = "deleted" if metric == "deletion" else "added"
    return Figure(f"Figure 2: {metric} curves, {model}", "lines", f"pixels {verb}", "accuracy", tuple(series))


def _forest(model: str, names: list[str], found: dict[str, object]) -> Series:
    def column(field: str) -> tuple[float | None, ...]:
        return tuple(_number(getattr(found[name], field)) for name in names)

    return Series(model, tuple(names), column("value"), column("low"), column("high"))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

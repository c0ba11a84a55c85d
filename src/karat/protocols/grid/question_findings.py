"""The paper's three questions as tables and figures: RQ1 the shortcut, RQ2 the area of the mask, RQ3 depth.

Plain mass grows with the mask: a uniform map scores the mask's area. So every effect the paper reads off RMA (dense
grids score higher, existence questions lower) is shown for the corrected mass too, on which a uniform map scores 0 and
the truth 1. And every score is shown between its floor (noise, or the same everywhere) and its ceiling (the oracle).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.common.words import interval, number
from karat.protocols.grid.analysis import (
    CEILING,
    FLOORS,
    PURE,
    SCENARIOS,
    SPUR,
    Scenario,
    both_twins,
    coverage,
    dime_gain,
    effect,
    families,
    mean_of_few,
    mean_with_interval,
    own_data_change,
    placed,
    scenario,
    with_values,
)
from karat.protocols.grid.blocks import Depths, block_scores, depths, shape
from karat.protocols.grid.exact_reference import comparable
from karat.statistics import Estimate, spearman

SECTION_1 = "RQ1: can explanations diagnose the shortcut?"
SECTION_2 = "RQ2: relations, or the volume of the mask?"
SECTION_3 = "RQ3: do global scores follow depth?"
TITLES = {"mass": "RMA", "iou": "IoU"}
BY_SAMPLE = ("distractor_mass", "distractor_iou", "anchor_mass", "relation_mass")
_EFFECTS = ("mass", "corrected_mass", "iou")
_SCALED = ("own_mass", "own_words", "mass", "corrected_mass", "iou", "distractor_mass", "anchor_mass", "relation_mass")
_PERFECT = {"pure": "a perfect reasoner", "spur": "a perfect word-matcher"}


def question_findings(rows: pd.DataFrame, doses: Iterable[Finding] = ()) -> Iterator[Finding]:
    """RQ1 with its dose curves, RQ2, RQ3."""
    for family in families(rows):
        yield _scenarios(rows, family)
        yield _by_sample(rows, family)
    yield from doses
    for family in families(rows):
        yield from _relations(rows, family)
    yield from _depth(rows)


# ---- RQ1


def _scenarios(rows: pd.DataFrame, family: str) -> Finding:
    """Mean RMA and IoU per scenario (figures 5b and 6)."""
    of_family = rows[(rows["family"] == family) & rows["metric"].isin(TITLES)]
    per_explainer = {str(name): own for name, own in of_family.groupby("explainer")}
    with_maps = of_family[of_family["value"].notna()].drop_duplicates("explainer")
    explainers = with_maps.sort_values(["is_control", "explainer"])["explainer"].tolist()
    silent = sorted(set(per_explainer) - set(explainers))
    table: list[tuple[Scalar, ...]] = []
    figures = []
    for metric, title in TITLES.items():
        means = {which: _means(of_family, family, metric, which) for which in SCENARIOS}
        for name in explainers:
            cells: list[Scalar] = []
            for which in SCENARIOS:
                mean, used, of = means[which].get(name, (float("nan"), 0, 0))
                cells += [number(mean), f"{used}/{of}"]
            change = own_data_change(per_explainer[name], family, name, metric)
            table.append((title, name, *cells, *_numbers(change)))
        series = tuple(
            Series(which.name, tuple(explainers), tuple(_mean(means[which], name) for name in explainers))
            for which in SCENARIOS
        )
        figures.append(Figure(f"{title} by scenario: {family}", "bars", "explainer", title, series))
    columns = [part for which in SCENARIOS for part in (which.name, f"{which.name}: used")]
    return Finding(
        title=f"Scores by scenario: {family}",
        about="Mean RMA and IoU against anchors and targets over all buckets. `spur - pure` compares each twin on its "
        "own data, with a 95 % interval: a method that cannot tell the twins apart has none.",
        sentences=(f"No map, and so no row: {', '.join(silent)}.",) if silent else (),
        columns=("score", "explainer", *columns, "spur - pure", "low", "high"),
        rows=tuple(table),
        section=SECTION_1,
        figures=tuple(figures),
    )


def _means(rows: pd.DataFrame, family: str, metric: str, which: Scenario) -> dict[str, tuple[float, int, int]]:
    grouped = scenario(rows[rows["metric"] == metric], family, which).groupby("explainer")["value"]
    table = grouped.agg(["mean", "count", "size"])
    return {str(name): (float(mean), int(used), int(of)) for name, mean, used, of in table.itertuples()}


def _mean(means: dict[str, tuple[float, int, int]], name: str) -> float | None:
    return number(means[name][0]) if name in means else None


def _numbers(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return number(estimate.value), number(estimate.low), number(estimate.high)


def _by_sample(rows: pd.DataFrame, family: str) -> Finding:
    """What the paper asks of a faithful method: near nothing on distractors for pure, much for spur, same samples."""
    table: list[tuple[Scalar, ...]] = []
    changes: list[tuple[str, Estimate]] = []
    for metric in BY_SAMPLE:
        mine = rows[(rows["family"] == family) & (rows["metric"] == metric) & (rows["mode"] == PURE.mode)]
        per_explainer = {str(name): own for name, own in mine.groupby("explainer")}
        control = {name: bool(own["is_control"].iloc[0]) for name, own in per_explainer.items()}
        for name in sorted(per_explainer, key=lambda name: (control[name], name)):
            both = both_twins(per_explainer[name], family)
            change = mean_with_interval(both["spur"] - both["pure"], f"{family} {name} {metric}")
            if not change.n:
                table.append((metric, name, None, None, None, None, None, f"0/{len(both)}"))
                continue
            pure, spur = both.dropna()[["pure", "spur"]].mean()
            table.append((metric, name, number(pure), number(spur), *_numbers(change), f"{change.n}/{len(both)}"))
            if metric == BY_SAMPLE[0] and not control[name]:
                changes.append((name, change))
    sentences = []
    if changes:
        sentences.append(
            f"On {family}, {sum(change.low > 0 for _, change in changes)} of {len(changes)} methods put more of their "
            "map on distractors when the spur twin answers than when the pure twin does (95 % interval above 0)."
        )
    series = Series("change", tuple(name for name, _ in changes), *(
        tuple(getattr(change, part) for _, change in changes) for part in ("value", "low", "high")
    ))  # fmt: skip
    return Finding(
        title=f"Distractors, anchors and relation words, same samples: {family}",
        about="Shares of the map, or of the word scores, on objects that match the words and break the relations, on "
        "the objects that targets are placed against, and on relation words; and how well the map covers the "
        "distractors. A faithful method has nothing on distractors for the pure twin and much for the spur twin, and "
        "the other way round for anchors and relation words. Change with a 95 % interval, paired by sample.",
        sentences=tuple(sentences),
        columns=("score", "explainer", "pure twin", "spur twin", "change", "low", "high", "samples"),
        rows=tuple(table),
        section=SECTION_1,
        figures=(
            Figure(f"More on distractors for the spur twin: {family}", "intervals", "explainer", "change of share",
                   (series,), lines=(("none", 0.0),)),
        ) if changes else (),
    )  # fmt: skip


# ---- RQ2


def _relations(rows: pd.DataFrame, family: str) -> Iterator[Finding]:
    pure = scenario(rows, family, PURE)
    if len(pure):
        yield _volume(pure, family)
    for which in SCENARIOS:
        mine = scenario(rows, family, which)
        if len(mine):
            yield _scale(mine, family, which)
    yield from _dime(pure, family)


def _volume(rows: pd.DataFrame, family: str) -> Finding:
    table: list[tuple[Scalar, ...]] = []
    sentences = []
    densities = sorted(rows["density"].unique())
    sparse, dense = densities[0], densities[-1]
    volume = rows[rows["metric"].isin(_EFFECTS)]
    if silent := sorted(set(volume["explainer"]) - set(with_values(rows, "mass"))):
        sentences.append(f"No map, and so no row: {', '.join(silent)}.")
    per_explainer = {str(name): own for name, own in volume.groupby("explainer")}
    methods = set(volume.loc[~volume["is_control"], "explainer"])
    for name in with_values(rows, "mass"):
        row: list[Scalar] = [name, coverage(per_explainer[name], "mass")]
        effects = {}
        for metric in _EFFECTS:
            effects["density", metric] = effect(per_explainer[name], name, metric, "density", dense, sparse)
            effects["form", metric] = effect(per_explainer[name], name, metric, "form", 0, 1)
        for one in effects.values():
            row += _numbers(one)
        table.append(tuple(row))
        for kind, where in (("density", "dense grids"), ("form", "counting questions")):
            plain, corrected = effects[kind, "mass"], effects[kind, "corrected_mass"]
            if name in methods and plain.low > 0 and not corrected.low > 0:
                sentences.append(
                    f"{name} on {family}: higher RMA on {where} ({interval(plain, 2)}), none left once area is taken "
                    f"out ({interval(corrected, 2)})."
                )
    columns = [
        f"{kind} {metric} {part}".strip()
        for metric in _EFFECTS
        for kind in ("density", "form")
        for part in ("", "low", "high")
    ]
    return Finding(
        title=f"What density and form do: {family}, {PURE.name}",
        about=f"`density`: mean at d{dense:g} less mean at d{sparse:g}; `form`: counting less existence (comparisons "
        "left out), with 95 % intervals; for RMA (`mass`), RMA corrected for the area of the mask, and IoU. The row of "
        "control/uniform shows what the area of the mask does by itself.",
        sentences=tuple(sentences),
        columns=("explainer", "used", *columns),
        rows=tuple(table),
        section=SECTION_2,
    )


def _scale(rows: pd.DataFrame, family: str, which: Scenario) -> Finding:
    """Every score between its floor and its ceiling: 0 is the better of the floors, 1 the oracle."""
    table: list[tuple[Scalar, ...]] = []
    places: dict[str, dict[str, float | None]] = {}
    sentences = []
    floors, ceilings = (
        rows.loc[rows["method"].isin(names), "explainer"].unique().tolist() for names in (FLOORS, (CEILING,))
    )
    inverse = set(rows.loc[rows["method"] == "control/inverse_oracle", "explainer"])
    for metric in _SCALED:
        mine = rows[rows["metric"] == metric]
        values = mine.pivot_table(index="sample", columns="explainer", values="value", aggfunc="first")
        samples = mine.groupby("explainer")["sample"].nunique()
        for name in with_values(rows, metric):
            at = placed(values, name, floors, ceilings)
            numbers = map(number, (at.floor, at.ceiling, at.place))
            table.append((metric, name, number(at.mean), f"{at.used}/{samples[name]}", *numbers))
            places.setdefault(name, {})[metric] = number(at.place)
        if silent := sorted(set(samples.index) - set(values.columns)):
            sentences.append(f"No {metric} of {', '.join(silent)}.")
    series = tuple(
        Series(name, _SCALED, tuple(own.get(metric) for metric in _SCALED))
        for name, own in places.items()
        if name not in inverse  # far below all others: it would take the whole scale of colours
    )
    return Finding(
        title=f"Between floor and ceiling: {family}, {which.name}",
        about="`own_mass` and `own_words` are held against what this very model must use, all others against places "
        "and words of the scene. `place` is 0 at the better of noise and the same score everywhere, and 1 at the "
        "oracle, which knows what this model must use: below 0 is worse than saying nothing. For own_mass and "
        "own_words the oracle is the most there is; for the others it says what a true map has, and a place above 1 "
        "means more than that. Explainer, floor and oracle are compared on the samples that all of them have (`used`).",
        sentences=tuple(sentences),
        columns=("score", "explainer", "mean", "used", "floor", "ceiling", "place"),
        rows=tuple(table),
        section=SECTION_2,
        figures=(Figure(f"Place between floor and ceiling: {family}, {which.name}", "grid", "score", "place", series),),
    )


def _dime(rows: pd.DataFrame, family: str) -> Iterator[Finding]:
    table: list[tuple[Scalar, ...]] = []
    sentences = []
    for metric in ("mass", "corrected_mass", "iou", "own_words"):
        for name, gain in dime_gain(rows, metric).items():
            table.append((name, metric, *_numbers(gain), gain.n))
            how = "gains" if gain.low > 0 else "loses" if gain.high < 0 else "cannot be shown to gain or lose"
            sentences.append(
                f"On {family}, the interaction map of DIME {how} {metric} over its unimodal map: {interval(gain)}."
            )
    if table:
        yield Finding(
            title=f"DIME: what the interaction map gains over the unimodal one: {family}, {PURE.name}",
            about="Multimodal interaction (MI) less unimodal contribution (UC), each explained by LIME, paired by "
            "sample, with 95 % intervals.",
            sentences=tuple(sentences),
            columns=("explainer", "score", "gain", "low", "high", "samples"),
            rows=tuple(table),
            section=SECTION_2,
        )


# ---- RQ3


def _depth(rows: pd.DataFrame) -> Iterator[Finding]:
    blocks = block_scores(rows)
    if blocks.empty:
        return
    for family in families(rows):
        own = blocks[blocks["family"] == family]
        parts = {which: own[(own["twin"] == which.twin) & (own["mode"] == which.mode)] for which in (PURE, SPUR)}
        if any(len(part) for part in parts.values()):
            yield _fallacy(family, parts)
    yield _against_exact(blocks)


def _fallacy(family: str, parts: dict[Scenario, pd.DataFrame]) -> Finding:
    table: list[tuple[Scalar, ...]] = []
    sentences: list[str] = []
    figures: list[Figure] = []
    for which, part in parts.items():
        curves = list(depths(part))
        for one in curves:
            cells: list[Scalar] = []
            for depth in (1, 2, 3):
                cells += [number(v) for v in one.means.get(depth, (None,) * 3)]
                cells += [number(one.exact.get(depth)), number(one.dividend.get(depth))]
            table.append(
                (which.name, one.explainer, one.qtype, one.forms, *cells, number(one.trend.strength),
                 number(one.trend.p), one.shape, shape(one.exact_trend))
            )  # fmt: skip
            if one.qtype == "M":
                sentences.append(_sentence(family, which, one))
        figures += _figures(family, which, curves)
    per_depth = [f"D{depth} {name}" for depth in (1, 2, 3) for name in ("score", "low", "high", "exact", "dividend")]
    return Finding(
        title=f"Additive fallacy: {family}",
        about="The paper asks for scores that rise with depth on the pure twin and stay flat on the spur twin. Scores "
        "are means over blocks of samples with 95 % intervals (Student's t); the trend is Page's test, two-sided. "
        "`exact` is what the same method gives to a perfect reasoner (on the spur twin: a perfect word-matcher) on the "
        "same samples, `dividend` its exact two-modality dividend: that, not depth, is what a score should follow. "
        "EMAP of logits has a scale of its own: only its slope can be held against the exact one, of chances.",
        sentences=tuple(sentences),
        columns=("scenario", "explainer", "type", "forms", *per_depth, "trend", "p", "shape", "exact shape"),
        rows=tuple(table),
        section=SECTION_3,
        figures=tuple(figures),
    )


def _sentence(family: str, which: Scenario, one: Depths) -> str:
    steps = " → ".join(f"{value:.2f}" for value, _, _ in one.means.values())
    exact = " → ".join(f"{value:.2f}" for value in one.exact.values())
    wished = "rise" if which == PURE else "stay flat"
    return (
        f"{one.explainer} on {family}, {which.name}, mixed questions: {steps} over depth ({one.shape}; the paper wants "
        f"it to {wished}); {_PERFECT[which.twin]} gets {exact} ({shape(one.exact_trend)})."
    )


def _figures(family: str, which: Scenario, curves: list[Depths]) -> Iterator[Figure]:
    mixed = [one for one in curves if one.qtype == "M"]
    if not mixed:
        return
    series = []
    for one in mixed:
        at = tuple(one.means)
        value, low, high = zip(*one.means.values(), strict=True)
        series.append(Series(one.explainer, at, value, low, high))
        if all(number(value) is not None for value in one.exact.values()):
            series.append(Series(f"{one.explainer}, exact", at, tuple(one.exact.values())))
    yield Figure(f"Score over depth, mixed questions: {family}, {which.name}", "lines", "depth", "score", tuple(series),
                 note=f"Bands are 95 % intervals; `exact` is the score of {_PERFECT[which.twin]}.")  # fmt: skip


def _against_exact(blocks: pd.DataFrame) -> Finding:
    """Per bucket: the method beside the exact number, and how well the two agree over buckets."""
    keys = ["family", "twin", "mode", "explainer", "method"]
    table: list[tuple[Scalar, ...]] = []
    sentences = []
    points = []
    for (family, twin, mode, explainer, method), group in blocks.groupby(keys, observed=True):
        per_bucket = group.groupby("bucket", sort=False)
        means = per_bucket[["score", "exact"]].mean()
        for bucket, own in per_bucket:
            exact = (float(own[name].mean()) for name in ("exact", "dividend", "answerable"))
            used = f"{own['samples'].sum()}/{own['of'].iloc[0]}"
            table.append((str(family), f"{twin} twin on {mode}", str(explainer), str(bucket), used, len(own),
                          *_numbers(mean_of_few(own["score"])), *map(number, exact)))  # fmt: skip
        usable = means.dropna()
        if len(usable) >= 4:
            agreement = spearman(usable["score"], usable["exact"])
            gap = float((usable["score"] - usable["exact"]).abs().mean())
            off = (
                f", its scores lie {gap:.2f} off on average"
                if comparable(str(method), group["value_kind"].iloc[0])
                else ""
            )
            sentences.append(
                f"{explainer} on {family}, {twin} twin on {mode}: over {len(usable)} buckets its order of buckets "
                f"agrees with the exact one at ρ = {agreement.value:.2f}{off}."
            )
            points.append(Series(f"{explainer}, {family}.{twin} on {mode}", tuple(usable["exact"].tolist()),
                                 tuple(usable["score"].tolist())))  # fmt: skip
    return Finding(
        title="Global scores beside the exact ones, bucket by bucket",
        about="`exact`: the same score for the symbolic executor (for spur twins: for one that matches words) on the "
        "same samples. `dividend`: its exact two-modality dividend 1 - v(image) - v(question) + v(nothing). "
        "`answerable`: how many of the questions have an answer about another sample's image; for the others the "
        "executor guesses as the answers are spread, and what a network says to them is up to the network: where "
        "`answerable` is small, a score may lie far from the exact one without any fault of the method. Intervals are "
        "of the mean over blocks, where there are three or more; `samples` are those in blocks that have a score.",
        sentences=tuple(sentences),
        columns=("family", "scenario", "explainer", "bucket", "samples", "blocks", "score", "low", "high", "exact",
                 "dividend", "answerable"),
        rows=tuple(table),
        section=SECTION_3,
        figures=(Figure("Score against exact score, per bucket", "points", "exact", "score", tuple(points)),),
    )  # fmt: skip

"""What a run of `semantic` shows: how spurious models are, right and wrong reasons, classes, what a sweep chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.common.words import interval, number, table_rows
from karat.protocols.semantic.analysis import (
    KEYS,
    LEVEL,
    above_controls,
    between_models,
    levels,
    per_class,
    predictions,
    signed_layers,
    target_of,
)
from karat.protocols.semantic.configuration import choose_configuration
from karat.protocols.semantic.reasons import (
    SPURIOUS,
    SURE,
    best_blind,
    class_bias,
    confused_classes,
    quadrants,
    relations,
    share_of_kind,
)
from karat.protocols.semantic.target import LEAST

if TYPE_CHECKING:
    from karat.kernel.roles import Results

REASONS, CLASSES = "Right and wrong reasons", "Classes"
_EXAMPLES, _DRAWN, _LISTED, _FEWEST, _TOLD = 4, 4, 5, 3, 10
_LEVELS = (
    "per image", "low", "high", "per prediction", "per class", "gain", "images", "predictions", "coverage", "answered",
    "answered low", "answered high",
)  # fmt: skip


def findings(run: Results) -> list[Finding]:
    """All findings of one run; those that its rows say nothing about are left out."""
    table = predictions(run)
    if table["sss"].notna().sum() == 0:
        return []
    competing = table[~table["is_control"].astype(bool)]  # controls are read against, they explain nothing
    made = [_overview(run, table)]
    if len(competing):
        made += [
            _quadrants(table, target_of(run)), _against_confidence(competing), _against_size(competing),
            _extremes(competing), _bias(competing), _confused(competing),
        ]  # fmt: skip
    return [finding for finding in made if finding.rows]


def _overview(run: Results, table: pd.DataFrame) -> Finding:
    least = float(run.spec["protocol"].get("min_confidence", LEAST))
    rows = levels(table, least)
    alone = table["dataset"].nunique() == 1
    names = tuple(f"{r.model} · {r.explainer}" if alone else f"{r.model} · {r.explainer} · {r.dataset}" for r in rows)
    parts = ((r.sss.value for r in rows), (r.sss.low for r in rows), (r.sss.high for r in rows))
    series = Series("SSS", names, *(tuple(number(value) for value in part) for part in parts))
    return Finding(
        title="How much of each explanation lies outside what it is about?",
        about="SSS: 0 all inside, 1 all outside. Means over images with 95 % intervals, predictions, classes. "
        "`gain` compares with a map that is the same everywhere: 0 no better, 1 all inside. `coverage` is the share of "
        "images with at least one prediction that counts, `answered` of those where the model is surer of anything at "
        f"all than {least:g} (a detector's detection coverage).",
        sentences=(*_beside_controls(table), *_order(table)),
        columns=(*KEYS, *_LEVELS),
        rows=tuple(
            (
                r.model, r.dataset, r.explainer, number(r.sss.value), number(r.sss.low), number(r.sss.high),
                number(r.per_prediction), number(r.per_class), number(r.gain), r.images, r.predictions, r.coverage,
                number(r.answered.value), number(r.answered.low), number(r.answered.high),
            )
            for r in rows
        ),
        figures=(Figure("SSS per image", "intervals", "model and explainer", "SSS", (series,), headline=True),),
        cautions=_signed(run),
    )  # fmt: skip


def _signed(run: Results) -> tuple[str, ...]:
    by_model: dict[str, list[Any]] = {}
    for row in signed_layers(run):
        by_model.setdefault(row.model, []).append(row)
    return tuple(
        f"{model}: {', '.join(row.explainer for row in rows)} read a signed layer ({rows[0].negative:.0%} of its "
        f"values are negative, down to {min(row.least for row in rows):.2g}). CAMs are made for maps after an "
        "activation; on others their order may be an artefact of the layer. Name one after an activation if there is."
        for model, rows in by_model.items()
    )


def _beside_controls(table: pd.DataFrame) -> list[str]:
    """Which methods a map that never saw the model does as well as."""
    beaten: dict[tuple[str, str, str], list[str]] = {}
    for gap in above_controls(table):
        open_ = beaten.setdefault((gap.model, gap.dataset, gap.first), [])
        if not gap.sure:
            open_.append(gap.second)
    return [
        f"{model} on {dataset}: {control}, which never saw the model, "
        + (f"is not beaten by {', '.join(names)}." if names else "is beaten by every method.")
        for (model, dataset, control), names in beaten.items()
    ]


def _order(table: pd.DataFrame) -> list[str]:
    sentences = []
    for gap in between_models(table):
        size = interval(gap.difference)
        told = (
            f"{gap.first} is more spurious than {gap.second} by {size}"
            if gap.sure
            else f"{gap.second} and {gap.first} cannot be told apart ({size})"
        )
        sentences.append(f"{gap.model} on {gap.dataset}: {told}.")
    return sentences


def _quadrants(table: pd.DataFrame, target: str) -> Finding:
    shares = quadrants(table[~table["is_control"].astype(bool)])
    worst = ("correct", "confident", "spurious")
    sentences = [
        f"{one.model} with {one.explainer} on {one.dataset}: {one.predictions} of {one.of} predictions are correct and "
        f"confident, yet most of the explanation lies elsewhere: {', '.join(one.samples[:_EXAMPLES])}."
        for one in shares
        if one.kind == worst and one.predictions
    ]
    sentences += [
        f"{model} on {dataset}: under {control}, which never saw the model, {share:.1%} of predictions are such."
        for (model, dataset), control in best_blind(table).items()
        if np.isfinite(share := share_of_kind(table, (model, dataset, control), worst))
    ]
    if target != "predicted" and any(one.predictions for one in shares if one.kind[0] == "incorrect"):
        sentences.append(
            "Rows of incorrect predictions are explanations of the true class, which the model did not give: with "
            "`target: predicted` and `region: image` the class that it gave is explained and held against the object."
        )
    return Finding(
        title="Right for the right reasons?",
        about=f"Predictions by correctness, confidence (from {SURE:g}) and SSS (from {SPURIOUS:g}: most saliency "
        "lies outside), each with its own confidence; low and high bound the share. Examples are the extreme ones; "
        "find them among the samples of the page, or draw them with karat.protocols.semantic.gallery.",
        sentences=tuple(sentences),
        columns=(*KEYS, "answer", "confidence", "explanation", "predictions", "share", "low", "high", "examples"),
        rows=tuple(
            (
                one.model, one.dataset, one.explainer, *one.kind, one.predictions, number(one.share.value),
                number(one.share.low), number(one.share.high), ", ".join(one.samples[:_EXAMPLES]),
            )
            for one in shares
        ),
        section=REASONS,
    )  # fmt: skip


def _against_confidence(table: pd.DataFrame) -> Finding:
    """Whether SSS says something that confidence does not."""
    return _against(
        table, "confidence", ("the surer, the more spurious", "the surer, the less spurious"),
        "SSS against confidence",
        "Spearman's ρ between the SSS of an explanation and the model's probability of what is explained, with a 95 % "
        "interval over images. Near 0, SSS says something that confidence does not.",
    )  # fmt: skip


def _against_size(table: pd.DataFrame) -> Finding:
    """How much of SSS is the size of the object: coarse maps cannot keep within small ones."""
    return _against(
        table, "outside", ("the smaller the object, the higher SSS", "the smaller the object, the lower SSS"),
        "SSS against the size of the object",
        "Spearman's ρ between SSS and the share of the image outside the class, with a 95 % interval over images. "
        "Where it is high, a difference in SSS between classes or datasets may be one of size: look at `gain`.",
    )  # fmt: skip


def _against(table: pd.DataFrame, column: str, ways: tuple[str, str], title: str, about: str) -> Finding:
    rows = relations(table, column)
    sentences = []
    for row in rows:
        way = ways[0] if row.rho.low > 0 else ways[1] if row.rho.high < 0 else "no monotone relation is shown"
        sentences.append(f"{row.model} with {row.explainer} on {row.dataset}: {way} (ρ {interval(row.rho, 2)}).")
    series = tuple(Series(f"{row.model} · {row.explainer}", row.x, row.sss) for row in rows[:_DRAWN])
    return Finding(
        title=title,
        about=about,
        sentences=tuple(sentences),
        columns=(*KEYS, "rho", "low", "high", "predictions"),
        rows=tuple(
            (r.model, r.dataset, r.explainer, number(r.rho.value), number(r.rho.low), number(r.rho.high), r.rho.n)
            for r in rows
        ),
        section=REASONS,
        figures=(Figure(title, "points", column, "SSS", series),),
    )


def _extremes(table: pd.DataFrame) -> Finding:
    classes = per_class(table)
    classes = classes[classes["predictions"] >= min(_FEWEST, int(classes["predictions"].max()))]
    parts = []
    for _, group in classes.groupby(KEYS, sort=True):
        ordered = group.sort_values(["sss", "label"])
        count = min(_LISTED, len(ordered) // 2)
        ends = (("lowest", ordered.head(count)), ("highest", ordered.tail(count).iloc[::-1]))
        parts += [part.assign(end=end) for end, part in ends]
    listed = pd.concat(parts) if parts else classes.assign(end="")[:0]
    return Finding(
        title="Classes with the lowest and the highest SSS",
        about="Mean SSS by explained class. Small objects have a high SSS by chance alone (`outside`), so read it with "
        "`gain`, which is corrected for that.",
        sentences=(),
        columns=(*KEYS, "end", "class", "SSS", "gain", "outside", "predictions"),
        rows=table_rows(listed, (*KEYS, "end", "label", "sss", "gain", "outside", "predictions")),
        section=CLASSES,
    )


def _bias(table: pd.DataFrame) -> Finding:
    """Every class against the rest of its model, corrected for looking at all of them."""
    bias = class_bias(table)
    rows = bias.classes
    told = rows[rows["p"] < LEVEL].sort_values("gap").head(_TOLD)
    sentences = [
        f"{model} with {explainer}: {label} is explained {'better' if gap > 0 else 'worse'} than its other classes "
        f"(gain {gap:+.2f} [{low:+.2f}, {high:+.2f}])."
        for model, explainer, label, gap, low, high in zip(
            *(told[name].tolist() for name in ("model", "explainer", "label", "gap", "low", "high")), strict=True
        )
    ]
    if bias.too_small:
        listed = ", ".join(bias.too_small[:_TOLD]) + (" and others" if len(bias.too_small) > _TOLD else "")
        sentences.append(
            f"{len(bias.too_small)} classes have fewer than {bias.least_images} images: too few for any difference to "
            f"survive the correction, so nothing is said of them ({listed})."
        )
    columns = ("label", "predictions", "images", "sss", "gap", "low", "high", "p")
    return Finding(
        title="Bias by class",
        about="How far the gain of a class lies from the mean over the classes of the same model and explainer. p is "
        "by sign flips over images, corrected (Holm) over all classes listed.",
        sentences=tuple(sentences),
        columns=(*KEYS, "class", "predictions", "images", "SSS", "gain minus mean", "low", "high", "p"),
        rows=table_rows(rows, (*KEYS, *columns)),
        section=CLASSES,
    )


def _confused(table: pd.DataFrame) -> Finding:
    """Pairs of classes that the model takes for one another, and whether it looks at both alike (Case 4)."""
    return Finding(
        title="Classes that are taken for one another",
        about="Pairs that the model confused at least once, with the SSS of each: a gap says that it looks at one of "
        "two similar classes in the right place and not at the other. `apart`: their intervals do not overlap, at a "
        "level that holds for all pairs looked at (Bonferroni).",
        sentences=(),
        columns=(*KEYS, "class", "other", "confused", "SSS", "SSS of other", "difference", "apart"),
        rows=tuple(
            (
                one.model, one.dataset, one.explainer, one.label, one.other, one.times, one.sss, one.sss_of_other,
                one.sss - one.sss_of_other, one.apart,
            )
            for one in confused_classes(table)
        ),
        section=CLASSES,
    )  # fmt: skip


def sweep_finding(table: pd.DataFrame, coverage: float) -> Finding:
    """SSS over thresholds (`configuration.curves`), and what was chosen from them."""
    chosen = choose_configuration(table, coverage)
    if chosen is None:
        sentences: tuple[str, ...] = (f"No configuration scores {coverage:.0%} of the predictions of every model.",)
    else:
        sentences = (
            f"Chosen: {chosen.explainer} with a {chosen.mode} threshold of {chosen.threshold:g}; `karat run "
            "RUN/chosen.yaml` holds it fixed.",
            "Scores under other configurations must not be compared with it.",
        )
        sentences += (f"Its separation is {chosen.separation:.2f}, give or take {chosen.error:.2f}{_blind(table)}.",)
        if chosen.as_good:
            sentences += (f"Less than a standard error behind, at their best: {', '.join(chosen.as_good)}.",)
        if chosen.barred:
            sentences += (f"Not chosen, since they read a signed layer: {', '.join(chosen.barred)}.",)
    figures = tuple(
        Figure(f"{what} over thresholds, {mode}", "lines", "threshold", what, tuple(_lines(table, mode, column)))
        for column, what in (("SSS", "SSS"), ("separation", "separation from chance"))
        for mode in ("soft", "hard")
        if len(table)
    )
    return Finding(
        title="Which configuration to fix",
        about="SSS over thresholds for every method and layer of the spec. `separation` is the mean distance of SSS "
        "from that of chance in standard deviations over predictions; `coverage` the share of predictions where any "
        "saliency reaches the threshold.",
        sentences=sentences,
        columns=tuple(table.columns),
        rows=table_rows(table),
        figures=figures,
    )


def _blind(table: pd.DataFrame) -> str:
    """The largest separation of a map that never saw the model."""
    controls = table[table["is_control"].astype(bool)]
    if controls["separation"].notna().sum() == 0:
        return ""
    means = controls.groupby(["explainer", "mode", "threshold"])["separation"].mean().reset_index()
    best = means.sort_values("separation").dropna().iloc[-1]
    return f"; {best['explainer']}, which never saw the model, has up to {best['separation']:.2f}"


def _lines(table: pd.DataFrame, mode: str, column: str) -> list[Series]:
    alone = table["model"].nunique() * table["dataset"].nunique() == 1
    lines = []
    for (model, dataset, explainer), part in table[table["mode"] == mode].groupby(["model", "dataset", "explainer"]):
        part = part.sort_values("threshold")
        values = {name: tuple(number(value) for value in part[name]) for name in (column, "low", "high")}
        bounds = (values["low"], values["high"]) if column == "SSS" else (None, None)
        name = f"{explainer}" if alone else f"{model} · {dataset} · {explainer}"
        lines.append(Series(name, tuple(part["threshold"]), values[column], *bounds))
    return lines

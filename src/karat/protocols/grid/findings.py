"""What a whole run of protocol `grid` shows: the verdict, the twins' proof, the paper's questions, its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.common.rows import frame_of
from karat.protocols.common.words import interval, number, table_rows
from karat.protocols.grid.absence import absence_findings
from karat.protocols.grid.analysis import (
    BUCKET,
    SCENARIOS,
    Scenario,
    accuracy_table,
    bucket_table,
    cell,
    families,
    in_paper_order,
    scenario,
    tidy,
    twin_table,
    unproven,
)
from karat.protocols.grid.question_findings import SECTION_1, TITLES, question_findings
from karat.protocols.grid.verdict import (
    Dose,
    SeedSummary,
    Verdict,
    detection_threshold,
    dose_curve,
    seed_pairs,
    seed_summaries,
    verdicts,
)

MODELS = "The models"


def findings(scores: pd.DataFrame) -> list[Finding]:
    """As far as the run can answer: a family needs both twins, a trend several depths, a curve several doses."""
    if scores.empty:
        return []
    rows = tidy(scores)
    table = verdicts(rows)
    return [
        *verdict_finding(rows, table, unproven(rows)),
        *twin_finding(rows),
        *accuracy_findings(rows),
        *seed_findings(rows),
        *absence_findings(rows, table),
        *question_findings(rows, dose_findings(rows)),
        *bucket_findings(rows),
    ]


# ---- the verdict


def verdict_finding(rows: pd.DataFrame, table: Sequence[Verdict], broken: Mapping[str, str]) -> Iterator[Finding]:
    """`broken` are families whose twins do not do what their name says, and why: their verdicts say so."""
    both = families(rows)
    if not both:
        return
    warnings = [f"No verdict on {family} can be trusted: {why}." for family, why in broken.items() if family in both]
    silent = [
        f"No verdict on {', '.join(unheard)} on {family}: too few scores of places or words that both twins have."
        for family in both
        if (unheard := sorted(set(rows["explainer"]) - {one.explainer for one in table if one.family == family}))
    ]
    figures = []
    for family, own in groupby((one for one in table if not one.is_control), key=lambda one: one.family):
        group = frame_of(own, Verdict)
        series = Series("directed", *(tuple(group[c]) for c in ("explainer", "directed", "low", "high")))
        figures.append(
            Figure(f"Which way it points: {family}", "intervals", "explainer", "directed verdict", (series,),
                   lines=(("blind", 0.5),), headline=True)
        )  # fmt: skip
    frame = frame_of(table, Verdict).drop(columns="is_control")
    yield Finding(
        title="Which twin made this explanation?",
        about="Both twins answer the same questions for different reasons. `directed` is how often the explanation of "
        "the spur twin puts more on distractors, less on anchors and less on relation words than that of the pure twin "
        "on the same sample (all in one signed sum, of the `parts` that the explainer has; ties count half), with a "
        "95 % interval over samples: 0.5 is blind, 1 shows the shortcut always, below 0.5 points the wrong way. "
        "`low_tied` and `high_tied` are the interval with a tie for each of the samples on which an explanation "
        "`failed`; which way a method points is said where both intervals agree. "
        "`differs` is the AUC of a classifier fitted on other samples, which may be turned round: it says that the "
        "explanations differ, not that they tell the truth; `differs_null` is the largest of 19 tries without any "
        "difference. Methods first, best first; controls below them.",
        sentences=(*warnings, *sentences(table), *silent),
        columns=(*frame.columns, "twins"),
        rows=tuple(
            (*row, broken.get(one.family, "hold")) for row, one in zip(table_rows(frame), table, strict=True)
        ),
        figures=tuple(figures),
    )  # fmt: skip


def sentences(table: Sequence[Verdict]) -> Iterator[str]:
    """The verdict in plain words: how many methods show the shortcut, then every method, best first; controls last."""
    methods, controls = ([one for one in table if one.is_control == kind] for kind in (False, True))
    for family, group in groupby(methods, key=lambda one: one.family):
        own = list(group)
        shows, wrong = sum(one.shows for one in own), [one.explainer for one in own if one.misleads]
        best = own[0]
        yield (
            f"On {family}, {shows} of {len(own)} methods show the shortcut more often than chance; best is "
            f"{best.explainer} ({best.directed:.2f})."
        )
        if wrong:
            yield f"On {family}, {len(wrong)} of {len(own)} point the wrong way: {', '.join(wrong)}."
    for one in methods:
        yield f"{one.explainer} on {one.family}: {_how(one)}."
    for one in controls:
        yield f"Control: {one.explainer} on {one.family}: {_how(one)}."


def _how(one: Verdict) -> str:
    if one.hangs:
        how = f"hangs on what {one.failed} samples with a failed explanation count as"
    elif one.shows:
        how = "shows the shortcut" if one.directed > 0.9 else "shows the shortcut, though not reliably"
    else:
        how = "points the wrong way" if one.misleads else "cannot be shown to show the shortcut"
    apart = ", though the twins' explanations differ" if not one.shows and one.differs > one.differs_null else ""
    return f"{how} (directed {interval(one.estimate, 2)}){apart}"


# ---- the models


def twin_finding(rows: pd.DataFrame) -> Iterator[Finding]:
    table = twin_table(rows)
    if table.empty:
        return
    cautions = [
        f"{row['model']} does not hold up: it says what its mechanism says on {row['follows']:.1%} of {row['of']} "
        f"{row['mode']} samples only ({row['missed']}). Read everything about it with that in mind."
        for row in table[~table["holds"]].to_dict("records")
    ]
    well = "Every twin of this run answered as its mechanism does, as often as is asked of its family."
    table = table.assign(holds=table["holds"].map({True: "yes", False: "no"})).drop(columns=["family", "missed"])
    yield Finding(
        title="Do the twins do what their name says?",
        about="`follows` is the share of answers that the twin's mechanism gives (the truth for pure, the count of "
        "whatever matches the words for spur), by the independent executor. On the other samples a twin's own truth "
        "is unknown: own_mass and own_words leave them out. `karat train` verifies by intervention as well.",
        sentences=tuple(cautions) or (well,),
        columns=tuple(table.columns),
        rows=table_rows(table),
        section=MODELS,
        cautions=tuple(cautions),
    )


def accuracy_findings(rows: pd.DataFrame) -> Iterator[Finding]:
    """How often each model is right, bucket by bucket: for any model, twin or not."""
    for mode, part in accuracy_table(rows).groupby("mode"):
        models = sorted(part["model"].unique())
        wide = part.assign(share=part["right"] / part["of"])
        wide = in_paper_order(wide.pivot(index=BUCKET, columns="model", values="share").reset_index())
        total = part.groupby("model")[["right", "unanswered", "of"]].sum()
        counts = {str(name): (int(right), int(none), int(of)) for name, right, none, of in total.itertuples()}
        yield Finding(
            title=f"Right answers on {mode} samples",
            about="Share of questions answered rightly, by bucket (tables 3 and 4 of the paper). A question without an "
            "answer counts as wrong.",
            sentences=tuple(
                f"{name} answers {right / of:.1%} of {of} {mode} questions rightly."
                + (f" To {none} of them it has no answer at all." if none else "")
                for name, (right, none, of) in counts.items()
            ),
            columns=("form", "type", "depth", "density", *models),
            rows=table_rows(wide, [*BUCKET, *models]),
            section=MODELS,
        )


def seed_findings(rows: pd.DataFrame) -> Iterator[Finding]:
    """Twins of several seeds: is the difference one of mechanism, or of weights? Described, not tested."""
    summaries = seed_summaries(seed_pairs(rows))
    if not summaries:
        return
    frame = frame_of(summaries, SeedSummary).assign(counts=["yes" if one.counts else "no" for one in summaries])
    frame = frame.drop(columns="is_control")
    sentences = []
    for architecture, group in groupby((one for one in summaries if not one.is_control), lambda one: one.architecture):
        own = list(group)
        counting = [one.explainer for one in own if one.counts]
        sentences.append(
            f"On {architecture}, {len(counting)} of {len(own)} methods separate mechanisms further than seeds"
            + (f": {', '.join(counting)}." if counting else ".")
        )
    without = sorted(set(rows.loc[rows["twin"] != "", "architecture"]) - {one.architecture for one in summaries})
    if without:
        sentences.append(f"No seeds to compare: {', '.join(without)}.")
    yield Finding(
        title="Mechanisms, or just other weights?",
        about="The directed verdict between every pure and every spur twin of an architecture (`different`), and, in "
        "both orders, between twins of one mechanism that differ by their seed alone (`same`). A verdict counts where "
        "the lowest of the first lies above the highest of the second. That is a description: so few models cannot "
        "carry a p-value.",
        sentences=tuple(sentences), columns=tuple(frame.columns), rows=table_rows(frame), section=MODELS,
    )  # fmt: skip


# ---- how strong must a shortcut be?


def dose_findings(rows: pd.DataFrame) -> Iterator[Finding]:
    for family, group in groupby(dose_curve(rows), key=lambda one: one.family):
        by_explainer = {name: list(own) for name, own in groupby(group, key=lambda one: one.explainer)}
        threshold = {name: detection_threshold(own) for name, own in by_explainer.items()}
        ranked = sorted(
            by_explainer, key=lambda name: (by_explainer[name][0].is_control, np.nan_to_num(threshold[name], nan=2.0))
        )
        # a line across doses without scores would show what nobody has measured
        whole = {name: own for name, own in by_explainer.items() if not any(np.isnan(one.directed) for one in own)}
        series = [
            Series(name, *(tuple(getattr(one, c) for one in own) for c in ("dose", "directed", "low", "high")))
            for name, own in whole.items()
        ]
        yield Finding(
            title=f"How strong must the shortcut be? {family}",
            about="The twin of dose p mixes (1 - p) reasoning and p shortcut at its logits. Directed verdict of that "
            "twin against the reasoning one, with a 95 % interval. A dose is detected where the interval lies above "
            "0.5; the threshold is the smallest dose from which on all are.",
            sentences=tuple(_dose_sentence(name, family, by_explainer[name], threshold[name]) for name in ranked),
            columns=("explainer", "dose", "directed", "low", "high", "samples", "of", "parts", "detected", "threshold"),
            rows=tuple(
                (one.explainer, one.dose, *map(number, (one.directed, one.low, one.high)), one.samples, one.of,
                 one.parts, "no scores" if np.isnan(one.directed) else "yes" if one.detected else "no",
                 number(threshold[name]))
                for name, own in by_explainer.items() for one in own
            ),
            section=SECTION_1,
            figures=(
                Figure(f"Dose and detection: {family}", "lines", "dose of the shortcut", "directed verdict",
                       tuple(series), lines=(("blind", 0.5),)),
            ) if series else (),
        )  # fmt: skip


def _dose_sentence(name: str, family: str, curve: Sequence[Dose], threshold: float) -> str:
    if silent := [f"{one.dose:g}" for one in curve if np.isnan(one.directed)]:
        return f"{name} has no scores at dose {', '.join(silent)}: no threshold of {family}."
    detected = {one.dose: one for one in curve if one.detected}
    if not np.isfinite(threshold) and detected:
        doses = ", ".join(f"{dose:g}" for dose in detected)
        return f"{name} shows the shortcut of {family} at dose {doses}, but not from any dose on."
    if not np.isfinite(threshold):
        return f"{name} does not show the shortcut of {family} at any dose of this run."
    there = detected[threshold].directed
    faint = ", if faintly" if there < 0.6 else ""
    return f"{name} shows the shortcut of {family} from dose {threshold:g} on{faint} (directed {there:.2f} there)."


# ---- tables 5 to 8


def bucket_findings(rows: pd.DataFrame) -> Iterator[Finding]:
    """A table for each family, scenario and metric, laid out as the paper's: buckets down, explainers across."""
    for family in families(rows):
        for which in SCENARIOS:
            mine = scenario(rows, family, which)
            for metric, title in TITLES.items():
                table = bucket_table(mine, metric)
                used = table.groupby("explainer")["used"].sum()
                table = table[table["explainer"].isin(used.index[used > 0])]
                if len(table):
                    yield _bucket_finding(table, family, which, title, sorted(used.index[used == 0]))


def _bucket_finding(table: pd.DataFrame, family: str, which: Scenario, title: str, silent: list[str]) -> Finding:
    explainers = sorted(table["explainer"].unique())
    table = table.assign(
        cell=[cell(m, s, u, o) for m, s, u, o in zip(*(table[c] for c in ("mean", "std", "used", "of")), strict=True)]
    )
    wide = in_paper_order(table.pivot(index=BUCKET, columns="explainer", values="cell").reset_index())
    means = in_paper_order(table.pivot(index=BUCKET, columns="explainer", values="mean").reset_index())
    names = [f"{q} D{d} F{f} d{r:g}" for f, q, d, r in means[BUCKET].itertuples(index=False)]
    series = tuple(Series(name, tuple(names), tuple(map(number, means[name]))) for name in explainers)
    return Finding(
        title=f"{title} per bucket: {family}, {which.name}",
        about="Mean ± standard deviation in per cent against anchors and targets, as tables 5 to 8 of the paper; "
        "(used/all) where some samples have no value. Unrounded: `karat.protocols.grid.analysis.bucket_table`.",
        sentences=(f"No {title} in any bucket, and so no column: {', '.join(silent)}.",) if silent else (),
        columns=("form", "type", "depth", "density", *explainers),
        rows=table_rows(wide, [*BUCKET, *explainers]),
        section="Tables 5 to 8: every bucket",
        figures=(Figure(f"{title}, {family}, {which.name}", "grid", "bucket", title, series),),
    )

"""The paper's tables: mean ± std per bucket (tables 5 to 8), and how often models are right (tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.grid.frames import BUCKET, SCENARIOS, Scenario, families, in_paper_order, number, once, scenario

TITLES = {"mass": "RMA", "iou": "IoU"}


def bucket_table(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Long form: form, qtype, depth, density, explainer, mean, std (population, as published), used, of.

    `used` counts the samples that have a value, `of` all samples: what is missing is said, never averaged over.
    """
    chosen = rows[rows["metric"] == metric]
    grouped = chosen.groupby([*BUCKET, "explainer"], observed=True)["value"]
    table = grouped.agg(mean="mean", std=lambda v: v.std(ddof=0), used="count", of="size").reset_index()
    return in_paper_order(table)


def accuracy_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Long form: model, mode, form, qtype, depth, density, right, unanswered (which count as wrong), of."""
    answered = once(rows, ["model", "mode", "sample"])
    answered = answered.assign(right=answered["answer"] == answered["expected"], unanswered=answered["answer"].isna())
    grouped = answered.groupby(["model", "mode", *BUCKET], observed=True)
    table = grouped.agg(right=("right", "sum"), unanswered=("unanswered", "sum"), of=("right", "size"))
    return in_paper_order(table.reset_index())


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
    series = tuple(Series(name, tuple(names), tuple(map(_known, means[name]))) for name in explainers)
    return Finding(
        title=f"{title} per bucket: {family}, {which.name}",
        about="Mean ± standard deviation in per cent against anchors and targets, as tables 5 to 8 of the paper; "
        "(used/all) where some samples have no value. Unrounded: `karat.protocols.grid.tables.bucket_table`.",
        sentences=(f"No {title} in any bucket, and so no column: {', '.join(silent)}.",) if silent else (),
        columns=("form", "type", "depth", "density", *explainers),
        rows=tuple(tuple(row) for row in wide[[*BUCKET, *explainers]].astype(object).itertuples(index=False)),
        section="Tables 5 to 8: every bucket",
        figures=(Figure(f"{title}, {family}, {which.name}", "grid", "bucket", title, series),),
    )


def cell(mean: float, std: float, used: int, of: int) -> str:
    """In per cent; how many samples have a value, where not all have.

    >>> cell(0.5, 0.25, 3, 3), cell(0.5, 0.25, 2, 3), cell(0, 0, 0, 3)
    ('50.0 ± 25.0', '50.0 ± 25.0 (2/3)', 'none (0/3)')
    """
    if not used:
        return f"none (0/{of})"
    shown = f"{100 * mean:.1f} ± {100 * std:.1f}"
    return shown if used == of else f"{shown} ({used}/{of})"


def _known(value: float) -> float | None:
    return number(value)  # type: ignore[return-value]  # a float or None


def accuracy_findings(rows: pd.DataFrame) -> Iterator[Finding]:
    """How often each model is right, bucket by bucket: for any model, twin or not."""
    table = accuracy_table(rows)
    for mode, part in table.groupby("mode"):
        models = sorted(part["model"].unique())
        wide = part.assign(share=part["right"] / part["of"])
        wide = in_paper_order(wide.pivot(index=BUCKET, columns="model", values="share").reset_index())
        total = part.groupby("model")[["right", "unanswered", "of"]].sum()
        yield Finding(
            title=f"Right answers on {mode} samples",
            about="Share of questions answered rightly, by bucket (tables 3 and 4 of the paper). A question without an "
            "answer counts as wrong.",
            sentences=tuple(
                f"{name} answers {total.loc[name, 'right'] / total.loc[name, 'of']:.1%} of "
                f"{total.loc[name, 'of']} {mode} questions rightly."
                + (
                    f" To {silent} of them it has no answer at all."
                    if (silent := total.loc[name, "unanswered"])
                    else ""
                )
                for name in models
            ),
            columns=("form", "type", "depth", "density", *models),
            rows=tuple(
                (*row[:4], *(number(value) for value in row[4:]))
                for row in wide[[*BUCKET, *models]].astype(object).itertuples(index=False, name=None)
            ),
            section="The models",
        )

"""The paper's tables with ours beside them, and the arithmetic of its own tables: what follows from what it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.controls import NOISE
from karat.protocols.common.published import Published, Table, beside
from karat.protocols.common.words import number
from karat.protocols.synergy.analysis import FAITHFULNESS, Scored
from karat.protocols.synergy.tables import NAMES
from karat.statistics import kendall

if TYPE_CHECKING:
    from karat.results.run import Run

# The paper's datasets: its name → (ours, the table with all scores on it).
DATASETS = {"RePOPE": ("repope", "Table 3"), "MMStar": ("mmstar", "Table 4"), "CVBench": ("cv_bench", "Table 5")}
_Ours = dict[tuple[Scalar, ...], dict[str, Scalar]]


def tables(scored: Scored, run: Run, own: dict[str, str], published: Published) -> list[Finding]:
    """Tables 1 to 5. Where the run lacks a dataset of the paper, its printed numbers stand alone."""
    datasets = {label: str(facts["name"]) for label, facts in run.parts["dataset"].items()}
    return [
        _table_1(scored, own, published),
        _table_2(scored, datasets, own, published),
        *(_every_score(scored, datasets, own, published, name) for name in DATASETS),
    ]


def _table_1(scored: Scored, own: dict[str, str], published: Published) -> Finding:
    ours: _Ours = {}
    values, effects = scored.rows("f_syn"), scored.effects.coefficients
    for name, label in own.items():
        mine = values[values["explainer"] == label]["value"]
        row: dict[str, Scalar] = {
            "overall": number(mine.mean()), "overall sd": number(mine.std()), "n": int(mine.notna().sum()),
        }  # fmt: skip
        if label in effects.index:
            row |= {key: number(effects.loc[label, key]) for key in ("low", "high")}
            row["effect"] = number(effects.loc[label, "coef"])
        ours[(name,)] = row
    heads, rows = beside(published.tables["Table 1"], ["explainer"], ours, ["overall", "overall sd", "effect"])
    more = [tuple(ours.get((row[0],), {}).get(key) for key in ("low", "high", "n")) for row in rows]
    about = "The paper: three models of 2 to 7 billion parameters on three datasets. Ours: those of the run."
    joined = tuple((*row, *extra) for row, extra in zip(rows, more, strict=True))
    return Finding("Table 1: F_syn and effects", about, (), (*heads, "effect low", "effect high", "n"), joined)


def _table_2(scored: Scored, datasets: dict[str, str], own: dict[str, str], published: Published) -> Finding:
    """The paper's effects per dataset, with ours on those datasets, and on the run's others behind."""
    fits = scored.effects_by_dataset.fits
    theirs = {ours: name for name, (ours, _) in DATASETS.items()}
    columns = {label: f"{theirs.get(datasets[label], label)} effect" for label in fits}
    mine: _Ours = {
        (name,): {
            columns[label]: number(fit.coefficients.loc[own_label, "coef"])
            for label, fit in fits.items()
            if own_label in fit.coefficients.index
        }
        for name, own_label in own.items()
    }
    printed = published.tables["Table 2"]
    heads, rows = beside(printed, ["explainer"], mine, [f"{name} effect" for name in DATASETS], published_alone=True)
    others = [column for column in columns.values() if column not in printed.columns]
    joined = tuple((*row, *(mine.get((row[0],), {}).get(column) for column in others)) for row in rows)
    return Finding("Table 2: effects per dataset", "Against random attribution.", (), (*heads, *others), joined)


def _every_score(
    scored: Scored, datasets: dict[str, str], own: dict[str, str], published: Published, name: str
) -> Finding:
    """Tables 3-5: the paper's means over its three models, and ours on that dataset."""
    ours_name, number_of = DATASETS[name]
    labels = [label for label, registered in datasets.items() if registered == ours_name]
    printed = published.tables[number_of]
    columns = [NAMES[metric] for metric in FAITHFULNESS]
    means = Table(number_of, printed.title, ("explainer", *columns), tuple(
        (row[0], *(_over_models(printed, row, column) for column in columns)) for row in printed.rows
    ))  # fmt: skip
    mine: _Ours = {}
    for explainer, label in own.items() if labels else ():
        mine[(explainer,)] = {}
        for metric in FAITHFULNESS:
            rows = scored.rows(metric)
            values = rows[rows["dataset"].isin(labels) & (rows["explainer"] == label)]["value"]
            mine[(explainer,)][NAMES[metric]] = number(values.mean())
    about = f"Means over models. Ours: {', '.join(labels) or f'no {ours_name} in this run'}."
    title = f"{number_of}: {printed.title}"
    return Finding(title, about, (), *beside(means, ["explainer"], mine, columns, published_alone=True))


def _over_models(table: Table, row: tuple[Scalar, ...], column: str) -> float:
    """The mean of a printed row over the models that a table has."""
    values = [v for v, head in zip(row, table.columns, strict=True) if head.endswith(f" {column}")]
    return float(np.mean([float(v) for v in values if v is not None]))


# --- the paper's own arithmetic ---


def arithmetic(published: Published) -> Finding:
    """What follows from the paper's printed tables, beside what it prints elsewhere."""
    own, whole = _taus(published)
    same = [name for name, tau, _, printed, _ in own if printed is not None and abs(tau - printed) < 0.005]
    shifts = [tau for _, tau, *_ in whole]
    printed = published.facts["tau_global"]["value"]
    reached = any(abs(tau - printed) < 0.005 for tau in shifts)
    return Finding(
        title="The arithmetic of the paper's tables",
        about="Nothing here is of the run. Kendall's tau is between the explainers' mean image SRG and mean text SRG "
        "over models (tables 3-5), with its p over nine explainers. Deviations are the largest over explainers; tables "
        "print three digits.",
        sentences=(
            f"Printed values that follow from the tables: {', '.join(same) or 'none'}.",
            f"The global tau of {printed} {'follows' if reached else 'does not follow'}: {len(shifts)} weightings of "
            f"the datasets give {min(shifts):.2f} to {max(shifts):.2f}.",
        ),
        columns=("what", "follows", "p", "printed", "p printed"),
        rows=(*own, *whole, *_sums(published)),
    )


_Row = tuple[str, float, float | None, float | None, float | None]


def _taus(published: Published) -> tuple[list[_Row], list[_Row]]:
    """tau on each dataset, and over all of them under several weightings."""
    facts = published.facts
    means: dict[str, dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    for name, (_, number_of) in DATASETS.items():
        table = published.tables[number_of]
        ordered = sorted(table.rows, key=lambda row: str(row[0]))
        means[name] = {
            what: np.array([_over_models(table, row, what) for row in ordered]) for what in ("image SRG", "text SRG")
        }
    alone: list[_Row] = []
    for name, own in means.items():
        tau = kendall(own["image SRG"], own["text SRG"])
        tau_printed, p_printed = (facts.get(f"{what}_{name.lower()}", {}).get("value") for what in ("tau", "p"))
        alone.append((f"tau, {name}", tau.value, tau.p, tau_printed, p_printed))
    questions = np.array([facts[f"questions_{name.lower()}"]["value"] for name in means], dtype=np.float64)
    distinct = np.where(np.array(list(means)) == "RePOPE", facts["questions_repope_distinct"]["value"], questions)
    stacked = {what: np.array([own[what] for own in means.values()]) for what in ("image SRG", "text SRG")}
    weightings = {
        "datasets alike": [np.mean(stacked[what], axis=0) for what in stacked],
        "by questions": [np.average(stacked[what], axis=0, weights=questions) for what in stacked],
        "by distinct questions": [np.average(stacked[what], axis=0, weights=distinct) for what in stacked],
        "mean of ranks over datasets": [stats.rankdata(stacked[what], axis=1).mean(axis=0) for what in stacked],
        "mean of ranks over datasets and models": [_model_ranks(published, what) for what in stacked],
    }
    printed = facts["tau_global"]["value"], facts["p_global"]["value"]
    taus = {how: kendall(image, text) for how, (image, text) in weightings.items()}
    return alone, [(f"tau, all, {how}", tau.value, tau.p, *printed) for how, tau in taus.items()]


def _model_ranks(published: Published, what: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Mean rank of each explainer over the nine pairs of a model and a dataset."""
    ranks = []
    for _, number_of in DATASETS.values():
        table = published.tables[number_of]
        ordered = sorted(table.rows, key=lambda row: str(row[0]))
        for at, head in enumerate(table.columns):
            if head.endswith(f" {what}"):
                ranks.append(stats.rankdata([float(row[at] or 0.0) for row in ordered]))
    return np.asarray(np.mean(ranks, axis=0))


def _sums(published: Published) -> list[_Row]:
    """Deviations between tables that should follow from one another."""
    table, facts = published.tables["Table 1"], published.facts
    one = {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    numbers = {name: {k: float(v) for k, v in row.items() if isinstance(v, float | int)} for name, row in one.items()}
    gaps = [row["effect"] - (row["overall"] - numbers[NOISE]["overall"]) for row in numbers.values()]
    rows: list[_Row] = [
        ("largest deviation: effect and overall minus random, Table 1", float(np.abs(gaps).max()), None, 0.0, None)
    ]
    for name, (_, number_of) in DATASETS.items():
        scores = published.tables[number_of]
        off = [_over_models(scores, row, "F_syn") - numbers[str(row[0])][name] for row in scores.rows]
        rows.append((f"largest deviation: F_syn, {number_of} and Table 1", float(np.abs(off).max()), None, 0.0, None))
    for how, repope in (
        ("all its", "questions_repope"),
        ("its distinct", "questions_repope_distinct"),
    ):
        weights = [facts[repope]["value"], *(facts[f"questions_{d}"]["value"] for d in ("mmstar", "cvbench"))]
        off = [np.average([row[d] for d in DATASETS], weights=weights) - row["overall"] for row in numbers.values()]
        what = f"largest deviation: overall as a mean over questions, RePOPE with {how} {weights[0]:,}"
        rows.append((what, float(np.abs(off).max()), None, 0.0, None))
    ratio = facts["seconds_exact"]["value"] / facts["seconds_f_syn"]["value"]
    return [*rows, ("speedup, from the seconds of Fig. 4", ratio, None, facts["speedup"]["value"], None)]

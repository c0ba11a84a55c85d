"""Do image and text metrics rank explainers alike? Rank shifts (Fig. 2, 8), rank grids and tests (Fig. 5, 9)."""

from __future__ import annotations

import pandas as pd

from karat.kernel.errors import BadInput
from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.typing import Scalar
from karat.protocols.synergy.frames import BETTER, FAITHFULNESS, NAMES, Scored, instances, number
from karat.statistics import (
    Estimate,
    cliques,
    critical_difference,
    friedman,
    mean_ranks,
    rank_intervals,
    ranking_agreement,
    wilcoxon_against_best,
)

_PAIRS = (("srg_visual", "srg_text"), ("f_syn", "srg_visual"), ("f_syn", "srg_text"))


def agreement(scored: Scored, first: str, second: str, dataset: str | None) -> Estimate | None:
    """Kendall's tau between the orders of explainers under two metrics; None where too few are ranked."""
    a, b = scored.wide(first, dataset), scored.wide(second, dataset)
    both = a.index.intersection(b.index)
    a, b = a.loc[both], b.loc[both]
    try:
        rng = scored.rng(f"{first}{second}{dataset}")
        return ranking_agreement(a, b, (BETTER[first], BETTER[second]), rng=rng, clusters=instances(a))
    except BadInput:
        return None


def rank_shifts(scored: Scored) -> Finding:
    """Kendall's tau between the rankings by image and by text, globally and per dataset."""
    rows: list[tuple[Scalar, ...]] = []
    figures = []
    said = []
    for dataset in (None, *scored.datasets) if len(scored.datasets) > 1 else (None,):
        for first, second in _PAIRS:
            found = agreement(scored, first, second, dataset)
            if found is None:
                continue
            names = (dataset or "all", NAMES[first], NAMES[second])
            rows.append((*names, number(found.value), number(found.low), number(found.high), number(found.p), found.n))
            if (first, second) == _PAIRS[0]:
                said.append(_said(dataset, found))
        shown = _slopes(scored, dataset)
        figures += [shown] if shown else []
    return Finding(
        title="Do image and text rank the explainers alike?",
        about="Kendall's tau between the orders of explainers that two metrics give, by mean rank over instances. The "
        "interval treats instances as the sample, p treats the explainers as the sample (section 4.2 of the paper).",
        sentences=tuple(said),
        columns=("dataset", "first", "second", "tau", "low", "high", "p", "n"),
        rows=tuple(rows),
        section="Ranking instability (section 4.2, appendix B.3)",
        figures=tuple(figures),
    )


def _said(dataset: str | None, found: Estimate) -> str:
    where = f"On {dataset}" if dataset else "Over all"
    if found.low > 0:
        how = "agree" if found.value > 0.5 else "agree in part"
    elif found.high < 0:
        how = "contradict each other"
    else:
        how = "cannot be shown to agree"
    interval = f"tau {found.value:.2f}, {found.low:.2f} to {found.high:.2f}, p {found.p:.2f}"
    return f"{where}, the rankings by image and by text {how} ({interval})."


def _slopes(scored: Scored, dataset: str | None) -> Figure | None:
    """Positions of every explainer under the three metrics."""
    places: dict[str, pd.Series[float]] = {}
    for metric in ("srg_visual", "f_syn", "srg_text"):
        try:
            places[metric] = mean_ranks(scored.wide(metric, dataset), BETTER[metric]).table["position"]
        except BadInput:
            return None
    x: tuple[Scalar, ...] = tuple(NAMES[metric] for metric in places)
    series = tuple(
        Series(name, x, tuple(number(place.get(name)) for place in places.values())) for name in scored.methods
    )
    title = f"Rank shifts: {dataset or 'all datasets'} ({'Fig. 8' if dataset else 'Fig. 2'})"
    return Figure(title, "slopes", "metric", "rank", series)


def rankings(scored: Scored) -> list[Finding]:
    """Mean ranks with Wilcoxon tests against the best, and the grid of ranks over metrics and datasets."""
    tests: list[tuple[Scalar, ...]] = []
    grid: dict[tuple[str, str], dict[str, float]] = {}
    said = []
    for metric in FAITHFULNESS:
        for dataset in (None, *scored.datasets) if len(scored.datasets) > 1 else (None,):
            table = scored.wide(metric, dataset)
            try:
                ranks = rank_intervals(
                    table, BETTER[metric], rng=scored.rng(f"{metric}{dataset}"), clusters=instances(table)
                )
            except BadInput as error:
                said.append(f"{NAMES[metric]}, {dataset or 'all'}: not ranked: {error}")
                continue
            against = wilcoxon_against_best(table, BETTER[metric])
            overall = friedman(table) if table.shape[1] > 2 else None
            for name, row in ranks.table.iterrows():
                test = against.loc[str(name)] if name in against.index else None
                tests.append(
                    (
                        NAMES[metric], dataset or "all", str(name), float(row["mean_rank"]), float(row["low"]),
                        float(row["high"]), int(row["position_low"]), int(row["position_high"]), float(row["p_best"]),
                        *(None if test is None else number(test[key]) for key in ("p", "p_bonferroni", "p_holm")),
                        ranks.n, ranks.n_dropped,
                    )
                )  # fmt: skip
            grid[metric, dataset or "all"] = {str(name): float(r) for name, r in ranks.table["mean_rank"].items()}
            if overall is not None and dataset is None:
                differ = "differ" if overall.p_f < 0.05 else "cannot be shown to differ"
                said.append(
                    f"{NAMES[metric]}: the explainers {differ} (Friedman p {overall.p_f:.2g}); mean ranks must be "
                    f"{critical_difference(table.shape[1], ranks.n):.2f} apart."
                )
                tied = cliques(ranks)
                if tied:
                    said.append(f"{NAMES[metric]}: not told apart by rank: {'; '.join(', '.join(c) for c in tied)}.")
    columns: tuple[Scalar, ...] = tuple(f"{NAMES[metric]}, {dataset}" for metric, dataset in grid)
    cells = tuple(Series(name, columns, tuple(g.get(name) for g in grid.values())) for name in scored.methods)
    return [
        Finding(
            title="Mean ranks, and who differs from the best",
            about="Ranks within each instance and model, 1 = best, over blocks where every explainer has a score. Low "
            "and high bound the mean rank, first and last place the position, by a bootstrap over instances. p is "
            "Wilcoxon's signed-rank test against the best, which was chosen on the same data.",
            sentences=tuple(said),
            columns=(
                "metric", "dataset", "explainer", "mean rank", "low", "high", "first place", "last place", "p best",
                "p", "p Bonferroni", "p Holm", "n", "dropped",
            ),
            rows=tuple(tests),
            section="Ranks (section 4.4, appendix C.1)",
            figures=(Figure("Mean ranks by metric and dataset (Fig. 5, 9)", "grid", "", "mean rank", cells),),
        )
    ]  # fmt: skip

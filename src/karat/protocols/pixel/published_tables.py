"""The tables of pixelrules2024 with the numbers of a run in them, each beside the printed one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from karat.kernel.errors import KaratError
from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.published import Table, load
from karat.protocols.pixel.frames import Scored, is_method, paper_name
from karat.protocols.pixel.rankings import means_of, places, tau_figure
from karat.statistics import kendall

Row = tuple[Scalar, ...]
COMPARED = ("Gradient", "IxG", "Grad-CAM", "IG", "RISE")  # the five of table 5
FIGURES = {"Table 3": {"Del": "deletion", "Add": "addition"}, "Table 4": {"HA": "hit", "WIoU": "weighted_iou"}}


def tables(scored: Scored) -> list[Finding]:
    """Tables 1 to 5 as far as the run has something to say to them."""
    published = load("pixel").tables
    untouched = [model for model in scored.models if model not in scored.judged]
    found = [
        _accuracies(scored, scored.judged, published["Table 1"]) if scored.judged else None,
        _accuracies(scored, untouched, published["Table 2"]) if untouched else None,
        *(_scores(scored, published[number], metrics) for number, metrics in FIGURES.items() if scored.judged),
        *(_protocols(scored, model, published["Table 5"]) for model in scored.judged),
    ]
    return [finding for finding in found if finding is not None]


def _accuracies(scored: Scored, models: list[str], table: Table) -> Finding:
    """Published and own accuracy of each model, in percent."""
    rows: list[Row] = []
    kinds = [name for name in ("C-Set", "P-Set", "DR") if f"{scored.images} {name}" in table.columns]
    for model in models:
        row = table.column("Model").index(scored.network(model))
        ours = 100 * scored.accuracy(model).mean(axis=0)
        pairs = [(table.column(f"{scored.images} {kind}")[row], float(ours[k])) for k, kind in enumerate(kinds)]
        rows.append((model, scored.network(model), *(value for pair in pairs for value in pair)))
    heads = [f"{kind} {whose}" for kind in kinds for whose in ("published", "ours")]
    return Finding(f"{table.number}: {table.title}", _which(scored), (), ("model", "beside", *heads), tuple(rows))


def _scores(scored: Scored, table: Table, metrics: Mapping[str, str]) -> Finding:
    rows: list[Row] = []
    for model in scored.judged:
        own = {paper_name(name): name for name in scored.explainers(model)}
        for at, method in enumerate(table.column("Method")):
            row: list[Scalar] = [model, method]
            for short, metric in metrics.items():
                printed = table.column(f"{scored.column(model)} {short}")[at]
                mine = scored.mean(model, metric, own[str(method)]).value if method in own else np.nan
                scale = 100.0 if short == "HA" else 1.0  # printed in percent
                shown = float(printed) / scale if isinstance(printed, int | float) else None
                row += [shown, mine if np.isfinite(mine) else None]
            rows.append(tuple(row))
    heads = [head for short in metrics for head in (f"{short} published", f"{short} ours")]
    about = f"{_which(scored)} {table.note}".strip()
    return Finding(f"{table.number}: {table.title}", about, (), ("model", "method", *heads), tuple(rows))


def _which(scored: Scored) -> str:
    return f"Published numbers are of {scored.images_in_full}, with the architecture that is nearest."


def _protocols(scored: Scored, model: str, table: Table) -> Finding | None:
    """Places of the paper's five explainers under every protocol that has ranked them, and Kendall's tau."""
    if scored.trained_on_deletions(model):
        return None
    means = {f"{title} ours": _by_paper_name(scored, model, metric)
             for metric, title in (("weighted_iou", "pixel"), ("ids", "IDS"), ("sds", "SDS"))}  # fmt: skip
    trained = next((m for m in scored.judged if scored.is_twin_with_deletions(m, model)), None)
    if trained is not None:
        means["IDSDS ours"] = _by_paper_name(scored, trained, "sds")
    means["SD ours (grid)"] = _on_the_grid()
    means = {title: found for title, found in means.items() if found}
    names = [name for name in COMPARED if all(name in found for found in means.values())]
    if len(names) < 3:
        return None
    printed = dict(zip(table.column("Method"), table.column("pixel"), strict=True))
    where = {"pixel published": places([-float(printed[name] or 0) for name in names])}
    where |= {title: places([found[name] for name in names]) for title, found in means.items()}
    taus = {(a, b): kendall(where[a], where[b]) for a, b in combinations(where, 2)}
    said = tuple(f"{a} with {b}: tau {tau.value:.2f}, p {tau.p:.2f}." for (a, b), tau in taus.items())
    return Finding(
        f"{table.number}: {table.title}, beside {model}",
        f"Five explainers are few: tau among them must be 1 or -1 for p to be below 0.05. {table.note}",
        said,
        ("method", *where),
        tuple((name, *(int(where[title][k]) for title in where)) for k, name in enumerate(names)),
        figures=(
            tau_figure(
                f"Kendall's tau between protocols, {model}",
                list(where),
                {pair: tau.value for pair, tau in taus.items()},
            ),
        ),
    )


def _by_paper_name(scored: Scored, model: str, metric: str) -> dict[str, float]:
    return {paper_name(name): mean for name, mean in means_of(scored, model, metric).items() if is_method(name)}


def _on_the_grid() -> dict[str, float]:
    """FunnyBirds' single deletion needs rendered parts, which only the grid has: from the run that ships with Karat."""
    from karat.protocols.paper import recorded
    from karat.results.run import load_run

    try:
        scored = Scored(load_run(recorded("deletion")))
    except KaratError:  # a checkout without recorded runs
        return {}
    return _by_paper_name(scored, scored.models[0], "sd")

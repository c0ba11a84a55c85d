"""The tables of pixelrules2024 with the numbers of a run in them, each beside the printed one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from karat.kernel.errors import KaratError
from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.published import Table, load
from karat.protocols.common.words import number
from karat.protocols.pixel.analysis import Metric, Network, Scored, places
from karat.protocols.pixel.findings import tau_figure
from karat.statistics import kendall

Row = tuple[Scalar, ...]
COMPARED = ("Gradient", "IxG", "Grad-CAM", "IG", "RISE")  # the five of table 5
FIGURES: dict[str, dict[str, tuple[Metric, float]]] = {  # column, score, and the unit it is printed in
    "Table 3": {"Del": ("deletion", 1.0), "Add": ("addition", 1.0)},
    "Table 4": {"HA": ("hit", 100.0), "WIoU": ("weighted_iou", 1.0)},
}


def tables(scored: Scored) -> list[Finding]:
    """Tables 1 to 5 as far as the run has something to say to them."""
    published = load("pixel").tables
    untouched = [model for model in scored.models if model not in scored.judged]
    made = [
        _accuracies(scored, scored.judged, published["Table 1"]) if scored.judged else None,
        _accuracies(scored, untouched, published["Table 2"]) if untouched else None,
        *(_scores(scored, published[number], columns) for number, columns in FIGURES.items() if scored.judged),
        *(_protocols(scored, model, published["Table 5"]) for model in scored.judged),
    ]
    return [finding for finding in made if finding is not None]


def _accuracies(scored: Scored, models: Sequence[Network], table: Table) -> Finding:
    """Published and own accuracy of each model, in per cent as printed."""
    rows: list[Row] = []
    shares = {"C-Set": "clean", "P-Set": "perturbed", "DR": "decided"}
    heads = [name for name in shares if f"{scored.images} {name}" in table.columns]
    for model in models:
        one = scored.accuracy(model.label)
        at = None if model.network is None else table.column("Model").index(model.network)
        row: list[Scalar] = [model.label, model.network]
        for name in heads:
            printed = None if at is None else table.column(f"{scored.images} {name}")[at]
            row += [printed, 100 * float(getattr(one, shares[name]))]
        rows.append(tuple(row))
    columns = [f"{name} {whose}" for name in heads for whose in ("published", "ours")]
    return Finding(f"{table.number}: {table.title}", _which(scored), (), ("model", "beside", *columns), tuple(rows))


def _scores(scored: Scored, table: Table, metrics: Mapping[str, tuple[Metric, float]]) -> Finding:
    """A row for every explainer of the run, in the paper's order and units, and for those that it alone has."""
    rows: list[Row] = []
    for model in scored.judged:
        explainers = scored.explainers(model.label)
        missing = [str(method) for method in table.column("Method") if method not in {one.paper for one in explainers}]
        listed = [(one.paper, one.label) for one in explainers] + [(method, None) for method in missing]
        for method, label in listed:
            row: list[Scalar] = [model.label, method, label]
            for short, (metric, unit) in metrics.items():
                row.append(_printed(scored, model, table, short, method))
                value = None if label is None else number(scored.mean(model.label, metric, label).value)
                row.append(None if value is None else unit * value)
            rows.append(tuple(row))
    heads = [head for short in metrics for head in (f"{short} published", f"{short} ours")]
    about = f"{_which(scored)} {table.note}".strip()
    return Finding(f"{table.number}: {table.title}", about, (), ("model", "method", "explainer", *heads), tuple(rows))


def _printed(scored: Scored, model: Network, table: Table, short: str, method: str | None) -> Scalar:
    if model.column is None or method not in table.column("Method"):
        return None
    return table.column(f"{scored.images}+{model.column} {short}")[table.column("Method").index(method)]


def _which(scored: Scored) -> str:
    return f"Published numbers are of {scored.images_in_full}, with the architecture that is nearest."


def _protocols(scored: Scored, model: Network, table: Table) -> Finding | None:
    """Places of the paper's five explainers under every protocol that has ranked them, and Kendall's tau."""
    if model.deleted:
        return None
    compared: tuple[tuple[Metric, str], ...] = (("weighted_iou", "pixel"), ("ids", "IDS"), ("sds", "SDS"))
    means = {f"{title} ours": _by_method(scored, model, metric) for metric, title in compared}
    trained = scored.twin_with_deletions(model)
    if trained is not None:
        means["IDSDS ours"] = _by_method(scored, trained, "sds")
    means["SD ours (grid)"] = _on_the_grid()
    means = {title: values for title, values in means.items() if values}
    names = [name for name in COMPARED if all(name in values for values in means.values())]
    if len(names) < 3:
        return None
    printed = dict(zip(table.column("Method"), table.column("pixel"), strict=True))
    where = {"pixel published": places([-float(str(printed[name])) for name in names])}
    where |= {title: places([values[name] for name in names]) for title, values in means.items()}
    taus = {(a, b): kendall(where[a], where[b]) for a, b in combinations(where, 2)}
    return Finding(
        f"{table.number}: {table.title}, beside {model.label}",
        f"Five explainers are few: tau among them must be 1 or -1 for p to be below 0.05. {table.note}",
        tuple(f"{a} with {b}: tau {tau.value:.2f}, p {tau.p:.2f}." for (a, b), tau in taus.items()),
        ("method", *where),
        tuple((name, *(int(where[title][k]) for title in where)) for k, name in enumerate(names)),
        figures=(
            tau_figure(
                f"Kendall's tau between protocols, {model.label}",
                list(where),
                {pair: tau.value for pair, tau in taus.items()},
            ),
        ),
    )


def _by_method(scored: Scored, model: Network, metric: Metric) -> dict[str, float]:
    """Means of the explainers that the paper has, each in the paper's own configuration."""
    means = scored.means(model.label, metric)
    return {str(one.paper): means[one.label] for one in scored.as_published(model.label, metric)}


def _on_the_grid() -> dict[str, float]:
    """FunnyBirds' single deletion needs rendered parts, which only the grid has: from the run that ships with Karat."""
    from karat.protocols.paper import recorded
    from karat.results.run import load_run

    try:
        scored = Scored(load_run(recorded("deletion")))
    except KaratError:  # a checkout without recorded runs
        return {}
    return _by_method(scored, scored.models[0], "sd")

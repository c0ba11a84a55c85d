"""Table 5 of pixelrules2024: do protocols that delete cells or parts rank explainers as the pixels do?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.kernel.typing import Scalar
from karat.protocols.common.words import interval
from karat.protocols.pixel.frames import Scored, is_method, paper_name
from karat.statistics import Estimate, ranking_agreement

ABOUT = (
    "IDS deletes pixels, the least important first; SDS deletes one cell of a 4×4 grid at a time and asks whether the "
    "map knew how much that costs (on a model trained with such cells: IDSDS). Both see cells, not pixels."
)
PIXEL = {"weighted_iou": "pixel (WIoU)", "hit": "pixel (HA)", "ids": "IDS", "sds": "SDS"}
SECTION = "Table 5: other protocols"

Places = npt.NDArray[np.float64]


def rankings(scored: Scored, models: Sequence[str], protocols: Mapping[str, str], about: str = ABOUT) -> list[Finding]:
    """Per model: the explainers' places under each protocol ({metric: title}), and Kendall's tau of every two."""
    found = []
    for model in models:
        titles = titled(scored, model, protocols)
        means = {metric: means_of(scored, model, metric) for metric in titles}
        shared = [name for name in scored.explainers(model) if all(name in means[metric] for metric in titles)]
        if len(shared) > 2 and len(titles) > 1:
            found.append(_finding(scored, model, titles, {m: {n: means[m][n] for n in shared} for m in titles}, about))
    return found


def titled(scored: Scored, model: str, protocols: Mapping[str, str]) -> dict[str, str]:
    """The protocols that have scored this model, SDS by its other name where it has one."""
    found = {metric: title for metric, title in protocols.items() if means_of(scored, model, metric)}
    if "sds" in found and scored.trained_on_deletions(model):
        found["sds"] = "IDSDS"
    return found


def means_of(scored: Scored, model: str, metric: str) -> dict[str, float]:
    """Mean score of each method that has one; controls are no competitors."""
    if not scored.has(metric):
        return {}
    means = scored.wide(model, metric).mean()
    return {str(name): float(value) for name, value in means.items() if is_method(str(name)) and np.isfinite(value)}


def places(values: Sequence[float]) -> Places:
    """1 for the greatest; ties share the better place."""
    array = np.array(values)
    return np.array([1.0 + (array > value).sum() for value in array])


def agreement(scored: Scored, model: str, names: list[str], first: str, second: str) -> Estimate:
    """Kendall's tau of two scores' orders of the explainers; the interval is over images."""
    tables = [scored.wide(model, metric)[names] for metric in (first, second)]
    rng = generator(0, model, f"pixel/{first}/{second}")
    return ranking_agreement(tables[0], tables[1].reindex(tables[0].index), rng=rng, resamples=1000)


def _finding(
    scored: Scored, model: str, titles: dict[str, str], means: dict[str, dict[str, float]], about: str
) -> Finding:
    metrics, names = list(titles), list(next(iter(means.values())))
    where = {metric: places([means[metric][name] for name in names]) for metric in metrics}
    taus = {pair: agreement(scored, model, names, *pair) for pair in combinations(metrics, 2)}
    lead = metrics[0]
    sentences = [
        f"Kendall's tau of {titles[first]} with {titles[second]}: {interval(tau)}."
        for (first, second), tau in taus.items()
    ]
    for metric in metrics[1:]:
        best = names[int(np.argmin(where[metric]))]
        at = int(where[lead][names.index(best)])
        sentences.append(f"First under {titles[metric]} is {paper_name(best)}, place {at} of {len(names)} by "
                         f"{titles[lead]}.")  # fmt: skip
    rows: tuple[tuple[Scalar, ...], ...] = tuple(
        (name, *(int(where[metric][k]) for metric in metrics), *(means[metric][name] for metric in metrics))
        for k, name in enumerate(names)
    )
    slopes = tuple(
        Series(paper_name(name), tuple(titles.values()), tuple(float(where[m][k]) for m in metrics))
        for k, name in enumerate(names)
    )
    return Finding(
        title=f"Places under other protocols, {model}",
        about=about,
        sentences=tuple(sentences),
        columns=("explainer", *(f"place: {title}" for title in titles.values()), *titles.values()),
        rows=rows,
        section=SECTION,
        figures=(
            Figure(f"Places under each protocol, {model}", "slopes", "protocol", "place", slopes),
            tau_figure(f"Kendall's tau between protocols, {model}", list(titles.values()),
                       {(titles[a], titles[b]): tau.value for (a, b), tau in taus.items()}),
        ),
    )  # fmt: skip


def tau_figure(title: str, names: list[str], taus: Mapping[tuple[str, str], float]) -> Figure:
    """Every two protocols, 1 with themselves; empty where tau has no value."""

    def tau(a: str, b: str) -> float | None:
        value = 1.0 if a == b else taus.get((a, b), taus.get((b, a), np.nan))
        return float(value) if np.isfinite(value) else None

    series = tuple(Series(a, tuple(names), tuple(tau(a, b) for b in names)) for a in names)
    return Figure(title, "grid", "protocol", "Kendall's tau", series)

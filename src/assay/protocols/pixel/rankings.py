"""Table 5 of pixelrules2024: do protocols that delete cells rank explainers as the pixels do?"""

from __future__ import annotations

import numpy as np

from assay.kernel.finding import Figure, Finding, Series
from assay.kernel.identity import generator
from assay.kernel.typing import Scalar
from assay.protocols.pixel.frames import Scored, is_method, paper_name
from assay.statistics import ranking_agreement

PROTOCOLS = {"weighted_iou": "pixel (WIoU)", "hit": "pixel (HA)", "ids": "IDS", "sds": "SDS"}
TRAINED_ON_DELETIONS = "deleted"  # in the name of a model: its SDS is IDSDS


def rankings(scored: Scored) -> list[Finding]:
    """Per model: places under each protocol, and Kendall's tau of each with WIoU."""
    found = []
    for model in scored.judged:
        names = [name for name in scored.explainers(model) if is_method(name)]
        metrics = [metric for metric in PROTOCOLS if scored.has(metric)]
        means = {metric: {name: scored.mean(model, metric, name).value for name in names} for metric in metrics}
        names = [name for name in names if all(np.isfinite(means[metric][name]) for metric in metrics)]
        if len(names) < 3 or "sds" not in metrics:
            continue
        titles = {m: ("IDSDS" if m == "sds" and TRAINED_ON_DELETIONS in model else PROTOCOLS[m]) for m in metrics}
        places = {metric: _places([means[metric][name] for name in names]) for metric in metrics}
        sentences = []
        for metric in metrics[1:]:
            tau = ranking_agreement(
                scored.wide(model, "weighted_iou")[names], scored.wide(model, metric)[names], ("higher", "higher"),
                rng=generator(0, model, f"pixel/{metric}"), resamples=1000,
            )  # fmt: skip
            sentences.append(f"Kendall's tau of WIoU with {titles[metric]}: {tau.value:.2f} [{tau.low:.2f}, "
                             f"{tau.high:.2f}].")  # fmt: skip
        for metric in ("ids", "sds"):
            first = names[int(np.argmin(places[metric]))]
            at = int(places["weighted_iou"][names.index(first)])
            sentences.append(f"First under {titles[metric]} is {paper_name(first)}, place {at} of {len(names)} by its "
                             "pixels.")  # fmt: skip
        rows: tuple[tuple[Scalar, ...], ...] = tuple(
            (name, *(int(places[metric][k]) for metric in metrics), *(means[metric][name] for metric in metrics))
            for k, name in enumerate(names)
        )
        columns = ("explainer", *(f"place: {titles[m]}" for m in metrics), *(titles[m] for m in metrics))
        slopes = tuple(
            Series(paper_name(name), tuple(titles[m] for m in metrics), tuple(float(places[m][k]) for m in metrics))
            for k, name in enumerate(names)
        )
        found.append(
            Finding(
                title=f"Places under other protocols, {model}",
                about="IDS deletes pixels, the least important first; SDS deletes one cell of a 4×4 grid at a time and "
                "asks whether the map knew how much that costs (on a model trained with such cells: IDSDS). Both see "
                "cells, not pixels.",
                sentences=tuple(sentences),
                columns=columns,
                rows=rows,
                section="Table 5: other protocols",
                figures=(Figure(f"Places under each protocol, {model}", "slopes", "protocol", "place", slopes),),
            )
        )
    return found


def _places(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """1 for the greatest; ties share the better place."""
    array = np.array(values)
    return np.array([1.0 + (array > value).sum() for value in array])

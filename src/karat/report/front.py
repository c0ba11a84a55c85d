"""The first screen: for each protocol the figure that is its answer, and the sample that shows it best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from karat.kernel.finding import Figure
from karat.report.encode import number
from karat.report.evidence import Evidence
from karat.report.findings import tidy
from karat.report.leaderboards import Board
from karat.report.samples import WrittenSamples

_MOST = 14  # explainers in a figure of the first screen that the page makes itself
_TALLEST = 30  # lines of a protocol's own figure that the first screen takes


def front(evidence: Evidence, protocol: str, speaking: Sequence[Board], samples: WrittenSamples) -> dict[str, Any]:
    """`figure` as findings have them, `sample` as front.js draws it; None where there is nothing to show."""
    return {"protocol": protocol, "figure": _figure(evidence, protocol, speaking[0]),
            "sample": telling(evidence, speaking[0], samples)}  # fmt: skip


def _figure(evidence: Evidence, protocol: str, board: Board) -> dict[str, Any] | None:
    """What the protocol marks as its answer; else its verdict's first; else the means of its chief score."""
    mine = [one.finding for one in evidence.findings if one.protocol == protocol]
    marked = [figure for finding in mine for figure in finding.figures if figure.headline]
    marked = marked or [figure for finding in mine if not finding.section for figure in finding.figures]
    marked = [figure for figure in marked if not _too_tall(figure)]
    if marked:
        first: dict[str, Any] = tidy({"figures": [vars(marked[0])]})["figures"][0]
        first["series"] = [tidy(vars(series)) for series in marked[0].series]
        return {**first, "more": len(marked) - 1}
    rows = [row for row in board.plain(evidence)["rows"] if row["mean"] is not None]
    if len(rows) < 2:
        return None
    kept = rows if len(rows) <= _MOST else [*rows[: _MOST // 2], *rows[-_MOST // 2 :]]
    lines = [
        (name, board.spread.mean[at]) for name, at in (("noise", board.floor), ("oracle", board.reference))
        if at is not None and np.isfinite(board.spread.mean[at])
    ]  # fmt: skip
    return {
        "title": f"{board.metric.name} by explainer{f', {board.model}' if board.model else ''}", "kind": "intervals",
        "x": "explainer", "y": board.metric.name, "lines": [[name, number(float(value))] for name, value in lines],
        "note": "" if kept is rows else f"The first and the last {_MOST // 2} of {len(rows)}.", "more": 0,
        "series": [{
            "name": board.metric.name, "x": [row["explainer"] for row in kept],
            **{to: [row[key] for row in kept] for to, key in (("y", "mean"), ("low", "low"), ("high", "high"))},
        }],
    }  # fmt: skip


def _too_tall(figure: Figure) -> bool:
    """Whether it has a line for each of more things than a first screen holds: it stands among the findings."""
    things = {thing for series in figure.series for thing in series.x}
    return figure.kind in ("bars", "intervals") and len(things) > _TALLEST


def telling(evidence: Evidence, board: Board, samples: WrittenSamples) -> dict[str, Any] | None:
    """The sample, among those with a picture and both maps, on which the explainer with the best mean lies furthest
    above the one with the worst (noise, where there is one explainer alone)."""
    mean = board.better * board.spread.mean
    able = [int(i) for i in np.flatnonzero(board.contenders) if np.isfinite(mean[i])]
    if len(able) == 1 and board.floor is not None:
        able.append(board.floor)
    if board.better == 0 or len(able) < 2:
        return None
    best, worst = (board.explainers[f(able, key=lambda i: mean[i])] for f in (max, min))
    rows = evidence.rows.values(board.metric.protocol, board.metric.name)
    model = board.model or rows.models[0]
    m, b, w = rows.models.index(model), rows.explainers.index(best), rows.explainers.index(worst)
    start, stop = samples.items.starts[board.metric.protocol]
    mine = [i for i in range(start, stop) if samples.items.model[i] == model and samples.maps.chunk[i] >= 0]
    mine = [i for i in mine if samples.scene(int(samples.items.sample[i])) is not None]
    if not mine:
        return None
    numbers = evidence.order[samples.items.sample[mine]]
    high, low = rows.values[m, b, numbers], rows.values[m, w, numbers]
    gaps = board.better * (high - low)
    if not np.isfinite(gaps).any():
        return None
    k = int(np.nanargmax(gaps))
    item, sample = mine[k], int(samples.items.sample[mine[k]])
    facts = next((run.parts["model"][model] for run in evidence.runs if model in run.parts["model"]), {})
    return {
        "model": model, "mechanism": facts.get("mechanism"), "metric": board.metric.name,
        "id": evidence.rows.samples.texts[int(evidence.order[sample])][1], "scene": samples.scene(sample),
        "maps": [samples.maps.chunks[samples.maps.chunk[item]], int(samples.maps.place[item])],
        "text": sample,
        "best": {"name": best, "value": number(float(high[k]), 3)},
        "worst": {"name": worst, "value": number(float(low[k]), 3)},
        "rule": f"Of {len(mine):,} samples with maps, the one on which {best} (best {board.metric.name} on average) "
        f"lies furthest above {worst} (worst).",
    }  # fmt: skip

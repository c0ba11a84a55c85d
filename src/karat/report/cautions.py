"""Warnings that matter: what a reader must know before believing the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from karat.report.evidence import FLOOR, REFERENCE, Evidence
from karat.report.leaderboards import Board
from karat.report.verdict import leaders, samples_needed

_SHOWN = 8  # reasons spelled out
_FEW = 30  # samples below which a percentile bootstrap is too narrow to trust
_TINY = 0.001  # of the way from floor to reference: a difference that no reader would act on
_THIN = 0.95  # coverage below which means of two explainers speak of different samples


@dataclass(frozen=True)
class Caution:
    """`level`: "wrong" (rows, or what they rest on, are broken) or "weak" (rows are fine, the claim is not)."""

    level: Literal["wrong", "weak"]
    text: str
    details: tuple[str, ...] = ()


def cautions(evidence: Evidence, main: Sequence[Board]) -> list[Caution]:
    """Everything worth a warning; `main` holds the chief boards of every protocol."""
    made = [*_unfinished(evidence), *_failures(evidence), *_refusals(evidence), *_events(evidence)]
    made += [Caution("wrong", text) for one in evidence.findings for text in one.finding.cautions]
    for board in main:
        named = replace(board, metric=replace(board.metric, protocol=evidence.plain[board.metric.protocol]))
        made += _controls(named) + _samples(named) + _coverage(named)
    return list(dict.fromkeys(made))  # boards of several models may say the same


def _unfinished(evidence: Evidence) -> list[Caution]:
    made = []
    done = set(evidence.rows.cells)  # a recorded run has rows and no shards; a cell may have no rows
    done |= {cell["id"] for shard in evidence.shards for cell in shard.view.cells}
    for name, run in zip(evidence.names, evidence.runs, strict=True):
        wanted = set(run.manifest["cells"])
        missing = len(wanted - done)
        if missing:
            share = f"{missing:,} of {len(wanted):,} cells are missing"
            made.append(Caution("wrong", f"{name} is not finished: {share}; tables show what is there."))
    return made


def _failures(evidence: Evidence) -> list[Caution]:
    counts = evidence.rows.failures()
    if not counts:
        return []
    details = [f"{explainer}: {reason} ({n:,} rows)" for explainer, reason, n in counts[:_SHOWN]]
    if len(counts) > _SHOWN:
        details.append(f"and {len(counts) - _SHOWN:,} more reasons")
    text = f"{sum(n for *_, n in counts):,} of {len(evidence.rows):,} rows failed and are left out of the means."
    return [Caution("wrong", text, tuple(details))]


def _refusals(evidence: Evidence) -> list[Caution]:
    refused = [refusal for run in evidence.runs for refusal in run.manifest.get("refusals", [])]
    if not refused:
        return []
    details = tuple(dict.fromkeys(f"{r['explainer']} on {r['model']}: {r['reason']}" for r in refused))
    what = "pair of model and explainer was" if len(details) == 1 else "pairs of model and explainer were"
    text = f"{len(details):,} {what} not run: the model lacks what the explainer needs."
    return [Caution("weak", text, details)]


def _events(evidence: Evidence) -> list[Caution]:
    """Jobs that were given up and not made good later, and warnings of the run itself."""
    refusals = {r["reason"] for run in evidence.runs for r in run.manifest.get("refusals", [])}
    made = []
    for run in evidence.runs:
        given_up: dict[str, str] = {}
        warnings: dict[str, None] = {}
        for event in run.events():
            if event.get("event") == "job_failed":
                given_up[event["title"]] = event["reason"]
            elif event.get("event") == "job_done":
                given_up.pop(event["title"], None)
            elif event.get("event") == "warning" and event["text"] not in refusals:
                warnings[event["text"]] = None
        if given_up:
            details = tuple(f"{title}: {reason}" for title, reason in given_up.items())
            what = "job was" if len(given_up) == 1 else "jobs were"
            made.append(Caution("wrong", f"{len(given_up):,} {what} given up.", details))
        made += [Caution("weak", text) for text in warnings]
    return made


def _controls(board: Board) -> list[Caution]:
    made = []
    for name, at, what in ((FLOOR, board.floor, "floor"), (REFERENCE, board.reference, "reference")):
        if at is None and board.better:
            text = f"{board.metric.protocol}: no {name} in this run, so scores have no {what} to be read against."
            made.append(Caution("weak", text))
    return made


def _samples(board: Board) -> list[Caution]:
    made = []
    n = board.spread.samples
    if n < _FEW:
        text = f"{board.metric.protocol}: only {n} samples; intervals from so few are too narrow."
        made.append(Caution("weak", text))
    tied = leaders(board) if board.better else []
    if len(tied) > 1:
        order = sorted(tied, key=lambda i: -board.better * board.spread.mean[i])
        need = samples_needed(board, order[0], order[1])
        first, second = board.explainers[order[0]], board.explainers[order[1]]
        gap = abs(board.spread.mean[order[0]] - board.spread.mean[order[1]])
        if need is not None and need > n and gap > _TINY * _reach(board):
            made.append(Caution("weak", (
                f"{_where(board)}: too few samples to separate {first} from {second} on {board.metric.name}. "
                f"A difference of {gap:.2g} needs about {_rounded(need):,} samples (80 % power, 5 % level), not {n:,}."
            )))  # fmt: skip
    return made


def _coverage(board: Board) -> list[Caution]:
    thin = [
        f"{name}: {tally.scored:,} of {tally.rows:,} rows have a score"
        for name, tally in zip(board.explainers, board.tally, strict=True)
        if 0 < tally.scored < _THIN * tally.rows
    ]
    if not thin:
        return []
    where = f"{_where(board)}: means on {board.metric.name} are over different samples"
    return [Caution("weak", f"{where}, since not every explainer could be scored on all.", tuple(thin))]


def _reach(board: Board) -> float:
    """How far scores can differ here: from floor to reference, else as large as they are."""
    mean = board.spread.mean
    if board.floor is not None and board.reference is not None:
        return float(abs(mean[board.reference] - mean[board.floor]))
    return float(np.nanmax(np.abs(mean), initial=0.0))


def _where(board: Board) -> str:
    return f"{board.metric.protocol} on {board.model}" if board.model else board.metric.protocol


def _rounded(n: float) -> int:
    """Two digits are all such an estimate can promise."""
    return int(float(f"{np.ceil(n):.2g}"))

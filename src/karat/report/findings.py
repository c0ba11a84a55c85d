"""What the protocols concluded, as the page shows it: grouped by protocol and section, the verdict first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karat.kernel.finding import Finding
from karat.report.encode import number
from karat.report.page_output import Sink

if TYPE_CHECKING:
    from karat.report.evidence import Evidence

_SENTENCES = 3  # sentences of a verdict that the front page has room for


@dataclass(frozen=True)
class Concluded:
    """A finding, the protocol it is shown under and the run it comes from."""

    protocol: str
    run: str
    finding: Finding


@dataclass(frozen=True)
class Spoken:
    """The verdict of one protocol in its own words; `more` is how many sentences the front page leaves out."""

    first: str
    rest: tuple[str, ...]
    more: int


def write_findings(evidence: Evidence, sink: Sink) -> list[dict[str, Any]]:
    """One chunk `findings-<k>` per protocol that concluded something; returns what the page's menu needs."""
    index: list[dict[str, Any]] = []
    for protocol in evidence.protocols:
        mine = [one for one in evidence.findings if one.protocol == protocol]
        if not mine:
            continue
        many = len({one.run for one in mine}) > 1
        sections: dict[str, list[dict[str, Any]]] = {}
        for one in mine:
            sections.setdefault(one.finding.section, []).append(_plain(one, many))
        chunk = f"findings-{len(index)}"
        sink.data(chunk, [{"title": title, "findings": members} for title, members in sections.items()])
        index.append({"protocol": protocol, "chunk": chunk})
    return index


def verdict_of(evidence: Evidence, protocol: str) -> Spoken | None:
    """The protocol's own verdict: the sentences of its first finding without a section."""
    for one in evidence.findings:
        if one.protocol == protocol and not one.finding.section and one.finding.sentences:
            first, *rest = one.finding.sentences
            return Spoken(first, tuple(rest[: _SENTENCES - 1]), max(0, len(rest) - (_SENTENCES - 1)))
    return None


def _plain(one: Concluded, many: bool) -> dict[str, Any]:
    """A finding as JSON; numbers that JSON does not have become null."""
    return {**tidy(one.finding.plain()), "run": one.run if many else ""}


def tidy(value: Any) -> Any:
    """Plain data with numbers that JSON has."""
    if isinstance(value, dict):
        return {key: tidy(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(part) for part in value]
    if isinstance(value, float):
        whole = math.isfinite(value) and value.is_integer() and abs(value) < 2**53
        return int(value) if whole else number(value)
    return value

"""`Claim`: something a paper says, set beside what a run shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from karat.kernel.finding import Finding

Agreement = Literal["agree", "disagree", "cannot tell", "depends on absence"]


@dataclass(frozen=True)
class Claim:
    """`verdict` follows from intervals: where an interval does not decide, it is "cannot tell"; where it flips with the
    absent state of what was hidden, "depends on absence". `because` says why."""

    text: str
    where: str  # "Table 5", "section 5.2"
    published: str
    ours: str
    verdict: Agreement
    because: str = ""


@dataclass(frozen=True)
class Comparison:
    """A paper beside a run: its claims one by one, and its tables with both numbers in them."""

    claims: tuple[Claim, ...]
    tables: tuple[Finding, ...] = ()

    def counts(self) -> dict[str, int]:
        """How many claims have each verdict; of dependence on absence only where there is any."""
        counts = {verdict: sum(claim.verdict == verdict for claim in self.claims) for verdict in get_args(Agreement)}
        return {verdict: n for verdict, n in counts.items() if n or verdict != "depends on absence"}

    def findings(self, section: str) -> list[Finding]:
        """The same as findings, for a page: one table of claims, then the tables."""
        counted = ", ".join(f"{n} {verdict}" for verdict, n in self.counts().items())
        claims = Finding(
            title="The paper's claims beside this run",
            about="Intervals decide: where one does not, nobody can tell.",
            sentences=(f"{len(self.claims)} claims: {counted}.",),
            columns=("verdict", "claim", "where", "published", "ours", "because"),
            rows=tuple((c.verdict, c.text, c.where, c.published, c.ours, c.because) for c in self.claims),
            section=section,
        )
        return [claims, *(replace(table, section=section) for table in self.tables)]

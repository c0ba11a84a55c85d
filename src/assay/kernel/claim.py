"""`Claim`: something a paper says, set beside what a run shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from assay.kernel.finding import Finding

Agreement = Literal["agree", "disagree", "cannot tell"]


@dataclass(frozen=True)
class Claim:
    """`verdict` follows from intervals: where an interval does not decide, it is "cannot tell". `because` says why."""

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

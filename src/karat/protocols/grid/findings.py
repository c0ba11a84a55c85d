"""What a whole run of protocol `grid` shows: the verdict, the twins' proof, the paper's questions, its tables."""

from __future__ import annotations

import pandas as pd

from karat.kernel.finding import Finding
from karat.protocols.grid import rq1, rq2, rq3
from karat.protocols.grid.dose import dose_findings
from karat.protocols.grid.frames import tidy
from karat.protocols.grid.tables import accuracy_findings, bucket_findings
from karat.protocols.grid.twins import twin_finding, unproven
from karat.protocols.grid.verdict import verdict_finding


def findings(scores: pd.DataFrame) -> list[Finding]:
    """As far as the run can answer: a family needs both twins, a trend several depths, a curve several doses."""
    if scores.empty:
        return []
    rows = tidy(scores)
    return [
        *_some(verdict_finding(scores, unproven(rows))),
        *_some(twin_finding(rows)),
        *accuracy_findings(rows),
        *rq1.findings(rows),
        *dose_findings(scores, rq1.SECTION),
        *rq2.findings(rows),
        *rq3.findings(rows),
        *bucket_findings(rows),
    ]


def _some(found: Finding | None) -> list[Finding]:
    return [] if found is None else [found]

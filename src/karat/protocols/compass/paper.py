"""What creg2026 claims, beside a run: agree, disagree or cannot tell, by intervals."""

from __future__ import annotations

import pandas as pd

from karat.kernel.claim import Comparison
from karat.kernel.finding import Finding
from karat.protocols.common import published
from karat.protocols.compass import battery_claims, claims, synthetic
from karat.protocols.compass.beside import beside
from karat.protocols.compass.findings import findings
from karat.protocols.compass.tables import main_table
from karat.results.run import Run


def compare(run: Run) -> Comparison:
    """Every claim that a run's samples can speak to; the rest says what is missing."""
    table = main_table(run.scores())
    # Kept with the run; computed anew only where it was never completed.
    shown = {finding.title: frame(finding) for finding in run.findings() or findings(run)}
    patterns, injected = synthetic.relational_table(), synthetic.injection_table()
    judged = [
        *claims.layout_claims(table),
        *claims.order_claims(table),
        *battery_claims.intervention_claims(shown),
        *battery_claims.centre_claims(shown),
        *battery_claims.reading_claims(shown),
        *claims.accuracy_claims(shown),
        *battery_claims.instrument_claims(patterns, injected),
    ]
    return Comparison(tuple(judged), beside(published.load("compass"), table, shown, patterns, injected))


def frame(finding: Finding) -> pd.DataFrame:
    return pd.DataFrame(list(finding.rows), columns=list(finding.columns))

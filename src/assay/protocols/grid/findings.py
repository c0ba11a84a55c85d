"""What a whole run of protocol `grid` shows."""

from __future__ import annotations

import pandas as pd

from assay.kernel.finding import Finding
from assay.protocols.grid.verdict import sentences, verdict


def findings(scores: pd.DataFrame) -> list[Finding]:
    """The verdict on every explainer, where both twins of a family explained the same samples."""
    table = verdict(scores)
    if table.empty:
        return []
    return [
        Finding(
            title="Which twin made this explanation?",
            about="Both twins answer the same questions for different reasons. The AUC says how well a classifier, "
            "fitted on other samples, tells them apart by what their explanations put on distractors, anchors and "
            "relation words: 0.5 is blind, 1 sees.",
            sentences=tuple(sentences(table)),
            columns=tuple(table.columns),
            rows=tuple(table.itertuples(index=False, name=None)),
        )
    ]

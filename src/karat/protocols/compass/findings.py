"""What the protocol concludes from a run: the comparison, the interventions, the diagnostics, the instrument itself."""

from __future__ import annotations

import numpy as np
import pandas as pd

from karat.kernel.finding import Finding
from karat.protocols.compass import comparisons, diagnostics, gains, interventions, synthetic, tables
from karat.results.run import Run


def findings(run: Run) -> list[Finding]:
    """Everything that the rows and their details allow; what a run has no samples for is left out."""
    scores = run.scores()
    compasses = run.details("compass/direction_error")
    keys = compasses.keys
    found: list[Finding | None] = [tables.main_finding(scores)]
    found += [comparisons.best_finding(scores), gains.gains_finding(scores), comparisons.twins_finding(scores)]
    found.append(tables.estimators_finding(scores))
    if len(keys):
        shares = compasses.arrays["shares"].astype(np.float64)
        found.append(tables.labels_finding(keys, shares, scores))
        centres, readings = run.details("centre_advantage"), run.details("turn_penalty")
        # Details are sorted alike, so rows of the three agree.
        assert centres.keys.equals(keys)
        assert readings.keys.equals(keys)
        found += _interventions(keys, shares, centres.arrays["around_target"].astype(np.float64), scores)
        errors = (centres.arrays["centres"].astype(np.float64), readings.arrays["readings"].astype(np.float64))
        found += _diagnostics(keys, *errors, scores)
    found += [synthetic.relational_finding(), synthetic.injection_finding()]
    return [finding for finding in found if finding is not None]


def _interventions(
    keys: pd.DataFrame, shares: tables.Floats, around_target: tables.Floats, scores: pd.DataFrame
) -> list[Finding | None]:
    frame = interventions.joined(keys, shares, scores)
    if frame.empty:
        return []
    return [
        interventions.probe_finding(frame, shares),
        interventions.swap_finding(frame, shares, around_target),
        interventions.partition_finding(frame, shares),
    ]


def _diagnostics(
    keys: pd.DataFrame, centres: tables.Floats, readings: tables.Floats, scores: pd.DataFrame
) -> list[Finding | None]:
    plain = tables.plain_rows(scores)
    rows = plain[plain["metric"] == "compass/direction_error"][[*tables.GROUP, "sample", "value"]]
    frame = keys.assign(at=np.arange(len(keys))).merge(rows, on=[*tables.GROUP, "sample"])
    errors = np.full(len(keys), np.nan)
    errors[frame["at"]] = frame["value"].to_numpy(np.float64)
    return [
        diagnostics.centres_finding(frame, centres, errors),
        diagnostics.robustness_finding(frame, readings, errors),
        diagnostics.settings_finding(frame, readings, errors),
    ]

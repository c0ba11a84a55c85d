"""What the protocol concludes from a run: the comparison, the interventions, the diagnostics, the instrument itself."""

from __future__ import annotations

import numpy as np
import pandas as pd

from karat.kernel.finding import Finding
from karat.protocols.compass import comparisons, diagnostics, gains, interventions, synthetic, tables
from karat.protocols.compass.centres import CENTRES
from karat.results.run import Run


def findings(run: Run) -> list[Finding]:
    """Everything that the rows and their details allow; what a run has no samples for is left out."""
    scores = run.scores()
    keys, shares = run.details("compass/direction_error")
    found: list[Finding | None] = [tables.main_finding(scores)]
    found += [comparisons.best_finding(scores), gains.gains_finding(scores), comparisons.twins_finding(scores)]
    found.append(tables.estimators_finding(scores))
    if len(keys):
        shares = shares.astype(np.float64)
        found.append(tables.labels_finding(keys, shares, scores))
        centre_keys, centres = run.details("centre_advantage")
        reading_keys, readings = run.details("turn_penalty")
        # Details are sorted alike, so rows of the three agree.
        assert centre_keys.equals(keys)
        assert reading_keys.equals(keys)
        found += _interventions(keys, shares, centres.astype(np.float64), scores)
        found += _diagnostics(keys, centres.astype(np.float64), readings.astype(np.float64), scores)
    found += [synthetic.relational_finding(), synthetic.injection_finding()]
    return [finding for finding in found if finding is not None]


def _interventions(
    keys: pd.DataFrame, shares: tables.Floats, centres: tables.Floats, scores: pd.DataFrame
) -> list[Finding | None]:
    frame = interventions.joined(keys, shares, scores)
    if frame.empty:
        return []
    return [
        interventions.probe_finding(frame, shares),
        interventions.swap_finding(frame, shares, centres[:, len(CENTRES) :]),
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

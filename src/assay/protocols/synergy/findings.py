"""What a run of protocol `synergy` shows, in the order of the paper: verdict first, then every table and figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.kernel.finding import Finding
from assay.protocols.synergy.calibration import calibration
from assay.protocols.synergy.cost import frontier, oracle_under_deletion
from assay.protocols.synergy.effects import per_dataset, samples_needed, variances
from assay.protocols.synergy.frames import Scored
from assay.protocols.synergy.instability import rank_shifts, rankings
from assay.protocols.synergy.leaderboard import distributions, every_score, verdict
from assay.protocols.synergy.redundancy import redundancy, redundant_models

if TYPE_CHECKING:
    from assay.results.run import Run


def findings(run: Run) -> list[Finding]:
    """All findings that the run has the rows for; comparisons need two explainers."""
    scored = Scored.of(run, redundant_models(run))
    if not scored.explainers:
        return []
    single = [oracle_under_deletion(run), redundancy(scored, run), calibration(scored, run)]
    if len(scored.methods) < 2:
        return [*(finding for finding in single if finding), *every_score(scored), distributions(scored)]
    found = [
        verdict(scored),
        *single[:2],
        rank_shifts(scored),
        single[2],
        *rankings(scored),
        per_dataset(scored),
        variances(scored),
        samples_needed(scored),
        *every_score(scored),
        distributions(scored),
        frontier(scored, run),
    ]
    return [finding for finding in found if finding is not None]

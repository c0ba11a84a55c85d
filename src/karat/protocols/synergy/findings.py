"""What a run of protocol `synergy` shows, in the order of the paper: verdict first, then every table and figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.kernel.errors import BadInput
from karat.kernel.finding import Finding
from karat.protocols.synergy.calibration import calibration
from karat.protocols.synergy.cost import frontier, oracle_under_deletion
from karat.protocols.synergy.effects import per_dataset, samples_needed, variances
from karat.protocols.synergy.frames import Scored
from karat.protocols.synergy.instability import rank_shifts, rankings
from karat.protocols.synergy.leaderboard import distributions, every_score, verdict
from karat.protocols.synergy.redundancy import redundancy, redundant_models

if TYPE_CHECKING:
    from karat.results.run import Run


def findings(run: Run) -> list[Finding]:
    """All findings that the run has the rows for; comparisons need two explainers."""
    scored = Scored.of(run, redundant_models(run))
    if not scored.explainers:
        return []
    single = [oracle_under_deletion(run), redundancy(scored, run), calibration(scored, run)]
    plain = [*every_score(scored), distributions(scored)]
    if len(scored.methods) < 2:
        return [finding for finding in (*single, *plain) if finding is not None]
    try:
        scored.effects  # noqa: B018  everything below rests on it
    except BadInput as error:
        return [finding for finding in (_without_effects(error), *single, *plain) if finding is not None]
    found = [
        verdict(scored),
        *single[:2],
        rank_shifts(scored),
        single[2],
        *rankings(scored),
        per_dataset(scored),
        variances(scored),
        samples_needed(scored),
        *plain,
        frontier(scored, run),
    ]
    return [finding for finding in found if finding is not None]


def _without_effects(error: BadInput) -> Finding:
    return Finding(
        title="Do the features that are ranked first matter together?",
        about="The mixed model of F_syn could not be fitted, so nothing is ranked; the scores themselves are below.",
        sentences=(f"No explainer can be set above another: {error}",),
        columns=("reason",),
        rows=((str(error),),),
    )

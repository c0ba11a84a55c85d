"""What a run of `pixel` shows, in the order of the paper: verdict first, then its tables 1 to 5 and figures 2 and 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.kernel.finding import Finding
from karat.protocols.pixel.frames import Scored
from karat.protocols.pixel.gallery import gallery
from karat.protocols.pixel.rankings import PIXEL, rankings
from karat.protocols.pixel.tables import accuracies, convergence, leaderboard, verdict, verification

if TYPE_CHECKING:
    from karat.results.run import Run


def findings(run: Run) -> list[Finding]:
    """All findings that the run has rows for."""
    scored = Scored(run)
    if scored.rows.empty:
        return []
    found = [accuracies(scored)]
    if scored.judged:
        found = [
            verdict(scored),
            *found,
            convergence(scored),
            verification(scored),
            leaderboard(scored),
            *rankings(scored, scored.judged, PIXEL),
            *gallery(scored),
        ]
    return [finding for finding in found if finding is not None]

"""What travels with Karat of the big runs: the kept rows say of blocks what all rows say."""

from __future__ import annotations

import pytest

from karat.protocols.grid.claims import compare
from karat.protocols.paper import recorded
from karat.results.run import load_run

OF_BLOCKS = ("EMAP", "InterSHAP", "true synergy")


def first(ours: str) -> float:
    return float(ours.split(" ")[0])


def test_kept_blocks_are_whole() -> None:
    """A block that lost some of its samples would be held against the exact score of others."""
    run = load_run(recorded("grid"))
    of_all = {
        row[1]: dict(zip(finding.columns, row, strict=True))
        for finding in run.findings()
        if finding.section.startswith("Beside paper") and "claim" in finding.columns and "verdict" in finding.columns
        for row in finding.rows
    }
    scores = run.scores()
    kept = compare(scores[scores["model.family"] == "gridnet"])
    found = [claim for claim in kept.claims if claim.text.startswith(OF_BLOCKS)]
    assert len(found) == 5
    for claim in found:
        told = of_all[claim.text]
        assert first(claim.ours) == pytest.approx(first(str(told["ours"])), abs=0.002), claim.text
        assert claim.because.split("(")[0] == str(told["because"]).split("(")[0]


def test_every_claim_can_be_told_or_says_by_what_it_cannot() -> None:
    run = load_run(recorded("grid"))
    [claims] = [f for f in run.findings() if f.section.startswith("Beside paper") and "verdict" in f.columns]
    assert len(claims.rows) == 29
    assert all(dict(zip(claims.columns, row, strict=True))["ours"] for row in claims.rows)

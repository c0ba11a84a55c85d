"""What follows from the paper's own tables."""

from __future__ import annotations

import pytest

from karat.protocols.common.published import load
from karat.protocols.synergy.printed import arithmetic


def test_taus_of_mean_scores_are_those_that_the_paper_prints() -> None:
    finding = arithmetic(load("synergy"))
    rows = {str(row[0]): row[1:] for row in finding.rows}
    for name, tau, p in (("tau, RePOPE", 0.22, 0.48), ("tau, MMStar", 0.50, 0.08)):
        assert rows[name][0] == pytest.approx(tau, abs=0.005)
        assert rows[name][1] == pytest.approx(p, abs=0.005)
        assert rows[name][2:] == (tau, p)
    weighted = [row[0] for name, row in rows.items() if name.startswith("tau, all")]
    assert len(weighted) == 5
    assert min(weighted) > 0.1  # printed: -0.06
    assert "does not follow" in finding.sentences[1]


def test_overall_means_are_over_distinct_questions() -> None:
    off = {row[0]: row[1] for row in arithmetic(load("synergy")).rows if "mean over questions" in str(row[0])}
    every, distinct = (
        next(v for k, v in off.items() if word in str(k)) for word in ("all its 8,185", "distinct 4,779")
    )
    assert distinct < 0.001 < every

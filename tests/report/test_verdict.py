"""Sentences say no more than the intervals do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from karat.kernel.errors import BadInput
from karat.report.cautions import cautions
from karat.report.evidence import Evidence, gather
from karat.report.leaderboards import ALL, Board, boards, chief
from karat.report.page import in_words
from karat.report.slices import slices
from karat.report.verdict import leaders, listed, samples_needed, verdict
from karat.results.store import Store
from tests.report.runs import make_run

PURE = ("twin.pure",)


def _board(evidence: Evidence, metric: str = "mass") -> Board:
    return next(b for b in boards(evidence) if b.metric.name == metric and b.model == ALL)


def test_a_clear_first_is_named_and_losers_to_noise_too(tmp_path: Path) -> None:
    text = verdict(_board(gather([make_run(tmp_path / "a", n=60)])))
    assert text.startswith("perturbation/rise is first on mass, ")
    assert "of the way from noise to the oracle" in text
    assert text.endswith("3 of 4 beat noise; gradient/input does not.")


def test_what_cannot_be_told_apart_is_not_ranked(tmp_path: Path) -> None:
    """On the pure twin, gradcam and rollout differ by 0.016 with a spread of 0.12: 12 samples cannot tell."""
    run = make_run(
        tmp_path / "a",
        n=12,
        models=PURE,
        explainers=("cam/gradcam", "attention/rollout", "control/random", "control/oracle"),
    )
    evidence = gather([run])
    found = _board(evidence)
    assert len(leaders(found)) == 2
    assert verdict(found).startswith("No clear first on mass: ")
    needed = samples_needed(found, 0, 1)
    assert needed is not None
    assert needed > 12
    warned = [c.text for c in cautions(evidence, [found])]
    assert any("too few samples to separate" in text and "not 12" in text for text in warned)
    assert any("only 12 samples" in text for text in warned)


def test_samples_needed_agrees_with_the_normal_formula(tmp_path: Path) -> None:
    found = _board(gather([make_run(tmp_path / "a", n=200, models=PURE)]))
    one, other = found.explainers.index("cam/gradcam"), found.explainers.index("attention/rollout")
    gap = found.sums[:, one] - found.sums[:, other]
    wanted = ((1.959964 + 0.841621) * gap.std(ddof=1) / gap.mean()) ** 2
    assert samples_needed(found, one, other) == pytest.approx(wanted, rel=0.02, abs=4)


def test_a_score_without_direction_gets_no_winner(tmp_path: Path) -> None:
    found = _board(gather([make_run(tmp_path / "a", n=8)]), "relation")
    assert "no better or worse" in verdict(found)


def test_controls_alone_are_not_judged(tmp_path: Path) -> None:
    found = _board(gather([make_run(tmp_path / "a", n=8, explainers=("control/random", "control/oracle"))]))
    assert verdict(found).startswith("Only controls have a score")


def test_warnings_name_failures_refusals_missing_controls_and_missing_cells(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=40, explainers=("gradient/input", "cam/gradcam"), unfinished=True, shard_size=20)
    Store(run).append("events.jsonl", json.dumps({"event": "job_failed", "title": "lost", "reason": "signal 9"}))
    Store(run).append("events.jsonl", json.dumps({"event": "warning", "text": "twin failed its check"}))
    evidence = gather([run])
    found = cautions(evidence, chief(evidence, list(boards(evidence)))["grid"])
    texts = [c.text for c in found]
    assert any("2 of 8 cells are missing" in text for text in texts)
    failed = next(c for c in found if "rows failed" in c.text)
    assert failed.level == "wrong"
    assert any("map: all zero" in line for line in failed.details)
    count = int((evidence.runs[0].scores()["status"] == "failure").sum())
    assert failed.text.startswith(f"{count} of {len(evidence.rows)} ")
    assert any("not run" in text for text in texts)
    assert sum("no control/" in text for text in texts) == 2
    assert any("1 job was given up" in text for text in texts)
    assert "twin failed its check" in texts
    assert any("over different samples" in text for text in texts)


def test_models_that_reason_differently_are_never_averaged_by_default(tmp_path: Path) -> None:
    alike = gather([make_run(tmp_path / "a", n=8)])
    assert [b.model for b in chief(alike, list(boards(alike)))["grid"]] == [ALL]
    twins = gather([make_run(tmp_path / "b", n=8, mechanisms=True)])
    assert [b.model for b in chief(twins, list(boards(twins)))["grid"]] == ["twin.pure", "twin.spur"]
    by_model = {(table["key"], table["model"]) for table in slices(twins)}
    assert ("depth", "twin.pure") in by_model
    assert ("depth", ALL) not in by_model
    assert ("model", ALL) in by_model  # the one table that sets the models side by side
    assert {table["model"] for table in slices(alike)} == {ALL}


def test_a_warning_that_two_boards_share_is_said_once(tmp_path: Path) -> None:
    evidence = gather([make_run(tmp_path / "a", n=8, mechanisms=True, explainers=("cam/gradcam", "gradient/input"))])
    texts = [c.text for c in cautions(evidence, chief(evidence, list(boards(evidence)))["grid"])]
    assert len(texts) == len(set(texts))
    assert sum("only 8 samples" in text for text in texts) == 1


def test_a_job_made_good_later_is_no_warning(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=8)
    for event in (
        {"event": "job_failed", "title": "t", "reason": "x"},
        {"event": "job_done", "title": "t", "cells": [], "seconds": 1},
    ):
        Store(run).append("events.jsonl", json.dumps(event))
    assert not any("given up" in c.text for c in cautions(gather([run]), []))


def test_what_was_tested_is_said_in_words(tmp_path: Path) -> None:
    text = in_words(gather([make_run(tmp_path / "a", n=8)]))
    assert text == (
        "4 explainers and 2 controls on 2 models (twin.pure and twin.spur), over 8 samples of pictures(n=8). "
        "3 scores each, 288 rows in all."
    )


def test_two_runs_of_other_seeds_are_never_averaged(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "a", n=6), make_run(tmp_path / "b", n=6, seed=1)
    evidence = gather([one, two])
    assert list(evidence.protocols) == ["grid", "grid · b"]
    counts = {
        p: sum((evidence.rows.values(p, m).state != 255).sum() for q, m in evidence.rows.scores() if p == q)
        for p in evidence.protocols
    }
    assert len(counts) == 2
    assert set(counts.values()) == {6 * 2 * 6 * 3}


def test_the_same_run_twice_counts_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=6)
    evidence = gather([run, run])
    assert list(evidence.protocols) == ["grid"]
    assert len(evidence.rows) == 6 * 2 * 6 * 3


def test_shared_seconds_are_not_split_and_lone_ones_are_given(tmp_path: Path) -> None:
    shared = gather([make_run(tmp_path / "a", n=6)])
    assert all(row["seconds"] is None for row in _board(shared).plain(shared)["rows"])
    assert shared.clock.shared["grid", "twin.pure", "pictures(n=6)"] == (1.5, 36)
    lone = gather([make_run(tmp_path / "b", n=6, explainers=("cam/gradcam",))])
    assert [row["seconds"] for row in _board(lone).plain(lone)["rows"]] == [pytest.approx(3.0 / 12)]


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="at least one run"):
        gather([])
    with pytest.raises(BadInput, match="not a run directory"):
        gather([tmp_path])
    with pytest.raises(BadInput, match="nothing to report"):
        gather([make_run(tmp_path / "a", n=4, models=PURE, unfinished=True)])


@pytest.mark.parametrize(("n", "text"), [(1, "a"), (2, "a and b"), (4, "a, b, c and d"), (5, "a, b, c, d and 1 other")])
def test_listed(n: int, text: str) -> None:
    assert listed(list("abcdefg")[:n]) == text


def test_verdicts_do_not_depend_on_the_global_random_state(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", n=12)
    np.random.seed(1)  # the very state that must not matter
    first = _board(gather([run])).spread.draws
    np.random.seed(2)
    np.testing.assert_array_equal(first, _board(gather([run])).spread.draws)

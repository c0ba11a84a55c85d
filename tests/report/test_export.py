"""Exports: tables as papers print them, rows as a dataset that others read, the page as a Space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from karat.report.export import hub, latex, leaderboard, space
from karat.results import load_run
from tests.report.runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run") / "a", n=30, shard_size=12, maps=False, concluded=True)


def test_the_leaderboard_has_the_means_of_the_rows(run: Path) -> None:
    table = leaderboard([run])
    scores = load_run(run).scores()
    for row in table.to_dict("records"):
        mine = scores[(scores["metric"] == row["metric"]) & (scores["explainer"] == row["explainer"])]
        mine = mine if row["model"] == "" else mine[mine["model"] == row["model"]]
        assert (row["rows"], row["scored"]) == (len(mine), int((mine["status"] == "score").sum()))
        if row["scored"]:
            assert row["mean"] == pytest.approx(mine["value"].mean(), rel=1e-5)


def test_latex_marks_what_is_not_told_apart_and_what_is_not_above_noise(run: Path) -> None:
    text = latex(leaderboard([run]))
    assert text.count(r"\begin{table}") == 2  # one per model
    rows = {
        line.split(" & ")[0].strip(): line.split(" & ")[1] for line in text.splitlines() if "/" in line and "&" in line
    }
    assert rows["perturbation/rise"].startswith(r"\textbf{")
    assert r"$^\dagger$" in rows["gradient/input"]
    assert "textbf" not in rows["attention/rollout"]
    assert r"$\uparrow$" in text
    assert r"$\downarrow$" in text


def test_the_dataset_holds_every_row_and_says_what_it_is(run: Path, tmp_path: Path) -> None:
    card = hub(run, tmp_path / "hub").read_text()
    rows = pd.read_parquet(tmp_path / "hub" / "data" / "scores.parquet")
    scores = load_run(run).scores()
    order = ["model", "explainer", "metric", "sample"]
    found, wanted = (frame.sort_values(order, ignore_index=True) for frame in (rows, scores))
    np.testing.assert_array_equal(found["value"], wanted["value"].astype(float))
    assert (found[order].astype(str) == wanted[order].astype(str)).all().all()
    assert "size_categories: [1K<n<10K]" in card
    assert all(f"`{name}`" in card for name in rows.columns)


def test_croissant_reads_the_rows_back(run: Path, tmp_path: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    hub(run, tmp_path / "hub")
    metadata = mlcroissant.Dataset(jsonld=str(tmp_path / "hub" / "croissant.json"))
    assert not metadata.metadata.ctx.issues.errors
    first = next(iter(metadata.records("rows")))
    assert first["rows/explainer"] is not None


def test_a_space_is_a_page_with_a_card(run: Path, tmp_path: Path) -> None:
    page = space([run], tmp_path / "space")
    assert page.name == "index.html"
    assert (tmp_path / "space" / "README.md").read_text().startswith("---\ntitle: ")
    assert "sdk: static" in (tmp_path / "space" / "README.md").read_text()

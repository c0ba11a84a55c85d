"""Boards: what is ranked together, what is not, and what does not count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karat.kernel.errors import BadInput
from karat.report.board import board, entry
from karat.results import load_run
from karat.results.store import Store
from tests.report.chromium import Browser
from tests.report.runs import make_run

METHODS = ("cam/gradcam", "control/random", "control/oracle")


def _tables(out: Path) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = json.loads((out / "board.json").read_text())
    return tables


def test_runs_of_one_world_are_ranked_together_on_shared_samples(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", n=40, explainers=METHODS, concluded=True, maps=False)
    two = make_run(
        tmp_path / "two", n=40, explainers=("perturbation/rise", "gradient/input"), concluded=True, maps=False
    )
    page = board([one, two], tmp_path / "site", pages=False)
    tables = _tables(tmp_path / "site")
    assert {table["model"] for table in tables} == {"twin.pure", "twin.spur"}
    for table in tables:
        rows = {row["explainer"]: row for row in table["rows"]}
        assert set(rows) == {*METHODS, "perturbation/rise", "gradient/input"}
        assert rows["perturbation/rise"]["rank"] == [1, 1, 1]
        assert rows["gradient/input"]["coverage"] == pytest.approx(len(load_run(two).scores().query(
            "model == @table['model'] and metric == 'mass' and explainer == 'gradient/input' and status == 'score'"
        )) / 40)  # fmt: skip
        assert rows["control/oracle"]["rank"] == [None, None, None]
        # gradient/input fails on every seventh sample: those are nobody's
        scores = load_run(two).scores().query("model == @table['model'] and metric == 'mass'")
        kept = scores[(scores["explainer"] == "gradient/input") & scores["value"].notna()]["sample"]
        assert table["samples"] == len(kept) < table["of"] == 40
        mine = scores[(scores["explainer"] == "perturbation/rise") & scores["sample"].isin(kept)]["value"].mean()
        assert rows["perturbation/rise"]["mean"] == pytest.approx(mine, abs=1e-5)
    assert "perturbation/rise" in page.read_text()


@pytest.mark.parametrize("change", [{"seed": 1}, {"n": 39}])
def test_runs_that_differ_in_seed_or_data_are_never_ranked_together(tmp_path: Path, change: dict[str, int]) -> None:
    settings = {"n": 40, "seed": 0}
    one = make_run(tmp_path / "one", explainers=METHODS, concluded=True, maps=False, **settings)
    two = make_run(tmp_path / "two", explainers=METHODS, concluded=True, maps=False, **{**settings, **change})
    board([one, two], tmp_path / "site", pages=False)
    tables = _tables(tmp_path / "site")
    assert len({table["group"] for table in tables}) == 2
    assert all(len(table["rows"]) == 3 for table in tables)


def test_other_settings_are_another_group(tmp_path: Path) -> None:
    places = [make_run(tmp_path / name, n=8, concluded=True, maps=False) for name in ("one", "two")]
    spec = Store(places[1]).read_json("spec.json")
    Store(places[1]).write_json("spec.json", {**spec, "protocol": {"name": "grid", "words": "other"}})
    assert entry(str(places[0]), 0).key != entry(str(places[1]), 1).key


def test_what_does_not_count_is_listed_with_its_reason(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", n=8, concluded=True, maps=False)
    half = make_run(tmp_path / "half", n=8, shard_size=4, unfinished=True, concluded=True, maps=False)
    silent = make_run(tmp_path / "silent", n=8, maps=False)
    broken = make_run(tmp_path / "broken", n=8, concluded=True, maps=False)
    shard = next((broken / "scores").iterdir())
    shard.write_bytes(shard.read_bytes() + b"x")
    altered = make_run(tmp_path / "altered", n=8, concluded=True, maps=False)
    manifest = json.loads((altered / "manifest.json").read_text())
    (altered / "manifest.json").write_text(json.dumps({**manifest, "seed": 5}))
    bare = make_run(tmp_path / "bare", n=8, concluded=True, maps=False)
    del manifest["seal"]
    (bare / "manifest.json").write_text(json.dumps(manifest))
    runs = [whole, half, silent, broken, altered, bare, tmp_path / "nothing"]
    reasons = [entry(str(run), k).why_not for k, run in enumerate(runs)]
    assert reasons[0] == ""
    parts = ("6 of 24 cells", "no findings", "damaged", "was altered", "no seal", "not a run")
    for reason, part in zip(reasons[1:], parts, strict=True):
        assert part in reason
    text = board(runs, tmp_path / "site").read_text()
    assert "Runs that do not count" in text
    assert (tmp_path / "site" / "runs" / "1-whole" / "index.html").is_file()
    assert len(_tables(tmp_path / "site")) == 2


def test_no_runs_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="at least one run"):
        board([], tmp_path)


@pytest.mark.browser
@pytest.mark.parametrize(("wide", "dark"), [(1280, False), (820, True), (390, False)])
def test_the_site_filters_fits_and_has_no_violations(
    browser: Browser, axe: str, tmp_path: Path, wide: int, dark: bool
) -> None:
    page = board([make_run(tmp_path / "run", n=8, concluded=True, maps=False)], tmp_path / "site", pages=False)
    browser.size(wide, 900, dark)
    browser.open(page, "main", "document.querySelector('#count').textContent === '2 of 2 tables'")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.run(axe + "; 0")
    assert browser.run("axe.run(document, {preload: false}).then((r) => r.violations.map((v) => v.id))") == []
    browser.run("document.getElementById('model').value = 'twin.spur'")
    browser.run("document.getElementById('model').dispatchEvent(new Event('input')); 0")
    assert browser.run("document.querySelector('#count').textContent") == "1 of 2 tables"

"""Differences between runs: paired, corrected, and an exit code."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from karat.cli.main import app
from karat.kernel.errors import BadInput
from karat.report.compare import Change, Compared, compare
from karat.results.run import Run, load_run
from karat.statistics import adjust, sign_flip_test
from tests.report.runs import SKILL, make_run


class Altered(Run):
    """A run whose rows are changed as they are read."""

    def __init__(self, run: Run, change: object) -> None:
        object.__setattr__(self, "store", run.store)
        object.__setattr__(self, "_change", change)

    def scores(self, *, metrics: Collection[str] | None = None, columns: Collection[str] | None = None) -> pd.DataFrame:
        frame = super().scores(metrics=metrics)
        self._change(frame)  # type: ignore[attr-defined]
        return frame if columns is None else frame[[name for name in frame if name in columns]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load_run(make_run(tmp_path_factory.mktemp("runs") / "a", n=40))


def _shift(explainer: str, metric: str, by: float) -> object:
    def change(frame: pd.DataFrame) -> None:
        rows = (frame["explainer"] == explainer) & (frame["metric"] == metric)
        frame.loc[rows, "value"] += by

    return change


def _found(compared: Compared, explainer: str, metric: str) -> list[Change]:
    return [c for c in compared.changes if c.explainer == explainer and c.metric == metric]


def test_a_run_is_not_worse_than_itself(run: Run) -> None:
    found = compare(run, run)
    assert len(found.changes) == 2 * 6 * 3
    assert found.worse == ()
    assert found.settings == ()
    assert {c.judgement for c in found.changes} == {"no difference shown", "control", "too few"}
    assert all(c.p == 1 for c in found.of("no difference shown"))


@pytest.mark.parametrize(("metric", "by", "judgement"), [
    ("mass", -0.02, "worse"), ("mass", 0.02, "better"),  # higher is better
    ("outside", -0.02, "better"), ("outside", 0.02, "worse"),  # lower is better
    ("relation", 0.02, "changed"),  # neither
    ("mass", -0.0005, "no difference shown"),  # beyond chance, within tolerance
])  # fmt: skip
def test_a_shift_on_every_sample_is_judged_by_the_scores_direction(
    run: Run, metric: str, by: float, judgement: str
) -> None:
    found = compare(run, Altered(run, _shift("cam/gradcam", metric, by)))
    hit = _found(found, "cam/gradcam", metric)
    assert [c.judgement for c in hit] == [judgement] * 2
    assert all(c.difference == pytest.approx(by) for c in hit)
    assert all(c.low < by < c.high for c in hit)
    others = [c for c in found.changes if c not in hit]
    assert all(c.judgement in ("no difference shown", "control", "too few") for c in others)


def test_a_control_is_shown_and_not_judged(run: Run) -> None:
    found = compare(run, Altered(run, _shift("control/random", "mass", -0.5)))
    assert [c.judgement for c in _found(found, "control/random", "mass")] == ["control"] * 2
    assert found.worse == ()


def test_rows_that_fail_anew_count_as_worse(run: Run) -> None:
    def break_some(frame: pd.DataFrame) -> None:
        rows = frame.index[(frame["explainer"] == "cam/gradcam") & (frame["metric"] == "mass")][:3]
        frame.loc[rows, ["value", "status", "reason"]] = [np.nan, "failure", "out of memory"]

    found = compare(run, Altered(run, break_some))
    assert [c.lost for c in found.worse] == [3]
    assert found.worse[0].pairs == 37
    assert compare(Altered(run, break_some), run).worse == ()  # mended is not worse


def test_p_is_holms_over_all_tests_of_judged_explainers(tmp_path: Path) -> None:
    one, two = (load_run(make_run(tmp_path / str(seed), n=30, seed=seed)) for seed in (0, 1))
    found = compare(one, two)
    tested = [c for c in found.changes if np.isfinite(c.p)]
    rows = [run.scores().set_index(["model", "explainer", "metric", "sample"]).sort_index() for run in (one, two)]
    raw = []
    for c in tested:
        a, b = (frame.loc[(c.model, c.explainer, c.metric), "value"] for frame in rows)
        raw.append(sign_flip_test(b, a[b.index]).p)
    np.testing.assert_allclose([c.p for c in tested], adjust(raw), atol=0.15)  # two draws of the same test
    assert not any(c.explainer.startswith("control/") for c in tested)
    assert found.worse == ()  # only the noise differs


def test_one_model_each_is_paired_whatever_its_name(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", n=8, models=("twin.pure",))
    two = make_run(tmp_path / "b", n=8, models=("other.pure",))
    found = compare(one, two)
    assert {c.model for c in found.changes} == {"twin.pure"}
    assert found.only_before == found.only_after == ()
    assert ("models.twin.pure", "1", "–") in found.settings


def test_what_only_one_run_has_is_named(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", n=4, explainers=("cam/gradcam", "control/random"))
    two = make_run(tmp_path / "b", n=4, explainers=("cam/gradcam", "attention/rollout"))
    found = compare(one, two)
    assert all("control/random" in place for place in found.only_before)
    assert len(found.only_after) == 2 * 3
    with pytest.raises(BadInput, match="share no explainer"):
        compare(one, make_run(tmp_path / "c", n=4, explainers=("gradient/input",)))


@pytest.mark.parametrize("wrong", [{"level": 0.0}, {"level": 2.0}, {"tolerance": -1.0}, {"tolerance": float("nan")}])
def test_settings_out_of_range_are_refused(run: Run, wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        compare(run, run, **wrong)


def test_the_command_fails_only_for_worse_and_only_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_run(tmp_path / "a", n=40)
    monkeypatch.setitem(SKILL, "cam/gradcam", 0.2)
    after = make_run(tmp_path / "b", n=40, seed=1)
    table = tmp_path / "all.csv"
    quiet = CliRunner().invoke(app, ["compare", str(before), str(after), "--out", str(table)])
    assert quiet.exit_code == 0
    assert "worse" in quiet.output
    assert len(pd.read_csv(table)) == 36
    assert CliRunner().invoke(app, ["compare", str(before), str(after), "--fail-if-worse"]).exit_code == 1
    assert CliRunner().invoke(app, ["compare", str(after), str(before), "--fail-if-worse"]).exit_code == 0
    afar = CliRunner().invoke(app, ["compare", before.as_uri(), after.as_uri(), "--fail-if-worse"])
    assert afar.exit_code == 1  # a run may be anywhere that fsspec reaches
    page = tmp_path / "page"
    assert CliRunner().invoke(app, ["report", before.as_uri(), "-o", str(page)]).exit_code == 0
    assert (page / "index.html").exists()
    followed = CliRunner().invoke(app, ["view", before.as_uri()])  # what is far away cannot be watched
    assert isinstance(followed.exception, BadInput)
    assert "karat report" in str(followed.exception)

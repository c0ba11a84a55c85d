"""The protocol as a run: targets, details, findings, claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from karat.engine.run import run
from karat.kernel.finding import Finding
from karat.kernel.spec import Spec
from karat.protocols.compass import Compass
from karat.protocols.compass.claims import compare
from karat.results.run import Run

SPEC: dict[str, Any] = {
    "name": "compass-test", "protocol": "compass", "models": ["gridprog.pure", "gridprog.spur"],
    "datasets": [{"name": "spatial/grid", "n": 8, "kinds": ["plain", "probe", "swap", "move"]}],
    "explainers": ["control/geometry", "control/box_only", "control/oracle", "control/uniform", "control/random",
                   "attention/grad_rollout", "attention/rollout"],
    "shard_size": 56, "batch_size": 56, "keep_maps": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(Spec.parse(SPEC), tmp_path_factory.mktemp("compass") / "run", workers=0)


@pytest.fixture(scope="module")
def found(finished: Run) -> list[Finding]:
    """What the protocol found; the run keeps what the paper says beside it."""
    return [one for one in finished.findings() if not one.section.startswith("Beside paper")]


@pytest.fixture(scope="module")
def tables(found: list[Finding]) -> dict[str, pd.DataFrame]:
    return {one.title: pd.DataFrame(list(one.rows), columns=list(one.columns)) for one in found}


def test_the_oracle_of_the_reasoning_twin_is_recovered_within_one_sector(finished: Run) -> None:
    scores = finished.scores()
    rows = scores[(scores["metric"] == "compass/direction_error") & (scores["meta.kind"] == "plain")]
    for explainer in ("control/oracle", "control/geometry", "control/box_only"):
        values = rows[(rows["explainer"] == explainer) & (rows["model"] == "gridprog.pure")]["value"]
        assert len(values) == 8
        assert values.max() <= 22.5 + 1e-9


def test_every_part_of_the_battery_has_its_table_and_its_figure(
    found: list[Finding], tables: dict[str, pd.DataFrame]
) -> None:
    assert [one.section for one in found].count("") == 1
    assert set(tables) == {
        "Where does the evidence point?", "Do better answers come with better directions?",
        "The reasoning twin against the shortcut twin", "Peak or circular mean?", "Aligned, diffuse, incorrect",
        "Target intervention", "Query role swap", "Variance partition: fix the target, move the reference",
        "Reference-centre randomisation", "Damaged maps", "Other settings", "The instrument on relational patterns",
        "Signal injection",
    }  # fmt: skip
    assert [one.title for one in found if not one.figures] == []
    assert all(figure.series for one in found for figure in one.figures)


def test_known_truths_show(tables: dict[str, pd.DataFrame]) -> None:
    main = tables["Where does the evidence point?"].set_index(["model", "explainer"])
    assert main.loc[("gridprog.pure", "control/geometry"), "accuracy"] == 1.0
    assert main.loc[("gridprog.spur", "control/geometry"), "accuracy"] < 0.6
    assert main.loc[("gridprog.pure", "control/uniform"), "excess dae"] == pytest.approx(90.0)
    assert main.loc[("gridprog.pure", "control/box_only"), "gap"] == 0.0
    probes = tables["Target intervention"].set_index(["model", "explainer"])
    for name in ("control/box_only", "attention/rollout"):  # neither knows which answer is explained
        assert probes.loc[("gridprog.pure", name), "pta"] == pytest.approx(0.25)
        assert probes.loc[("gridprog.pure", name), "jsd"] == pytest.approx(0.0, abs=1e-9)
    swaps = tables["Query role swap"].set_index(["model", "explainer"])
    assert swaps.loc[("gridprog.pure", "control/geometry"), "shift"] == 180.0  # the target is where the reference was
    assert swaps.loc[("gridprog.pure", "control/uniform"), "question shift"] == 0.0
    damaged = tables["Damaged maps"].set_index(["model", "explainer", "reading"])
    assert damaged.loc[("gridprog.pure", "control/box_only", "none"), "tau"] == 1.0
    settings = tables["Other settings"].set_index(["model", "explainer", "reading"])
    assert settings.loc[("gridprog.pure", "control/box_only", "oracle at box noise 0"), "dae"] == 0.0
    # what knows the target of its picture beats the same maps at other pictures' questions; a flat map does not
    assert main.loc[("gridprog.pure", "control/box_only"), "skill low"] > 0.5
    assert main.loc[("gridprog.pure", "control/box_only"), "advantage low"] > 0
    assert main.loc[("gridprog.pure", "control/uniform"), "p"] > 0.05


def test_the_paper_is_set_beside_the_run(finished: Run) -> None:
    comparison = compare(finished)
    assert {claim.verdict for claim in comparison.claims} <= {"agree", "disagree", "cannot tell"}
    claims = {claim.text: claim for claim in comparison.claims}
    assert claims["Noise through the same projection is at chance, within 10 degrees of 90"].verdict == "disagree"
    assert claims["Relational patterns score like a filled target box"].verdict == "agree"
    assert claims["An injected direction is recovered"].verdict == "agree"
    # what the run has no samples for is said by recorded runs, under their names
    assert (
        "over 6 seeds"
        in claims["All three training objectives improve the answers (recorded run of compass-lora)"].because
    )
    assert any("photographs" in text for text in claims)
    assert [table.title for table in comparison.tables] == [
        "Table 1 beside photographs, controls alone", "Table 1 beside this run", "Table 3 beside this run",
        "Table 4 beside this run", "Table 5 beside ours", "Table 6 beside ours", "Table 7 beside this run",
        "Table 9 beside the recorded run of compass-lora, training",
    ]  # fmt: skip
    assert all(table.rows for table in comparison.tables)
    assert len(comparison.claims) >= 24
    photographs, own = comparison.tables[:2]
    assert {row[3] for row in photographs.rows if row[2] == "control/box_only"} == {15.0, 32.7}  # each has its own
    assert [row[3] for row in own.rows] == [None] * len(own.rows)  # no grid in the paper
    exact = [row for row in own.rows if row[2] == "the boxes themselves"]
    assert [row[5:7] for row in exact] == [(0.0, 1.0)] * 2


def test_headings_of_findings_carry_no_claim(finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "findings", lambda self: pytest.fail("claims read findings"))
    claims = {claim.text: claim for claim in compare(finished).claims}
    assert claims["The compass hardly reacts to the probed answer"].ours.startswith("PTA at most")


def test_probes_explain_what_they_were_told_to(finished: Run) -> None:
    scores = finished.scores()
    probes = scores[scores["meta.kind"] == "probe"]
    assert (probes["answer"] == probes["meta.explain"]).all()
    accuracy = scores[scores["metric"] == "accuracy"]
    assert (accuracy[accuracy["meta.kind"] == "probe"]["status"] == "not_applicable").all()
    assert (accuracy[accuracy["meta.kind"] != "probe"]["status"] == "score").all()


def test_a_run_without_interventions_says_what_is_missing(tmp_path: Path) -> None:
    few = {"models": ["gridprog.pure"], "explainers": ["control/box_only", "control/random"]}
    small = SPEC | few | {"datasets": [{"name": "spatial/grid", "n": 4}]}
    finished = run(Spec.parse(small), tmp_path / "run", workers=0)
    assert set(finished.scores()["explainer.name"]) == set(Compass.controls)  # the other two came by themselves
    claims = {claim.text: claim for claim in compare(finished).claims}
    probe = claims["The compass hardly reacts to the probed answer"]
    assert (probe.verdict, probe.ours) == ("cannot tell", "no probes in the run (dataset kinds: probe)")


def test_the_null_reads_the_whole_shard_whatever_the_batches(tmp_path: Path) -> None:
    small = SPEC | {"models": ["gridprog.pure"], "explainers": ["control/box_only"], "shard_size": 6}
    values = []
    for size in (6, 2):
        spec = small | {"datasets": [{"name": "spatial/grid", "n": 6}], "batch_size": size}
        scores = run(Spec.parse(spec), tmp_path / str(size), workers=0).scores()
        values.append(scores[scores["metric"] == "null_advantage"]["value"].to_numpy())
    assert (values[0] > 0).any()
    assert values[0].tolist() == pytest.approx(values[1].tolist())

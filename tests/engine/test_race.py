"""Racing: samples are spent until the order is settled, and no cell differs from that of a full run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from synergy_worlds import spec

from karat.engine.plan import plan
from karat.engine.race import RECORD, Settle, shard_order
from karat.engine.run import run
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.spec import Spec
from karat.results.run import Run

GOOD, BAD = "toys/finds(skill=0.7)", "toys/finds(skill=-0.7)"
LONG = Spec.parse(
    spec(datasets=[{"name": "synergy_worlds:White", "n": 120}], protocol={**spec()["protocol"], "steps": 3})
)


def record(raced: Run) -> dict:
    return json.loads((Path(raced.path) / RECORD).read_text())


def test_it_stops_when_every_pair_is_settled_and_says_where(tmp_path: Path) -> None:
    raced = run(LONG, tmp_path, workers=0, until=Settle(0.9))
    found = record(raced)
    assert found["settled"]
    assert found["shards_unused"] > 0
    winners = {(pair["first"], pair["second"]): pair["winner"] for pair in found["pairs"]}
    assert winners == {("control/random", GOOD): GOOD, ("control/random", BAD): "control/random", (GOOD, BAD): GOOD}
    assert all(0 < pair["settled_at"] <= found["samples"] for pair in found["pairs"])
    scores = raced.scores()
    assert scores["sample"].nunique() < 120
    assert found["samples"] == scores["sample"].nunique()


def test_the_rest_is_computed_when_the_spec_is_run_without_racing(tmp_path: Path) -> None:
    raced = run(LONG, tmp_path / "raced", workers=0, until=Settle(0.9))
    done = set(raced.cells())
    whole = run(LONG, tmp_path / "raced", workers=0)
    assert done < set(whole.cells())
    fresh = run(LONG, tmp_path / "fresh", workers=0)
    assert whole.scores().equals(fresh.scores())


def test_a_second_race_finds_everything_done(tmp_path: Path) -> None:
    first = record(run(LONG, tmp_path, workers=0, until=Settle(0.9)))
    files = sorted(path.name for path in (tmp_path / "scores").iterdir())
    assert record(run(LONG, tmp_path, workers=0, until=Settle(0.9))) == first
    assert sorted(path.name for path in (tmp_path / "scores").iterdir()) == files


def test_settled_explainers_get_no_more_samples(tmp_path: Path) -> None:
    """Two noises never settle; the one that is right does, and then costs nothing more."""
    explainers = ["control/random", {"name": "synergy_worlds:Finds", "skill": 0.0}, {"name": "synergy_worlds:Finds"}]
    changed = LONG.model_dump() | {"explainers": explainers}
    raced = run(Spec.parse(changed), tmp_path, workers=0, until=Settle(0.9))
    found = record(raced)
    assert not found["settled"]
    counts = raced.scores().query("metric == 'f_syn'")["explainer"].value_counts()
    assert counts["control/random"] == 120
    assert counts["toys/finds"] < 120


def test_shards_come_in_an_order_of_the_seed(tmp_path: Path) -> None:
    order = shard_order(plan(LONG))
    assert sorted(order) == [(0, start) for start in range(0, 120, 8)]
    assert order == shard_order(plan(LONG))
    assert order != sorted(order)
    assert order != shard_order(plan(LONG.override(["seed=1"])))


def test_a_race_needs_a_score_that_can_be_raced(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="f_sin"):
        run(LONG, tmp_path / "a", workers=0, until=Settle(metric="f_sin"))
    grid = spec(
        protocol="grid", models=["gridprog.pure"], datasets=["grid"], explainers=["control/random", "control/edges"]
    )
    with pytest.raises(BadInput, match="better direction"):
        run(Spec.parse(grid), tmp_path / "b", workers=0, until=Settle(metric="distractor_mass"))


def test_the_command_prints_where_each_pair_settled(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from karat.cli.main import app

    (tmp_path / "race.yaml").write_text(yaml.safe_dump(LONG.plain()))
    command = ["run", str(tmp_path / "race.yaml"), "--out", str(tmp_path / "out"), "--workers", "0"]
    done = CliRunner().invoke(app, [*command, "--until-settled", "0.9", "--progress", "plain"])
    assert done.exit_code == 0, done.output
    table = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert table[0] == ["first", "second", "better", "settled at", "samples"]
    assert len(table) == 4
    assert "all pairs are settled after" in done.stderr
    for wrong, says in (
        (["--until-settled", "95"], "between 0 and 1"),
        (["--settle-by", "f_syn"], "add --until-settled"),
    ):
        refused = CliRunner().invoke(app, [*command, *wrong])
        assert isinstance(refused.exception, BadInput)
        assert says in str(refused.exception)


def test_what_the_report_leaves_out_decides_no_race(tmp_path: Path) -> None:
    """On a redundant model the better explainer scores lower: in a race, as in the report, it has no say."""
    models = [{"name": "synergy_worlds:SharesRecipe", "rule": rule} for rule in ("keys", "either")]
    both = Spec.parse(LONG.model_dump() | {"models": models})
    apart = record(run(both, tmp_path / "apart", workers=0, until=Settle(0.9)))
    alone = record(run(LONG, tmp_path / "alone", workers=0, until=Settle(0.9)))
    assert apart["pairs"] == alone["pairs"]
    kept = both.override(["protocol.redundant=keep"])
    other = record(run(kept, tmp_path / "kept", workers=0, until=Settle(0.9)))
    assert [pair["difference"] for pair in other["pairs"]] != [pair["difference"] for pair in apart["pairs"]]


def test_shards_of_one_bucket_do_not_settle_what_is_equal_overall() -> None:
    """The adversarial order by the real engine; `benchmarks/simulate_races.py` has hundreds of these."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from simulate_races import one_race

    races = [one_race("neighbours", seed) for seed in range(3)]
    assert [one["winner"] for one in races] == [None] * 3
    assert any(one["by_sample"] is not None for one in races)  # a bet a sample calls it
    better = one_race("better", 0)
    assert better["winner"] == "races/known"
    assert better["by_sample"] < better["settled_at"] < 192

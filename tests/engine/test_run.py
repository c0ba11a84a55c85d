"""A run end to end: rows, resume, extension, failures, determinism."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import toys

from karat.engine.events import JsonLines
from karat.engine.plan import plan
from karat.engine.run import run
from karat.engine.status import status, why
from karat.kernel.errors import BadInput, RunBusy, RunFailed
from karat.kernel.sample import Sample
from karat.kernel.spec import Spec
from karat.results import load_run
from karat.results.store import Store


def carry_out(out: Path, workers: int = 0, **changes: object) -> pd.DataFrame:
    return run(Spec.parse(toys.spec(**changes)), out, workers=workers).scores()


def shards(out: Path) -> set[str]:
    return {path.name for path in (out / "scores").iterdir()}


def test_one_row_per_sample_explainer_and_metric(tmp_path: Path) -> None:
    scores = carry_out(tmp_path)
    assert len(scores) == 10 * 2 * 5
    assert scores.groupby(["explainer", "metric"]).size().eq(10).all()
    oracle = scores[(scores.explainer == "control/oracle") & (scores.metric == "localization/relevance_mass")]
    assert (oracle.value == 1).all()
    assert set(scores["meta.parity"]) == {"even", "odd"}
    assert (scores.answer == "here").all()


def test_rows_are_bitwise_the_same_for_any_workers_and_order(tmp_path: Path) -> None:
    alone = carry_out(tmp_path / "a", workers=0)
    pd.testing.assert_frame_equal(alone, carry_out(tmp_path / "b", workers=2), check_exact=True)
    pd.testing.assert_frame_equal(alone, carry_out(tmp_path / "c", workers=3), check_exact=True)
    assert shards(tmp_path / "a") == shards(tmp_path / "b") == shards(tmp_path / "c")


def test_another_batch_size_gives_the_same_numbers(tmp_path: Path) -> None:
    one = carry_out(tmp_path / "a", batch_size=1)
    four = carry_out(tmp_path / "b", batch_size=4)
    pd.testing.assert_series_equal(one.value, four.value, rtol=0, atol=1e-5)


def test_running_again_computes_nothing(tmp_path: Path) -> None:
    carry_out(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "scores").iterdir()}
    carry_out(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "scores").iterdir()} == before
    assert [e["jobs"] for e in load_run(tmp_path).events() if e["event"] == "run_started"] == [3, 0]


def test_adding_an_explainer_runs_only_its_cells(tmp_path: Path) -> None:
    carry_out(tmp_path)
    scores = carry_out(tmp_path, explainers=["control/random", "control/oracle", "control/edges"])
    assert set(scores.explainer) == {"control/random", "control/oracle", "control/edges"}
    started = [e for e in load_run(tmp_path).events() if e["event"] == "run_started"]
    assert started[-1]["cells_done"] == 6
    assert started[-1]["cells"] == 9
    pd.testing.assert_frame_equal(
        scores, carry_out(tmp_path / "fresh", explainers=["control/random", "control/oracle", "control/edges"])
    )


def test_a_narrower_spec_hides_rows_it_does_not_ask_for(tmp_path: Path) -> None:
    carry_out(tmp_path)
    assert set(carry_out(tmp_path, explainers=["control/oracle"]).explainer) == {"control/oracle"}


def test_what_a_spec_skips_is_not_run_and_can_be_run_later(tmp_path: Path) -> None:
    without = carry_out(tmp_path, skip=[{"explainer": "control/o*"}])
    assert set(without.explainer) == {"control/random"}
    whole = carry_out(tmp_path)
    assert [e["jobs"] for e in load_run(tmp_path).events() if e["event"] == "run_started"] == [3, 3]
    rows = whole[whole.explainer == "control/random"].reset_index(drop=True)
    pd.testing.assert_frame_equal(without, rows, check_categorical=False)  # the whole knows more names
    assert len(carry_out(tmp_path, skip=[{"explainer": "control/o*"}])) == len(without) < len(whole)


def test_a_skip_that_takes_nothing_or_everything_is_a_mistake() -> None:
    with pytest.raises(BadInput, match=r"skip\.0: no cell of the run has model 'nix'\. It has models .*control/random"):
        plan(Spec.parse(toys.spec(skip=[{"model": "nix"}])))
    with pytest.raises(BadInput, match="every cell"):
        plan(Spec.parse(toys.spec(skip=[{"explainer": "control/r*"}, {"explainer": "control/o*"}])))


def test_a_failing_sample_fails_alone_with_its_reason(tmp_path: Path) -> None:
    scores = carry_out(tmp_path, explainers=["toys:Moody"])
    mass = scores[scores.metric == "localization/relevance_mass"].set_index("sample")
    assert mass.loc["square-1", "reason"] == "toys/moody: ValueError: cannot stand square-1"
    assert "NaN" in mass.loc["square-2", "reason"]
    assert "zero" in mass.loc["square-3", "reason"]
    assert mass.value.notna().sum() == 7
    assert mass.value.isna().equals(mass.status == "failure")


def test_an_empty_truth_mask_has_no_answer_and_is_no_failure(tmp_path: Path) -> None:
    run_ = run(
        Spec.parse(toys.spec(protocol={"name": "localization", "roles": ["nobody"]})),
        tmp_path,
        workers=0,
        fail_on_error=0,
    )
    assert set(run_.scores().status) == {"not_applicable"}
    assert run_.scores().value.isna().all()


def test_fail_on_error_counts_failures_and_keeps_the_rows(tmp_path: Path) -> None:
    spec = Spec.parse(toys.spec(explainers=["toys:Moody"]))
    with pytest.raises(RunFailed, match=r"30\.0% of the rows are failures"):
        run(spec, tmp_path, workers=0, fail_on_error=0.2)
    assert len(load_run(tmp_path).scores()) == 50
    run(spec, tmp_path, workers=0, fail_on_error=0.4)


def test_a_killed_worker_costs_a_retry_not_a_row(tmp_path: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.touch()
    scores = carry_out(tmp_path / "run", workers=2, explainers=[{"name": "toys:Killer", "fuse": str(fuse)}])
    assert len(scores) == 50
    assert [e["reason"] for e in load_run(tmp_path / "run").events() if e["event"] == "job_retry"] == [
        "its process died (signal 9)"
    ]


def test_an_explainer_that_always_kills_its_worker_fails_sample_by_sample(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"100\.0% of the rows are failures"):
        carry_out(tmp_path, workers=1, explainers=["toys:Deadly"], datasets=[{"name": "toys:Squares", "n": 2}])
    events = [e["event"] for e in load_run(tmp_path).events()]
    assert events.count("job_retry") == 6  # twice together, twice each alone
    assert events.count("job_failed") == 0
    assert load_run(tmp_path).scores().reason.str.contains("its process died").all()


def test_a_sample_that_kills_its_process_is_lost_alone(tmp_path: Path) -> None:
    scores = carry_out(tmp_path / "poisoned", workers=2, explainers=["toys:Poisoned", "control/random"])
    lost = scores[scores.status == "failure"]
    assert set(lost["sample"]) == {"square-5"}
    assert set(lost.explainer) == {"toys/poisoned"}
    assert lost.reason.str.startswith("its process died (signal 9), each of 2 times").all()
    well = carry_out(tmp_path / "well", explainers=[{"name": "toys:Poisoned", "sample": "none"}, "control/random"])
    well["explainer"] = scores["explainer"]
    kept = scores.status == "score"
    pd.testing.assert_frame_equal(scores[kept].drop(columns="cell"), well[kept].drop(columns="cell"), check_exact=True)


@pytest.mark.parametrize(
    ("fault", "says"), [("raises", "dataset: OSError: cannot decode"), ("kills", "its process died")]
)
def test_a_sample_that_cannot_be_read_is_a_failure_and_its_neighbours_go_on(
    tmp_path: Path, fault: str, says: str
) -> None:
    scores = carry_out(tmp_path, workers=1, datasets=[{"name": "toys:BadSquares", "n": 10, fault: 6}])
    lost = scores[scores.status == "failure"]
    assert set(lost["sample"]) == {"toys/badsquares[6]"}
    assert lost.reason.str.startswith(says).all()
    assert len(scores) == 100
    assert len(lost) == 10
    deaths = [e["event"] for e in load_run(tmp_path).events()].count("job_retry")
    assert deaths == (4 if fault == "kills" else 0)  # twice among others, twice alone, whatever the explainers


def test_the_second_driver_says_so_and_stops(tmp_path: Path) -> None:
    with Store(tmp_path).lease(), pytest.raises(RunBusy, match=r"is being written by process \d+"):
        carry_out(tmp_path)


def test_damaged_shards_are_refused_by_readers_and_mended_by_running_again(tmp_path: Path) -> None:
    whole = carry_out(tmp_path)
    victim = sorted((tmp_path / "scores").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-20])
    with pytest.raises(BadInput, match="damaged"):
        load_run(tmp_path).scores()
    pd.testing.assert_frame_equal(carry_out(tmp_path), whole)


def test_leftovers_of_a_killed_writer_are_swept(tmp_path: Path) -> None:
    (tmp_path / "scores").mkdir(parents=True)
    (tmp_path / "scores" / ".abc.parquet.1.tmp").write_bytes(b"half")
    carry_out(tmp_path)
    assert not list(tmp_path.glob("**/.*.tmp"))


def test_pairs_that_cannot_work_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"toys/greedy needs gradients; 'toy-a' offers mechanism, scores, text"):
        plan(Spec.parse(toys.spec(explainers=["toys:Greedy"])))
    assert not list(tmp_path.iterdir())


def test_an_unwritable_directory_is_one_clear_error() -> None:
    with pytest.raises(BadInput, match="Choose another directory"):
        carry_out(Path("/proc/karat-run"))


def test_status_counts_what_is_there(tmp_path: Path) -> None:
    carry_out(tmp_path, explainers=["toys:Moody"])
    seen = status(tmp_path)
    assert (seen.cells, seen.cells_done, seen.rows, seen.failures) == (3, 3, 50, 15)
    assert sum(count for _, count in seen.reasons) == 15
    assert seen.writer == ""


def test_why_names_the_field_that_changed(tmp_path: Path) -> None:
    carry_out(tmp_path)
    changed = Spec.parse(toys.spec(seed=7))
    store = Store(tmp_path)
    store.write_json("spec.json", changed.plain())
    cell = plan(changed).cells[0]
    answer = why(tmp_path, cell.id[:8])
    assert not answer.done
    assert answer.differences == [("seed", 0, 7)]


def test_progress_reaches_the_end_and_every_event_is_a_json_line(tmp_path: Path) -> None:
    import json

    lines: list[str] = []
    run(Spec.parse(toys.spec()), tmp_path, workers=2, show=JsonLines(lines.append))
    events = [json.loads(line) for line in lines]
    assert events[0]["event"] == "run_started"
    assert events[-1]["event"] == "run_done"
    assert events[-1]["rows"] == 100
    assert [e for e in events if e["event"] == "progress"][-1]["pairs_done"] == 20


def test_a_run_in_which_everything_failed_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"100\.0% of the rows are failures"):
        carry_out(tmp_path, explainers=["toys:Moody"], datasets=[{"name": f"{__name__}:OnlyBroken"}])


def test_changed_code_of_a_user_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    module = tmp_path / "their_explainer.py"
    code = (
        "from dataclasses import dataclass\nfrom typing import ClassVar\nimport numpy as np, karat\n"
        "@dataclass(frozen=True)\nclass Flat:\n"
        "    card: ClassVar[karat.Card] = karat.Card('their/flat', 'flat', 'explainer')\n"
        "    def __call__(self, session):\n"
        "        return [karat.Attribution(np.ones((2, 2))) for _ in session.samples]\n"
    )
    module.write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    carry_out(tmp_path / "run", explainers=["their_explainer:Flat"])
    module.write_text(code.replace("np.ones", "2 * np.ones"))
    importlib.reload(sys.modules["their_explainer"])
    carry_out(tmp_path / "run", explainers=["their_explainer:Flat"])
    started = [e for e in load_run(tmp_path / "run").events() if e["event"] == "run_started"]
    assert [e["cells_done"] for e in started] == [0, 0]


@dataclass(frozen=True)
class OnlyBroken(toys.Squares):
    """Only the samples that `toys.Moody` cannot explain."""

    card = toys.Squares.card
    n: int = 3

    def load(self, start: int, stop: int) -> list[Sample]:
        return [toys.square(i) for i in range(start + 1, stop + 1)]


alive: weakref.WeakSet[toys.ToyModel] = weakref.WeakSet()
loads: list[str] = []


@dataclass(frozen=True)
class Large(toys.Toy):
    """A model that fits in memory only alone; like many modules, it points at itself."""

    def load(self) -> toys.ToyModel:
        assert not alive, "two models at once"
        loads.append(self.weights)
        model = toys.ToyModel(self.label)
        object.__setattr__(model, "itself", model)
        alive.add(model)
        return model


def test_one_model_is_held_at_a_time_and_loaded_once(tmp_path: Path) -> None:
    loads.clear()
    models = [{"name": f"{__name__}:Large", "weights": name} for name in "abc"]
    datasets = [{"name": "toys:Squares", "n": 10}, {"name": "toys:BadSquares", "n": 10}]
    assert len(carry_out(tmp_path, models=models, datasets=datasets)) == 3 * 2 * 100
    assert loads == ["a", "b", "c"]


def test_a_worker_whose_place_fails_for_a_moment_costs_a_retry(tmp_path: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.touch()
    scores = carry_out(tmp_path / "run", workers=1, explainers=[{"name": "faulty:Unplugs", "fuse": str(fuse)}])
    assert len(scores) == 50
    [reason] = [e["reason"] for e in load_run(tmp_path / "run").events() if e["event"] == "job_retry"]
    assert reason.startswith("cannot write")


def test_a_place_that_goes_on_failing_ends_the_run_with_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot write .*running the same command again resumes") as told:
        carry_out(tmp_path, workers=1, explainers=["faulty:Unplugs"])
    assert told.value.exit_code == 2
    assert [e["event"] for e in load_run(tmp_path).events()].count("job_retry") == 2  # of the first job


def test_workers_keep_to_the_model_they_have_loaded(tmp_path: Path) -> None:
    models = ["toys:Toy", {"name": "toys:Toy", "weights": "b"}]
    datasets = [{"name": "toys:Squares", "n": 8}, {"name": "toys:BadSquares", "n": 8}]
    carry_out(tmp_path, workers=1, models=models, datasets=datasets)
    order = [e["model"] for e in load_run(tmp_path).events() if e["event"] == "job_done"]
    assert order == ["toy-a"] * 4 + ["toy-b"] * 4

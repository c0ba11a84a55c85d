"""Where workers run, on machines that nobody here has: an inventory is plain data."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import toys
import yaml

from karat.cli.run import run as run_verb
from karat.engine.executors.ray_driver import Driver
from karat.engine.executors.ray_resources import resources, shares, weights_on_gpus
from karat.engine.footprint import rooms
from karat.engine.inventory import Gpu, Inventory, named_gpus
from karat.engine.places import Kind, Placement, Room, accelerated, need, place
from karat.engine.plan import plan
from karat.engine.run import run
from karat.kernel.errors import BadInput, RunFailed
from karat.kernel.spec import Spec
from karat.models import recipe
from karat.results.store import Store

GB = 2**30
TWO = Inventory(16, 64 * GB, (Gpu("0", 24 * GB), Gpu("1", 24 * GB)))
EIGHT = Inventory(64, 512 * GB, tuple(Gpu(str(k), 80 * GB) for k in range(8)))
NONE = Inventory(16, 64 * GB)


def placed(inventory: Inventory, *models: Any, workers: int | None = None, per_device: int | None = None) -> Placement:
    numbered = dict(enumerate(models))
    return place(numbered, inventory, dict.fromkeys(numbered, 100), workers, per_device)


def taken(inventory: Inventory, kind: Kind) -> list[str]:
    """What the environment of each worker says, until there is no room."""
    room, shown = Room(inventory), []
    while (one := room.take(kind)) is not None:
        shown.append(one.environment.get(inventory.variable, "all"))
    return shown


@pytest.mark.parametrize(
    ("inventory", "parameters", "environments"),
    [
        (TWO, {}, ["0", "1"]),  # one a GPU, not sixteen on the first
        (TWO, {"gpus": 0.5}, ["0", "1", "0", "1"]),
        (EIGHT, {"device": "auto", "gpus": 4}, ["0,1,2,3", "4,5,6,7"]),
        (EIGHT, {"device": "auto", "gpus": 3}, ["0,1,2", "3,4,5"]),
        (TWO, {"device": "auto"}, ["0,1"]),
        (TWO, {"device": "cuda:1"}, ["all"]),  # it would not be number 1 if it were alone
        (Inventory(4, None, named_gpus([GB, GB], "5,GPU-8f"), variable="HIP_VISIBLE_DEVICES"), {}, ["5", "GPU-8f"]),
        (Inventory(4, mps=True), {"device": "mps"}, ["all"]),
        (NONE, {}, []),
    ],
)
def test_a_worker_sees_its_own_gpus_only(
    inventory: Inventory, parameters: dict[str, Any], environments: list[str]
) -> None:
    assert taken(inventory, need(toys.OnGpu(**parameters)).kind) == environments


@pytest.mark.parametrize(
    ("inventory", "parameters", "options", "workers", "line"),
    [
        (TWO, {}, {}, 2, "2 workers on the GPUs 0, 1, one each (toy-a)"),
        (TWO, {}, {"workers": 1}, 1, "1 worker on the GPUs 0, 1, one each (toy-a)"),
        (TWO, {}, {"workers": 9}, 2, "2 workers on the GPUs 0, 1, one each (toy-a)"),  # never two on one unasked
        (TWO, {}, {"per_device": 3}, 6, "6 workers on the GPUs 0, 1, 3 to each (toy-a)"),
        (TWO, {"device": "auto"}, {}, 1, "1 worker over 2 of the GPUs 0, 1 each (toy-a)"),
        (NONE, {"device": "auto"}, {}, 16, "16 workers on 16 cores, one each (toy-a)"),
        (NONE, {"device": "cpu"}, {}, 16, "16 workers on 16 cores, one each (toy-a)"),
        (NONE, {"device": "cpu", "gigabytes": 14.0}, {}, 3,
         "3 workers on 16 cores: 80 % of the 64.0 GB free hold the 14.0 GB of weights 3 times (toy-a)"),
        (NONE, {"device": "cpu", "gigabytes": 60.0}, {}, 1,
         "1 worker on 16 cores: 60.0 GB of weights leave no room for more in the 64.0 GB free (toy-a)"),
        (NONE, {"device": "cpu", "gigabytes": 40.0}, {}, 1,
         "1 worker on 16 cores: 80 % of the 64.0 GB free hold the 40.0 GB of weights once (toy-a)"),
        (NONE, {"device": "cpu", "gigabytes": 14.0}, {"workers": 4}, 4, "4 workers as --workers says (toy-a)"),
        (NONE, {"device": "cpu", "gigabytes": 14.0}, {"workers": 8}, 8,
         "8 workers as --workers says, whose weights take 112.0 GB of the 64.0 GB free (toy-a)"),
    ],
)  # fmt: skip
def test_how_many_workers_and_why(
    inventory: Inventory, parameters: dict[str, Any], options: dict[str, int], workers: int, line: str
) -> None:
    chosen = placed(inventory, toys.OnGpu(**parameters), **options)
    assert (chosen.workers, chosen.says) == (workers, (line,))


@pytest.mark.parametrize(
    ("inventory", "parameters", "options", "words"),
    [
        (NONE, {}, {}, "toy-a wants a GPU, and this machine shows none: use device: cpu"),
        (TWO, {"device": "auto", "gpus": 3}, {}, r"wants 3 GPUs, and this machine shows 2 \(0, 1\)"),
        (TWO, {"device": "cuda:2"}, {}, "wants GPU 2, and this machine shows 2"),
        (TWO, {"device": "cuda:x"}, {}, "device: cuda:x names no GPU"),
        (TWO, {"device": "cpu", "gpus": 1}, {}, "gpus: 1 goes with device: auto"),
        (TWO, {"gpus": 2}, {}, "to spread the model over 2, say device: auto"),
        (NONE, {"device": "mps"}, {}, "device: mps is of Apple's machines"),
        (TWO, {"gigabytes": 30.0}, {}, "take 30.0 GB, and 24.0 GB of GPU memory .* device: auto with gpus: 2"),
        (TWO, {"gigabytes": 30.0, "device": "auto", "gpus": 1}, {}, "device: auto with gpus: 2"),
        (TWO, {"gigabytes": 60.0, "device": "auto"}, {}, "48.0 GB of GPU memory .* use dtype: bfloat16"),
        (TWO, {"gigabytes": 10.0}, {"per_device": 4}, "--per-device 4 puts 4 workers of 10.0 GB .* at most 2 fit"),
        (TWO, {"gigabytes": 10.0, "gpus": 0.25}, {}, "gpus: 0.25 puts 4 workers of 10.0 GB .* at most 2 fit"),
        (NONE, {"device": "cpu", "gigabytes": 70.0}, {}, "take 70.0 GB, and 64.0 GB of memory are free: use dtype"),
        (
            Inventory(8, 16 * GB, mps=True),
            {"device": "mps", "gigabytes": 30.0},
            {},
            "take 30.0 GB, and 16.0 GB of memory",
        ),
        (NONE, {"device": "cpu"}, {"per_device": 2}, "--per-device 2 is of GPUs"),
    ],
)
def test_what_cannot_be_placed_is_refused_with_what_would_do(
    inventory: Inventory, parameters: dict[str, Any], options: dict[str, int], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        placed(inventory, toys.OnGpu(**parameters), **options)


def test_what_is_given_back_can_be_taken_again() -> None:
    for kind in (Kind("cuda", 1.0), Kind("cuda", 0.5), Kind("cuda", 0.0), Kind("cuda", 2.0), Kind("cpu"), Kind("mps")):
        room = Room(Inventory(2, None, TWO.gpus, mps=True))
        first = []
        while (one := room.take(kind)) is not None:
            first.append(one)
        assert first
        for each in first:
            room.give_back(each)
        again = []
        while (one := room.take(kind)) is not None:
            again.append(one)
        assert again == first


def test_one_worker_over_all_gpus_waits_until_all_are_free() -> None:
    room = Room(TWO)
    small = room.take(Kind("cuda", 1.0))
    assert small is not None
    assert room.take(Kind("cuda", 0.0)) is None
    assert room.take(Kind("cuda", 2.0)) is None
    room.give_back(small)
    assert room.take(Kind("cuda", 0.0)) is not None


def test_a_resting_gpu_is_passed_over() -> None:
    assert Room(TWO).take(Kind("cuda", 1.0), resting=["0"]).gpus == ("1",)  # type: ignore[union-attr]  # there is one
    assert Room(TWO).take(Kind("cuda", 0.0), resting=["0"]).gpus == ("1",)  # type: ignore[union-attr]  # there is one
    assert Room(TWO).take(Kind("cuda", 1.0), resting=["0", "1"]) is None


def test_models_of_two_sizes_share_memory_by_their_weights() -> None:
    large, small = toys.OnGpu("l", device="cpu", gigabytes=30), toys.OnGpu("s", device="cpu", gigabytes=5)
    both = placed(NONE, large, small)  # 51.2 GB for all
    assert [line.split()[0] for line in both.says] == ["1"]  # one kind of worker, counted by the largest
    assert both.fits(0, []) is True
    assert both.fits(0, [0]) is False
    assert both.fits(1, [0, 1, 1, 1]) is True
    assert both.fits(1, [0, 1, 1, 1, 1]) is False
    assert placed(NONE, large, small, workers=9).fits(0, [0, 0, 0])  # who says how many knows


@dataclass(frozen=True)
class Mapped(toys.OnGpu):
    """Its weights are read from the pages of a file, once for all workers."""

    def shares_weights(self) -> bool:
        return True


def test_weights_that_workers_share_are_counted_once() -> None:
    mapped = Mapped(device="cpu", gigabytes=40)
    chosen = placed(NONE, mapped)
    assert (chosen.workers, chosen.says) == (
        16,
        ("16 workers on 16 cores, one each; they share 40.0 GB of weights (toy-a)",),
    )
    assert chosen.fits(0, [0] * 15)
    assert rooms(chosen)[0] == pytest.approx((40 + (0.8 * 64 - 40) / 16) * GB)  # its part of what the weights leave
    private = toys.OnGpu("p", device="cpu", gigabytes=5)
    both = placed(NONE, mapped, private)  # 51.2 GB for all
    assert both.fits(1, [0, 0, 1])
    assert not both.fits(1, [0, 0, 1, 1])
    assert both.workers == 2  # 11.2 GB hold 5 twice
    assert not need(Mapped(device="cuda", gigabytes=40)).shared  # a GPU has a copy of its own
    crowded = placed(NONE, Mapped(device="cpu", gigabytes=60))  # beyond 80 %
    assert crowded.says == (
        "1 worker on 16 cores: 60.0 GB of weights leave no room for more in the 64.0 GB free (toy-a)",
    )
    assert not crowded.fits(0, [0])
    with pytest.raises(BadInput, match=r"70\.0 GB, and 64\.0 GB of memory are free"):
        placed(NONE, Mapped(device="cpu", gigabytes=70))


def test_gpus_are_looked_for_only_where_a_model_wants_one() -> None:
    assert not accelerated([toys.Toy(), recipe("gridprog.pure")])
    assert accelerated([toys.Toy(), toys.OnGpu()])
    assert accelerated([toys.Hungry()])


def test_the_fields_of_a_spec_say_what_a_vlm_needs() -> None:
    assert need(recipe("vlm", path="a/b", device="auto", gpus=2)).kind == Kind("cuda", 2.0)
    assert need(recipe("clip", path="a/b", device="cuda", gpus=0.25)).kind == Kind("cuda", 0.25)
    cells = []
    for gpus in (None, 2):  # rows do not depend on placement, so neither does their identity
        vlm = {"name": "vlm", "path": "a/b", "device": "auto", "gpus": gpus}
        spec = toys.spec(models=[vlm], explainers=["control/random"])
        cells.append([cell.id for cell in plan(Spec.parse(spec)).cells])
    assert cells[0] == cells[1]


# --- with processes ---


def test_rows_do_not_depend_on_places_and_every_worker_sees_its_gpu(tmp_path: Path) -> None:
    def rows(folder: str, **options: Any) -> pd.DataFrame:
        spec = toys.spec(models=[{"name": "toys:OnGpu", "breaks": str(tmp_path)}])
        return run(Spec.parse(spec), tmp_path / folder, **options).scores()

    alone = rows("alone", workers=0)
    (tmp_path / f"loaded-all-{os.getpid()}").unlink()
    pd.testing.assert_frame_equal(rows("two", inventory=TWO), alone, check_exact=True)
    assert {file.name.split("-")[1] for file in tmp_path.glob("loaded-*")} == {"0", "1"}


def test_a_gpu_that_fails_rests_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.engine.executors.local.REST", 0.1)
    (tmp_path / "gpu-1").write_text("2")  # fails twice, then works
    told: list[dict[str, Any]] = []
    spec = toys.spec(
        models=[{"name": "toys:OnGpu", "breaks": str(tmp_path)}],
        datasets=[{"name": "toys:Squares", "n": 48}],
        explainers=[{"name": "toys:Patient", "gate": str(tmp_path / "gate")}],
    )
    # GPU 0 may not finish the run before GPU 1 is back, however slowly processes start
    threading.Thread(target=_open_when, args=(tmp_path / "gate", tmp_path, "loaded-1-*"), daemon=True).start()
    scores = run(Spec.parse(spec), tmp_path / "run", inventory=TWO, show=_Listener(told)).scores()
    assert len(scores) == 48 * len(set(scores.metric))
    assert (scores.status == "score").all()
    failures = [event["text"] for event in told if event["event"] == "warning"]
    assert len(failures) == 2
    assert failures[0].startswith("GPU 1: its device failed (CUDA error: no CUDA-capable device is detected); it rests")
    assert len(list(tmp_path.glob("loaded-0-*"))) == 1
    assert len(list(tmp_path.glob("loaded-1-*"))) == 1  # it came back


def test_where_no_gpu_works_the_run_ends_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.engine.executors.local.REST", 0.0)
    (tmp_path / "gpu-7").write_text("99")
    spec = Spec.parse(toys.spec(models=[{"name": "toys:OnGpu", "breaks": str(tmp_path)}]))
    with pytest.raises(RunFailed, match="no GPU of this machine works: its device failed"):
        run(spec, tmp_path / "run", inventory=Inventory(2, None, (Gpu("7"),)))
    assert (tmp_path / "gpu-7").read_text() == "96"  # three times, not for ever


def test_two_models_of_different_devices_finish_in_one_run(tmp_path: Path) -> None:
    models = [{"name": "toys:OnGpu", "weights": w, "device": d, "breaks": str(tmp_path)}
              for w, d in (("a", "cuda"), ("b", "auto"), ("c", "cpu"))]  # fmt: skip
    told: list[dict[str, Any]] = []
    scores = run(Spec.parse(toys.spec(models=models)), tmp_path / "run", inventory=TWO, show=_Listener(told)).scores()
    assert set(scores.model) == {"toy-a", "toy-b", "toy-c"}
    assert (scores.status == "score").all()
    assert {file.name.split("-")[1] for file in tmp_path.glob("loaded-*")} >= {"0", "0,1", "all"}
    begun = next(event for event in told if event["event"] == "run_started")
    assert len(begun["places"]) == 3


def _open_when(gate: Path, folder: Path, pattern: str) -> None:
    """Make the file `gate` once another appears; after two minutes anyway, so that a failure is one of the test."""
    patience = time.monotonic() + 120
    while not any(folder.glob(pattern)) and time.monotonic() < patience:
        time.sleep(0.05)
    gate.touch()


class _Listener:
    """Keeps every event."""

    def __init__(self, told: list[dict[str, Any]]) -> None:
        self.told = told

    def __call__(self, event: dict[str, Any]) -> None:
        self.told.append(event)

    def __enter__(self) -> _Listener:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_dry_run_and_the_first_line_say_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(toys.spec(models=["toys:OnGpu"])))
    monkeypatch.setattr(Inventory, "here", staticmethod(lambda accelerators: TWO if accelerators else NONE))
    run_verb(str(spec), out=str(tmp_path / "run"), dry_run=True)
    assert "2 workers on the GPUs 0, 1, one each (toy-a)" in capsys.readouterr().out
    run_verb(str(spec), out=str(tmp_path / "run"), progress="plain")
    assert "2 workers on the GPUs 0, 1, one each (toy-a)" in capsys.readouterr().err.splitlines()[0]
    monkeypatch.setattr(Inventory, "here", staticmethod(lambda accelerators: NONE))
    run_verb(str(spec), out=str(tmp_path / "other"), dry_run=True)  # it may be meant for another machine
    assert "not on this machine: toy-a wants a GPU" in capsys.readouterr().out
    with pytest.raises(BadInput, match="wants a GPU"):
        run_verb(str(spec), out=str(tmp_path / "other"), progress="none")


# --- the same fields on a cluster ---


def test_ray_holds_what_the_same_fields_say() -> None:
    assert resources(toys.OnGpu()) == {"CPU": 1.0, "GPU": 1.0}
    assert resources(toys.OnGpu(device="auto", gpus=2)) == {"CPU": 1.0, "GPU": 2.0}
    assert resources(toys.OnGpu(gpus=0.5)) == {"CPU": 1.0, "GPU": 0.5}
    assert resources(toys.OnGpu(), per_device=4) == {"CPU": 1.0, "GPU": 0.25}
    assert resources(toys.OnGpu(device="cpu", gigabytes=14)) == {"CPU": 1.0, "memory": 14.0 * GB}
    assert resources(toys.OnGpu(device="cpu", gigabytes=0.1)) == {"CPU": 1.0}
    assert resources(Mapped(device="cpu", gigabytes=14)) == {"CPU": 1.0}  # the actors of a node hold them once
    with pytest.raises(BadInput, match="nobody knows which GPU cuda:1 is"):
        resources(toys.OnGpu(device="cuda:1"))
    assert weights_on_gpus(toys.OnGpu(gigabytes=10, gpus=0.5)) == 20 * GB  # two of them on one
    nodes = [
        {"Alive": True, "Resources": {"CPU": 64.0, "GPU": 8.0, "memory": 500.0 * GB}},
        {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 1.0, "memory": 20.0 * GB}},
        {"Alive": True, "Resources": {"CPU": 16.0, "memory": 64.0 * GB}},
    ]
    assert shares(nodes, resources(toys.OnGpu(device="auto", gpus=2))) == 4
    assert shares(nodes, resources(toys.OnGpu(gpus=0.5))) == 18
    assert shares(nodes, resources(toys.OnGpu(device="cpu", gigabytes=14))) == 35 + 1 + 4


def test_what_wants_most_gpus_is_placed_first_on_a_cluster(tmp_path: Path) -> None:
    models: list[Any] = [
        {"name": "toys:Toy", "weights": "z"},
        "toys:OnGpu",
        {"name": "toys:OnGpu", "weights": "b", "device": "auto", "gpus": 4},
    ]
    planned = plan(Spec.parse(toys.spec(models=models)))
    made = Driver(None, planned, planned.grid, Store(tmp_path), None, 2)
    assert [dict(kind).get("GPU", 0.0) for kind in made.kinds] == [4.0, 1.0, 0.0]

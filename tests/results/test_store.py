"""A run's files, in a folder and at a URL: whole or not at all, trusted by their hash, one driver at a time."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import faulty
import pandas as pd
import pytest
import toys

from karat.engine.run import run
from karat.engine.status import status
from karat.kernel.errors import BadInput, RunBusy
from karat.kernel.spec import Spec
from karat.results import load_run
from karat.results.remote import RemoteFiles
from karat.results.store import Store, _files


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(RemoteFiles, "pause", 0.0)
    monkeypatch.setattr(RemoteFiles, "beat", 0.05)
    monkeypatch.setattr(RemoteFiles, "patience", 0.3)
    faulty.Gate.reset()
    faulty.FaultyFileSystem.store.clear()
    _files.cache_clear()
    yield
    faulty.Gate.reset()


@pytest.fixture(params=["folder", "memory", "faulty", "local", "faultyfolder", "listing"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return Store(tmp_path / "run")
    if request.param in ("local", "faultyfolder", "listing"):  # fsspec's own way to a folder
        return Store(f"{request.param}://{tmp_path}/run")
    return Store(f"{request.param}://{tmp_path.name}/run")


def another_driver(store: Store) -> Store:
    """The same place as seen by another process: nothing shared but what is written."""
    _files.cache_clear()
    return Store(str(store.root))


def test_shards_are_named_by_their_content_and_trusted_by_it(store: Store) -> None:
    name = store.write_shard("scores", ".parquet", b"rows")
    assert store.write_shard("scores", ".parquet", b"rows") == name
    assert store.shards("scores", ".parquet") == [name]
    assert store.read_shard(name) == b"rows"
    store.write(name, b"rowz")
    assert store.read_shard(name) is None
    store.remove(name)
    store.remove(name)
    assert not store.exists(name)
    assert store.read_shard(name) is None
    assert store.shards("nowhere", ".parquet") == []


def test_json_is_sealed(store: Store) -> None:
    store.write_json("manifest.json", {"b": [1, 2.5], "a": {"2": None, "10": "é"}})
    assert store.read_json("manifest.json") == {"a": {"10": "é", "2": None}, "b": [1, 2.5]}
    store.write("manifest.json", store.read("manifest.json").replace(b"2.5", b"2.6"))
    with pytest.raises(BadInput, match="altered"):
        store.read_json("manifest.json")
    with pytest.raises(BadInput, match="holds no spec"):
        store.read_json("spec.json")


def test_logs_grow_over_several_drivers(store: Store) -> None:
    for driver in ("first", "second"):
        place = another_driver(store)
        with place.lease():
            place.sweep()
            for number in range(3):
                place.append("events.jsonl", json.dumps({"driver": driver, "number": number}))
    found = [(line["driver"], line["number"]) for line in another_driver(store).lines("events.jsonl")]
    assert found == [(driver, number) for driver in ("first", "second") for number in range(3)]


def test_one_driver_at_a_time(store: Store) -> None:
    with store.lease():
        assert "process" in store.holder()
        with pytest.raises(RunBusy, match="is being written by process"), another_driver(store).lease():
            pass
    assert store.holder() == ""
    with another_driver(store).lease():
        pass


def test_a_file_system_without_locks_is_said_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    finished = run(Spec.parse(toys.spec()), tmp_path, workers=0)
    assert len(finished.scores()) == 100
    [said] = [e["text"] for e in finished.events() if e["event"] == "warning"]
    assert "has no locks (Function not implemented)" in said
    assert finished.store.holder() == ""


def test_a_lock_that_cannot_be_had_for_another_reason_is_not_called_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(BadInput, match=r"cannot write to .*: Input/output error"), Store(tmp_path).lease():
        pass


def test_the_lease_of_a_dead_driver_is_taken_over() -> None:
    store = Store("memory://dead/run")
    store.write(".lease", json.dumps({"token": "gone", "holder": "process 1 on nowhere", "count": 7}).encode())
    with store.lease():
        assert json.loads(store.read(".lease"))["token"] != "gone"


def test_a_driver_that_lost_its_lease_writes_no_more() -> None:
    store = Store("memory://lost/run")
    with store.lease():
        store.write(".lease", json.dumps({"token": "other", "holder": "process 2", "count": 1}).encode())
        for _ in range(100):
            time.sleep(0.02)
            try:
                store.write("x", b"1")
            except RunBusy:
                break
        else:
            pytest.fail("it went on writing")


def test_errors_of_any_library_do_not_stop_the_heartbeat() -> None:
    """botocore's and aiohttp's are no OSErrors. The lease goes on being renewed, and its loss is noticed."""
    store = Store("faulty://beating/run")
    with store.lease():
        faulty.Gate.reset(lambda number, method: RuntimeError("slow down") if method == "write" else None)
        until(lambda: faulty.Gate.injected >= 2)
        faulty.Gate.reset()
        until(lambda: json.loads(store.read(".lease"))["count"] > 2)
        store.write(".lease", json.dumps({"token": "other", "holder": "process 2", "count": 1}).encode())
        until(lambda: isinstance(raised(lambda: store.write("x", b"1")), RunBusy))


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def raised(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def test_what_others_wrote_is_seen_where_listings_are_remembered(tmp_path: Path) -> None:
    store = Store(f"listing://{tmp_path}/run")
    first = store.write_shard("scores", ".parquet", b"rows")
    assert store.shards("scores", ".parquet") == [first]  # now remembered
    second = Store(tmp_path / "run").write_shard("scores", ".parquet", b"more rows")  # a worker's
    assert store.exists(second)


def test_a_run_where_listings_are_remembered_is_resumed_with_workers(tmp_path: Path) -> None:
    out, squares = f"listing://{tmp_path}/run", {"name": "faulty:Squares", "n": 8}
    run(Spec.parse(toys.spec(datasets=[squares], limit=4)), out, workers=0)
    finished = run(Spec.parse(toys.spec(datasets=[squares])), out, workers=1)
    assert finished.scores()["sample"].nunique() == 8


def test_many_drivers_at_once_and_one_wins() -> None:
    won: list[int] = []
    refused: list[int] = []
    ready = threading.Barrier(8)

    def drive(number: int) -> None:
        files = RemoteFiles("memory://crowd/run")
        ready.wait()
        try:
            with files.lease():
                won.append(number)
                time.sleep(1.0)
        except RunBusy:
            refused.append(number)

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(refused) == 7


def test_errors_in_passing_are_tried_again() -> None:
    store = Store("faulty://passing/run")
    faulty.Gate.reset(lambda number, method: faulty.error(faulty.BROKEN) if number % 3 else None)
    name = store.write_shard("scores", ".parquet", b"rows")
    assert store.read_shard(name) == b"rows"
    assert faulty.Gate.injected > 3


def test_errors_that_stay_are_one_clear_line_and_never_a_missing_shard() -> None:
    store = Store("faulty://staying/run")
    name = store.write_shard("scores", ".parquet", b"rows")
    faulty.Gate.reset(lambda number, method: faulty.error(faulty.FULL if method == "write" else faulty.BROKEN))
    with pytest.raises(BadInput, match=r"cannot write .*: No space left on device"):
        store.write("x", b"")
    with pytest.raises(BadInput, match=r"cannot read .*: Input/output error"):
        store.read_shard(name)
    with pytest.raises(BadInput, match="cannot read"):
        store.shards("scores", ".parquet")


def test_an_unknown_kind_of_place_is_refused() -> None:
    with pytest.raises(BadInput, match="Protocol not known"):
        Store("nosuch://bucket/run").exists("x")


def test_a_run_at_a_url_has_the_rows_of_one_in_a_folder(tmp_path: Path) -> None:
    spec = Spec.parse(toys.spec())
    there = run(spec, "memory://whole/run", workers=0)
    pd.testing.assert_frame_equal(there.scores(), run(spec, tmp_path, workers=0).scores(), check_exact=True)
    assert status("memory://whole/run").cells_done == 6
    run(spec, "memory://whole/run", workers=0)
    started = [e["cells_done"] for e in load_run("memory://whole/run").events() if e["event"] == "run_started"]
    assert started == [0, 6]


def test_a_run_whose_every_third_call_fails_still_ends_with_all_rows(tmp_path: Path) -> None:
    faulty.Gate.reset(lambda number, method: faulty.error(faulty.BROKEN) if number % 3 == 0 else None)
    spec = Spec.parse(toys.spec())
    scores = run(spec, "faulty://third/run", workers=0).scores()
    pd.testing.assert_frame_equal(scores, run(spec, tmp_path, workers=0).scores(), check_exact=True)
    assert faulty.Gate.injected > 5

"""A place that fails: every single operation of a run fails once (and again until the end), then the run is repeated.

Each time the user sees one clear line or nothing, readers see only right rows, and the next run completes them.
"""

from __future__ import annotations

import builtins
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faulty
import pandas as pd
import pytest
import toys

from karat.engine.run import run
from karat.kernel.errors import KaratError
from karat.kernel.spec import Spec
from karat.results import load_run
from karat.results.remote import RemoteFiles
from karat.results.store import _files

SPEC = Spec.parse(toys.spec())
Count = Callable[[str, int], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(SPEC, tmp_path_factory.mktemp("whole"), workers=0).scores()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(RemoteFiles, "pause", 0.0)
    monkeypatch.setattr(RemoteFiles, "patience", 0.01)
    faulty.Gate.reset()
    _files.cache_clear()
    yield
    faulty.Gate.reset()


def attempt(out: str | Path) -> str:
    """A run that may fail, but only by saying so."""
    return faulty.complaint(lambda: run(SPEC, out, workers=0))


def complete(out: str | Path, whole: pd.DataFrame, said: str) -> None:
    """Nothing was complained of: then every row is there already, however many errors there were."""
    if not said:
        pd.testing.assert_frame_equal(load_run(out).scores(), whole, check_exact=True)


def mended(out: str | Path, whole: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(run(SPEC, out, workers=0).scores(), whole, check_exact=True)


@pytest.mark.parametrize("kind", ["faulty", "faultyfolder"])
@pytest.mark.parametrize("number", [faulty.FULL, faulty.BROKEN])
@pytest.mark.parametrize("lasting", [False, True])
def test_every_call_to_a_place_at_a_url_fails_once(
    kind: str, number: int, lasting: bool, whole: pd.DataFrame, count: Count, tmp_path: Path
) -> None:
    """fsspec's memory and its local files."""
    faulty.FaultyFileSystem.store.clear()
    faulty.Gate.reset()
    place = tmp_path if kind == "faultyfolder" else "place"
    run(SPEC, f"{kind}://{place}/quiet", workers=0)
    injected = 0
    for call in range(1, faulty.Gate.calls + 1, max(1, round(1 / faulty.scaled(100) * 100))):
        out = f"{kind}://{place}/call-{call}"
        _files.cache_clear()

        def fails(n: int, method: str, call: int = call) -> OSError | None:
            return faulty.error(number) if n == call or (lasting and n > call) else None

        faulty.Gate.reset(fails)
        said = attempt(out)
        injected += faulty.Gate.injected
        faulty.Gate.reset()
        _files.cache_clear()
        complete(out, whole, said)
        mended(out, whole)
    where = "fsspec's memory" if kind == "faulty" else "fsspec's local files"
    count(f"{os.strerror(number)} from {where}", injected)


class Disk:
    """Makes the nth file operation of this process under a folder fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root, self.calls, self.fail_at, self.lasting, self.number = str(root), 0, 0, False, 0
        self.injected = 0
        for module, name in ((os, "fsync"), (os, "replace"), (os, "open"), (builtins, "open")):
            monkeypatch.setattr(module, name, self._guarded(getattr(module, name), name))

    def _guarded(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            concerns = name == "fsync" or str(arguments[0]).startswith(self.root)
            if concerns:
                self.calls += 1
                if self.fail_at and (self.calls == self.fail_at or (self.lasting and self.calls > self.fail_at)):
                    self.injected += 1
                    raise OSError(self.number, os.strerror(self.number))
            return call(*arguments, **options)

        return guarded

    def arm(self, fail_at: int, lasting: bool, number: int) -> None:
        self.calls, self.fail_at, self.lasting, self.number = 0, fail_at, lasting, number


@pytest.mark.parametrize("number", [faulty.FULL, faulty.BROKEN])
@pytest.mark.parametrize("lasting", [False, True])
def test_every_operation_on_a_disk_fails_once(
    number: int, lasting: bool, tmp_path: Path, whole: pd.DataFrame, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    disk.arm(0, False, number)
    run(SPEC, tmp_path / "quiet", workers=0)
    for call in range(1, disk.calls + 1):
        out = tmp_path / f"call-{call}"
        disk.arm(call, lasting, number)
        said = attempt(out)
        disk.arm(0, False, number)
        complete(out, whole, said)
        mended(out, whole)
        assert not list(out.glob("**/.*.tmp"))
    count(f"{os.strerror(number)} from a disk", disk.injected)


def test_a_disk_that_fills_up_at_any_size(tmp_path: Path, whole: pd.DataFrame, count: Count) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    sizes = range(8, 121, 8)
    filled = 0
    for size in sizes:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(small)]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("cannot mount a small file system here")
        try:
            said = attempt(small / "run")
            filled += "No space left on device" in said
            subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
            mended(small / "run", whole)
        finally:
            subprocess.run(["umount", str(small)], check=True)
    assert filled >= 3
    count("file systems that filled up (tmpfs)", filled)


def test_a_reader_is_told_when_its_place_cannot_be_read(whole: pd.DataFrame, count: Count) -> None:
    run(SPEC, "faulty://reader/run", workers=0)
    faulty.Gate.reset()
    load_run("faulty://reader/run").scores()
    injected = 0
    for call in range(1, faulty.Gate.calls + 1):
        faulty.Gate.reset(lambda n, method, call=call: faulty.error(faulty.BROKEN) if n >= call else None)
        with pytest.raises(KaratError, match="cannot read"):
            load_run("faulty://reader/run").scores()
        injected += faulty.Gate.injected
    faulty.Gate.reset()
    pd.testing.assert_frame_equal(load_run("faulty://reader/run").scores(), whole, check_exact=True)
    count("Input/output error while a run is read", injected)

"""Run files cut short or with a bit flipped, clocks that jump, two writers: no trusted row is wrong, none is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import toys
import yaml
from faulty import complaint, scaled

from karat.engine.run import run
from karat.engine.status import status, why
from karat.kernel.finding import Finding
from karat.kernel.spec import Spec
from karat.protocols.localization import Localization
from karat.report import report
from karat.results import load_run
from karat.results.record import record
from karat.results.run import Run


@dataclass(frozen=True)
class Concludes(Localization):
    """Protocol `localization`, with a number that a reader would believe."""

    card = Localization.card

    def findings(self, run: Run) -> Sequence[Finding]:
        mean = float(run.scores()["value"].mean())
        return [Finding("The mean", "of all rows", (f"It is {mean:.4f}.",), ("mean",), ((mean,),))]


SPEC = Spec.parse(toys.spec())
CONCLUDING = Spec.parse(toys.spec(protocol=f"{__name__}:Concludes"))
Count = Callable[[str, int], None]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    out = tmp_path_factory.mktemp("finished") / "run"
    return out, run(SPEC, out, workers=0).scores()


@pytest.fixture(scope="module")
def concluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(run(CONCLUDING, tmp_path_factory.mktemp("concluded") / "run", workers=0).path)


def damage(path: Path, kind: str, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if kind == "truncated":
        del data[chance.randrange(len(data)) :]
    elif kind == "bit flipped":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    else:
        at = chance.randrange(len(data))
        data[at : at + 64] = chance.randbytes(min(64, len(data) - at))
    path.write_bytes(data)


def looked_at(out: Path, original: Run) -> None:
    """Everything a user may ask of a run: the truth, or one line."""
    if not complaint(lambda: load_run(out).scores()):
        pd.testing.assert_frame_equal(load_run(out).scores(), original.scores(), check_exact=True)
    if not complaint(lambda: load_run(out).findings()) and (out / "findings.json").exists():
        assert load_run(out).findings() == original.findings()
    for ask in (lambda: status(out), lambda: why(out, "0")):
        complaint(ask)


def some_damage(kind: str, original: Path, tmp_path: Path, times: int, then: Callable[[Path, Path], None]) -> set[str]:
    """Copies of a run, one file of each damaged; what was damaged, by the first part of its name."""
    chance = random.Random(kind)
    names = sorted(p.relative_to(original) for p in original.rglob("*") if p.is_file() and p.stat().st_size)
    for i in range(times):
        out, name = tmp_path / f"run-{i}", names[i % len(names)]
        shutil.copytree(original, out)
        damage(out / name, kind, chance)
        then(out, name)
        shutil.rmtree(out)
    return {name.parts[0] for name in names}


KINDS = pytest.mark.parametrize("kind", ["truncated", "bit flipped", "overwritten"])


@KINDS
def test_damaged_files(kind: str, concluded: Path, tmp_path: Path, count: Count) -> None:
    whole = load_run(concluded)

    def then(out: Path, name: Path) -> None:
        looked_at(out, whole)
        mended = run(CONCLUDING, out, workers=0)
        pd.testing.assert_frame_equal(mended.scores(), whole.scores(), check_exact=True)
        assert mended.findings() == whole.findings()

    times = scaled(300)
    assert some_damage(kind, concluded, tmp_path, times, then) >= {
        "scores", "attributions", "manifest.json", "spec.json", "findings.json", "events.jsonl",
    }  # fmt: skip
    count(f"run files {kind}", times)


@KINDS
def test_damaged_records(kind: str, concluded: Path, tmp_path: Path, count: Count) -> None:
    kept = record(load_run(concluded), tmp_path / "record")
    assert kept.scores()["value"].equals(load_run(concluded).scores()["value"])  # to the last bit

    def then(out: Path, name: Path) -> None:
        looked_at(out, kept)
        if name.name == "scores.parquet":
            assert "was altered after it was recorded" in complaint(lambda: load_run(out).scores())
            assert load_run(out).damaged() == ["scores.parquet"]

    times = scaled(100)
    some_damage(kind, tmp_path / "record", tmp_path, times, then)
    count(f"record files {kind}", times)


def test_a_flipped_digit_of_a_finding_is_said(concluded: Path, tmp_path: Path) -> None:
    shutil.copytree(concluded, tmp_path / "run")
    path = tmp_path / "run" / "findings.json"
    [finding] = load_run(concluded).findings()
    path.write_text(path.read_text().replace(finding.sentences[0], "It is 0.9999."))
    assert "findings.json was altered" in complaint(lambda: load_run(tmp_path / "run").findings())
    assert "findings.json was altered" in complaint(lambda: report([tmp_path / "run"], tmp_path / "page"))
    path.write_text(json.dumps([finding.plain()]))  # as they were written before they were sealed
    assert load_run(tmp_path / "run").findings() == [finding]


def test_clocks_that_jump(
    tmp_path: Path, finished: tuple[Path, pd.DataFrame], count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = finished
    chance = random.Random(0)
    jumps = [0]
    real = time.time

    def jumpy() -> float:
        jumps[0] += 1
        return real() + chance.choice([-1, 1]) * chance.uniform(0, 10 * 365 * 86400)

    monkeypatch.setattr(time, "time", jumpy)
    for i in range(scaled(20)):
        out = tmp_path / f"run-{i}"
        done = run(SPEC, out, workers=0)
        pd.testing.assert_frame_equal(done.scores(), whole, check_exact=True)
        assert all(e["seconds"] >= 0 for e in done.events() if "seconds" in e)
    count("clock jumps of up to ten years", jumps[0])


def test_two_writers(tmp_path: Path, finished: tuple[Path, pd.DataFrame], count: Count) -> None:
    _, whole = finished
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(toys.spec()))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pairs = scaled(10)
    for i in range(pairs):
        out = tmp_path / f"run-{i}"
        code = "from karat.cli.main import main; main()"
        command = [sys.executable, "-c", code, "run", str(spec), "--out", str(out), "--workers", "0"]
        both = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [writer.communicate(timeout=600)[1] for writer in both]
        codes = sorted(writer.returncode for writer in both)
        assert codes in ([0, 0], [0, 2]), said  # one after the other, or one refused
        if codes == [0, 2]:
            assert any("is being written by" in text for text in said)
        assert not any("Traceback" in text for text in said)
        pd.testing.assert_frame_equal(load_run(out).scores(), whole, check_exact=True)
    count("pairs of writers", pairs)


def test_two_writers_without_a_lease_write_the_same_files(
    tmp_path: Path, finished: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a lease ever fail (an object store has no locks), both compute the same shards."""
    original, whole = finished
    from contextlib import nullcontext

    monkeypatch.setattr("karat.results.store.Store.lease", lambda self: nullcontext())
    run(SPEC, tmp_path / "run", workers=0)
    for path in (tmp_path / "run" / "scores").iterdir():
        path.unlink()  # as if the second writer had looked before the first had written
    run(SPEC, tmp_path / "run", workers=0)
    assert {p.name for p in (tmp_path / "run" / "scores").iterdir()} == {
        p.name for p in (original / "scores").iterdir()
    }
    pd.testing.assert_frame_equal(load_run(tmp_path / "run").scores(), whole, check_exact=True)

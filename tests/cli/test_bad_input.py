"""Bad input: one clear line, exit code 2, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import toys
import yaml

from karat.results import load_run


def karat(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "karat", *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=120)


def refused(result: subprocess.CompletedProcess[str], says: str) -> None:
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(toys.spec()))
    return path


def test_unknown_names(tmp_path: Path, spec: Path) -> None:
    refused(karat("run", "grid-quik"), "Did you mean 'grid-quick'")
    refused(karat("run", tmp_path / "none.yaml"), "no spec at")
    refused(karat("run", spec, "--set", "explainers=[control/randm]", "--out", tmp_path / "r"), "control/random")
    refused(karat("ls", "explainrs"), "Did you mean 'explainers'")
    assert not (tmp_path / "r").exists()


def test_wrong_values(tmp_path: Path, spec: Path) -> None:
    refused(karat("run", spec, "--set", "seed=x"), "seed")
    refused(karat("run", spec, "--engine", "moon"), "--engine moon")
    refused(karat("run", spec, "--progress", "loud"), "--progress takes")
    refused(karat("run", spec, "--fail-on-error", "7"), "between 0 and 1")
    refused(karat("run", spec, "--out", "/proc/none"), "cannot write")
    refused(karat("run", spec, "--workers", "-2", "--out", tmp_path / "r"), "--workers")
    refused(karat("run", spec, "--workers", "-2", "--dry-run"), "--workers")
    refused(karat("run", spec, "--workers", "0", "--engine", "ray", "--out", tmp_path / "r"), "say 1 or more")


def test_runs_that_are_none(tmp_path: Path) -> None:
    refused(karat("status", tmp_path), "not a run directory")
    refused(karat("status", cwd=tmp_path), "no run under runs/")
    refused(karat("why", "abc", "--run", tmp_path), "not a run directory")


def test_a_truncated_shard_is_named_with_its_remedy(tmp_path: Path, spec: Path) -> None:
    assert karat("run", spec, "--out", tmp_path / "r", "--workers", 0).returncode == 0
    shard = next((tmp_path / "r" / "scores").iterdir())
    shard.write_bytes(shard.read_bytes()[:100])
    refused(karat("report", tmp_path / "r", "-o", tmp_path / "page"), "damaged")
    again = karat("run", spec, "--out", tmp_path / "r", "--workers", 0)
    assert again.returncode == 0
    assert "was damaged; its cells are computed again" in again.stderr
    assert len(load_run(tmp_path / "r").scores()) == 100


def test_a_full_disk_loses_nothing(tmp_path: Path, spec: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small file system here")
    try:
        many = ["--set", "datasets=[{name: 'toys:Squares', n: 400}]"]
        refused(karat("run", spec, "--out", small / "r", "--workers", 0, "--progress", "none", *many), "No space left")
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        assert karat("run", spec, "--out", small / "r", "--workers", 0, *many).returncode == 0
        assert len(load_run(small / "r").scores()) == 400 * 2 * 5
    finally:
        subprocess.run(["umount", small], check=True)


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    maps, masks = tmp_path / "maps.npy", tmp_path / "masks.npy"
    np.save(maps, np.ones((2, 4, 4)))
    refused(karat("score", "--maps", maps, "--masks", masks), "no file at")
    np.save(masks, np.ones((3, 4, 4), bool))
    refused(karat("score", "--maps", maps, "--masks", masks), "one mask per map; got 2 maps and 3 masks")
    np.save(masks, np.array([{}]), allow_pickle=True)
    refused(karat("score", "--maps", maps, "--masks", masks), "not a plain .npy array")
    maps.write_bytes(maps.read_bytes()[:50])
    refused(karat("score", "--maps", maps, "--masks", masks), "not a plain .npy array")


def test_scores_of_saved_arrays_say_what_was_not_scored(tmp_path: Path) -> None:
    maps, masks = np.ones((4, 4, 4)), np.zeros((4, 8, 8), bool)
    maps[1], maps[2, 0, 0] = 0, np.nan
    masks[:3, :4] = True
    np.save(tmp_path / "maps.npy", maps)
    np.save(tmp_path / "masks.npy", masks)
    out = tmp_path / "rows.csv"
    told = karat("score", "--maps", tmp_path / "maps.npy", "--masks", tmp_path / "masks.npy", "--out", out,
                 "--metric", "localization/relevance_mass")  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "0.5000 ± 0.0000\t1 of 4" in told.stdout
    assert "all zero" in told.stdout
    assert "NaN" in told.stdout
    assert "empty" in told.stdout
    assert len(out.read_text().splitlines()) == 5


def test_help_and_ls_leave_slow_libraries_alone() -> None:
    code = (
        "import sys, karat.cli.main; from karat.kernel.registry import KINDS, registered; "
        "[registered(k) for k in KINDS]; assert not {'torch', 'scipy.stats', 'pandas'} & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).returncode == 0

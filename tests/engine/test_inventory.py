"""What a machine has, read from files that a test wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from karat.engine import inventory
from karat.engine.inventory import free_bytes, group_bytes

MB = 2**20


def group(folder: Path, limit: str, used: int, files: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon {used - files}\ninactive_file {files}\n")


def test_a_container_has_what_its_groups_leave(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/pod/worker\n")
    root = tmp_path / "groups"
    assert group_bytes(root, own) is None  # no groups
    group(root / "pod", "max", 100 * MB)
    group(root / "pod/worker", str(800 * MB), 300 * MB, files=120 * MB)
    assert group_bytes(root, own) == 620 * MB  # pages of files can be had back
    group(root / "pod", str(500 * MB), 400 * MB)
    assert group_bytes(root, own) == 100 * MB  # the pod is nearly full
    group(root / "pod", str(300 * MB), 400 * MB)
    assert group_bytes(root, own) == 0
    own.write_text("3:memory:/old\n")  # groups of the first version say nothing here
    group(root, str(50 * MB), 10 * MB)
    assert group_bytes(root, own) == 40 * MB  # as a container sees its own group


def test_the_smaller_of_machine_and_container_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "_machine_bytes", lambda: 64 * MB)
    for left, expected in ((None, 64 * MB), (16 * MB, 16 * MB), (128 * MB, 64 * MB)):
        monkeypatch.setattr(inventory, "group_bytes", lambda left=left: left)
        assert free_bytes() == expected
    monkeypatch.setattr(inventory, "_machine_bytes", lambda: None)
    monkeypatch.setattr(inventory, "group_bytes", lambda: None)
    assert free_bytes() is None

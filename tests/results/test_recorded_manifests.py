"""Records travel with the package, so they name no folder of the machine that made them."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

RECORDS = sorted(Path(str(files("karat") / "recorded")).glob("*/manifest.json"))


def texts(value: Any) -> list[str]:
    """All strings inside plain data."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts(each)]


def absolute(data: Any) -> list[str]:
    """Words of plain data that are paths from the root of a machine."""
    words = [word for text in texts(data) for word in text.split()]
    return [word for word in words if PurePosixPath(word).is_absolute() and len(PurePosixPath(word).parts) > 2]


def test_paths_are_seen() -> None:
    assert absolute({"command": "karat run /home/me/spec.yaml", "about": "yes / no"}) == ["/home/me/spec.yaml"]


@pytest.mark.parametrize("manifest", RECORDS, ids=lambda path: path.parent.name)
def test_a_record_names_no_folder(manifest: Path) -> None:
    for name in ("manifest.json", "spec.json"):
        assert absolute(json.loads(manifest.with_name(name).read_text("utf-8"))) == []

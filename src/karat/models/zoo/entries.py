"""Entries of the zoo, from the YAML files beside this module and those that `KARAT_ZOO` names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from karat.kernel.errors import BadInput

HERE = Path(__file__).parent
TASKS = ("classification", "detection", "matching")


@dataclass(frozen=True)
class Entry:
    """One model.

    `model` and `parameters` are what a spec would say: a registered recipe and its fields. `input` is the side of what
    the model sees in pixels, `grid` (rows, columns) what the layer that CAMs read has over it, `tables` the tables of
    semscore2025 the model stands in, `fetch` where its weights are.
    """

    name: str
    about: str
    task: str
    model: str
    input: int
    grid: tuple[int, int]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[int, ...] = ()
    fetch: tuple[str, ...] = ()


def entries(file: str | None = None) -> dict[str, Entry]:
    """Entries by name: the shipped ones, then those of the files in `KARAT_ZOO` (separated by the path separator), then
    those of `file`; a later one of the same name wins."""
    files = [*sorted(HERE.glob("*.yaml")), *(Path(p) for p in os.environ.get("KARAT_ZOO", "").split(os.pathsep) if p)]
    if file is not None:
        files.append(Path(file))
    by_name: dict[str, Entry] = {}
    for path in files:
        by_name |= read(path, path.stat().st_mtime_ns if path.is_file() else 0)
    return by_name


@cache
def read(path: Path, changed: int = 0) -> dict[str, Entry]:
    """The entries of one file. `changed` tells versions of the same file apart."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        raise BadInput(f"no zoo file at {path}.") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(data, Mapping):
        raise BadInput(f"{path} must map names to entries; it holds a {type(data).__name__}.")
    return {str(name): _entry(path, str(name), fields) for name, fields in data.items()}


def _entry(path: Path, name: str, fields: Any) -> Entry:
    needed = {"about", "task", "model", "input", "grid"}
    known = needed | {"parameters", "tables", "fetch"}
    if not isinstance(fields, Mapping) or needed - set(fields) or set(fields) - known:
        got = sorted(fields) if isinstance(fields, Mapping) else type(fields).__name__
        raise BadInput(
            f"{path}: {name} needs {', '.join(sorted(needed))} and may have {', '.join(known - needed)}; {got}."
        )
    if fields["task"] not in TASKS:
        raise BadInput(f"{path}: {name}: task is one of {', '.join(TASKS)}; got {fields['task']!r}.")
    rows, columns = fields["grid"]
    fetch = fields.get("fetch", ())
    return Entry(
        name,
        str(fields["about"]),
        str(fields["task"]),
        str(fields["model"]),
        int(fields["input"]),
        (int(rows), int(columns)),
        dict(fields.get("parameters", {})),
        tuple(int(table) for table in fields.get("tables", ())),
        (str(fetch),) if isinstance(fetch, str) else tuple(str(one) for one in fetch),
    )

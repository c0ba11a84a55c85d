"""What verbs share: tables that fit a terminal and stay plain in a pipe, and finding specs and runs by short names."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from karat.kernel.errors import BadInput, UnknownName

SPECS = Path(__file__).parent.parent / "specs"
RUNS = Path("runs")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table: boxed on a terminal, tab-separated in a pipe so that cut and awk work."""
    if not sys.stdout.isatty():
        print("\t".join(columns))
        for row in rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(value) for value in row))
    Console().print(table)


def shipped_specs() -> dict[str, Path]:
    """By name: `grid-quick`, and `papers/001-synergy` for a paper's experiment at full scale."""
    return {str(path.relative_to(SPECS).with_suffix("")): path for path in sorted(SPECS.rglob("*.yaml"))}


def spec_path(spec: str) -> Path:
    """A file, or the name of a spec that ships with Karat."""
    path = Path(spec)
    if path.is_file() or path.suffix in (".yaml", ".yml", ".json"):
        return path
    known = shipped_specs()
    if spec not in known:
        raise UnknownName("spec", spec, known)
    return known[spec]


def run_path(run: Path | None) -> Path:
    """The run that was named, or the newest one under runs/."""
    if run is not None:
        return run
    manifests = sorted(RUNS.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
    if not manifests:
        raise BadInput("no run under runs/ yet: name a run directory, or make one with `karat run SPEC`.")
    return manifests[-1].parent


class Bar:
    """`progress(done, total)` as a bar on a terminal and as a line every few seconds in a pipe."""

    def __init__(self, what: str) -> None:
        self.what, self.total, self.last = what, 0, 0.0
        self.line = ""
        self.live: Any = None

    def __enter__(self) -> Bar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.live = Progress(*columns, console=Console(stderr=True))
            self.live.start()
            self.task = self.live.add_task(self.what, total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def __call__(self, done: int, total: int) -> None:
        if self.live is not None:
            self.live.update(self.task, completed=done, total=total)
        elif time.monotonic() - self.last > 5 and (line := f"{self.what}: {done} of {total}") != self.line:
            self.last, self.line = time.monotonic(), line
            print(line, file=sys.stderr)

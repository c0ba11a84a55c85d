"""`karat status`: how far a run is, what failed and why."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli.console import print_table, run_path


def status(
    run: Annotated[
        str | None, typer.Argument(help="A run directory or URL; the newest under runs/ if not given.")
    ] = None,
) -> None:
    """Show how far a run is, which cells are missing and which reasons rows failed for."""
    from karat.engine.status import status as look

    seen = look(run or run_path(None))
    rows = [
        ["run", str(seen.path)],
        ["cells done", f"{seen.cells_done} of {seen.cells}"],
        ["missing cells", ", ".join(seen.missing[:5]) + (" ..." if len(seen.missing) > 5 else "") or "none"],
        ["rows", f"{seen.rows:,}"],
        ["failures", f"{seen.failures:,}"],
        ["not applicable", f"{seen.not_applicable:,}"],
        ["being written", f"by {seen.writer}" if seen.writer else "no"],
        ["damaged shards", ", ".join(seen.damaged) or "none"],
        ["last event", seen.last_event or "-"],
    ]
    print_table(["what", "state"], rows)
    if seen.reasons:
        print_table(
            ["rows", "reason"],
            [[f"{count:,}", reason] for reason, count in seen.reasons],
            title="why rows have no value",
        )

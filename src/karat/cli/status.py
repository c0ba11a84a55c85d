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

    state = look(run or run_path(None))
    rows = [
        ["run", str(state.path)],
        ["cells done", f"{state.cells_done} of {state.cells}"],
        ["missing cells", ", ".join(state.missing[:5]) + (" ..." if len(state.missing) > 5 else "") or "none"],
        ["rows", f"{state.rows:,}"],
        ["failures", f"{state.failures:,}"],
        ["not applicable", f"{state.not_applicable:,}"],
        ["being written", f"by {state.writer}" if state.writer else "no"],
        ["damaged shards", ", ".join(state.damaged) or "none"],
        ["last event", state.last_event or "-"],
    ]
    print_table(["what", "state"], rows)
    if state.reasons:
        print_table(
            ["rows", "reason"],
            [[f"{count:,}", reason] for reason, count in state.reasons],
            title="why rows have no value",
        )

"""`karat why`: which field made a cell run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import print_table, run_path


def why(
    cell: Annotated[str, typer.Argument(help="A cell id or its first characters.")],
    run: Annotated[
        Path | None, typer.Option("--run", help="The run directory; the newest under runs/ if not given.")
    ] = None,
) -> None:
    """Say why a cell has to run, field by field, against the nearest cell on disk."""
    from karat.engine.status import why as explain

    answer = explain(run_path(run), cell)
    typer.echo(f"{answer.cell.id}: {answer.cell.title}")
    if answer.done:
        typer.echo("done: its rows are on disk, nothing will run.")
    elif answer.nearest is None:
        typer.echo("missing: the run holds no cell yet.")
    else:
        typer.echo(f"missing: it differs from {answer.nearest} on disk in")
        print_table(
            ["field", "on disk", "now"], [[field, str(old), str(new)] for field, old, new in answer.differences]
        )

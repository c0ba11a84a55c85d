"""`karat export`: a run's tables and rows for other places."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.kernel.errors import BadInput


def export(
    runs: Annotated[list[str], typer.Argument(help="Run directories or fsspec URLs.")],
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="The leaderboards as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="The leaderboards as Parquet.")] = None,
    latex: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tables for a paper: intervals, bold what is not told apart.")
    ] = None,
    hub: Annotated[
        Path | None, typer.Option(metavar="DIR", help="All rows as a dataset to push, with card and Croissant.")
    ] = None,
) -> None:
    """Take a run elsewhere: tables as CSV, Parquet or LaTeX, or all rows as a dataset.

    Example: `karat export runs/grid-quick --latex tables.tex --hub dataset`
    """
    files = [path for path in (csv, parquet, latex, hub) if path is not None]
    if not files:
        raise BadInput("say what to write: --csv FILE, --parquet FILE, --latex FILE, --hub DIR, or several.")
    if hub is not None and len(runs) > 1:
        raise BadInput("--hub writes the rows of one run: give each its own folder.")
    for path, suffix in ((csv, ".csv"), (parquet, ".parquet")):
        if path is not None and path.suffix != suffix:
            raise BadInput(f"--{suffix[1:]} writes a file that ends in {suffix}; got {path.name}.")
    from karat.report import export as elsewhere
    from karat.results.export import write_file, write_frame

    if csv or parquet or latex:
        table = elsewhere.leaderboard(runs)
        for path in (csv, parquet):
            if path is not None:
                write_frame(table, path)
        if latex is not None:
            write_file(elsewhere.latex(table).encode(), latex)
    if hub is not None:
        elsewhere.hub(runs[0], hub)
    for path in files:
        typer.echo(str(path))

"""`karat report`: one or more runs as a static page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import run_path


def report(
    runs: Annotated[list[str] | None, typer.Argument(help="Runs, directories or URLs; the newest if none.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the page goes; RUN/report, or report/ for a URL.")
    ] = None,
    single_file: Annotated[bool, typer.Option("--single-file", help="All in one index.html: for small runs.")] = False,
) -> None:
    """Write a page that opens without a server: verdicts, leaderboards, slices and every sample with its heatmaps.

    Example: `karat report runs/grid-quick -o page && xdg-open page/index.html`
    """
    from karat.report import report as write_page

    chosen = runs or [str(run_path(None))]
    beside = Path("report") if "://" in chosen[0] else Path(chosen[0], "report")
    page = write_page(chosen, out or beside, single_file=single_file)
    typer.echo(page.resolve().as_uri())

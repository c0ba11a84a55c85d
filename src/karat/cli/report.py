"""`karat report`: one or more runs as a static page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import run_path
from karat.kernel.errors import BadInput


def report(
    runs: Annotated[list[str] | None, typer.Argument(help="Runs, directories or URLs; the newest if none.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the page goes; RUN/report, or report/ for a URL.")
    ] = None,
    pictures: Annotated[
        str, typer.Option(metavar="N|all", help="Samples whose pictures and maps the page holds.")
    ] = "2048",
    space: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a folder to push as a static Space, instead.")
    ] = None,
    single_file: Annotated[bool, typer.Option("--single-file", help="All in one index.html: for small runs.")] = False,
) -> None:
    """Write a page that opens without a server: verdicts, leaderboards, slices and every sample with its heatmaps.

    Example: `karat report runs/grid-quick -o page && xdg-open page/index.html`
    """
    from karat.report import report as write_page

    if pictures != "all" and not pictures.isdigit():
        raise BadInput(f"--pictures is a number of samples, or all; got {pictures!r}.")
    chosen = runs or [str(run_path(None))]
    beside = Path("report") if "://" in chosen[0] else Path(chosen[0], "report")
    if space is not None:
        from karat.report.export import space as write_space

        page = write_space(chosen, space)
    else:
        most = None if pictures == "all" else int(pictures)
        page = write_page(chosen, out or beside, single_file=single_file, pictures=most)
    typer.echo(page.resolve().as_uri())

"""`karat view`: the page of a run, while it goes on."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli.console import run_path
from karat.kernel.errors import BadInput


def view(
    runs: Annotated[list[str] | None, typer.Argument(help="Run directories; the newest under runs/ if none.")] = None,
    port: Annotated[int, typer.Option(help="Where to listen on this computer; 0 takes any free port.")] = 8765,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show the page of a run and keep it fresh while the run goes on. Only this computer can see it; Ctrl-C ends it.

    Example: `karat view runs/grid-quick --open`
    """
    from karat.report.serve import view as serve

    if far := [run for run in runs or () if "://" in run]:
        raise BadInput(f"view follows runs on this computer; for {far[0]} make a page: `karat report {far[0]}`.")

    def ready(address: str) -> None:
        typer.echo(f"{address}  (Ctrl-C ends it)")
        if browse:
            import webbrowser

            webbrowser.open(address)

    try:
        serve(runs or [str(run_path(None))], port, ready)
    except KeyboardInterrupt:
        typer.echo("stopped.", err=True)

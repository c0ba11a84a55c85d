"""`karat demo`: the main job, start to page, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import RUNS, spec_path

SPECS = ("grid-quick", "audit-quick", "pixel-quick")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the runs and the page go.")] = RUNS / "demo",
    workers: Annotated[int | None, typer.Option(help="Worker processes; the number of cores if not given.")] = None,
) -> None:
    """Put explainers to two twins, one that reasons and one that takes a shortcut; audit the metrics; make the page."""
    from karat.engine.events import renderer
    from karat.engine.run import run
    from karat.kernel.spec import Spec
    from karat.report import report

    runs = []
    for name in SPECS:
        spec = Spec.read(spec_path(name))
        typer.echo(f"{name}: {spec.about}", err=True)
        runs.append(run(spec, out / name, workers=workers, show=renderer()).path)
    typer.echo(f"The runs: {', '.join(str(path) for path in runs)} (`karat status RUN` says how they went)")
    page = report(runs, out / "report")
    typer.echo(f"The page: {page.resolve().as_uri()}")

"""`karat demo`: the main job, start to page, in about two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import RUNS, spec_path

# Seconds on two cores, of explaining and of what follows (findings, starting workers, the page): what the time left is
# told by. The recorded logs in tests/engine/recorded_progress hold them to account.
SPECS = {
    "lineup-quick": (22.0, 9.0),
    "grid-quick": (11.0, 8.0),
    "audit-quick": (26.0, 10.0),
    "pixel-quick": (41.0, 16.0),
}


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the runs and the page go.")] = RUNS / "demo",
    workers: Annotated[int | None, typer.Option(help="Worker processes; the number of cores if not given.")] = None,
) -> None:
    """Put explainers to five models that answer about photographs by five rules, and to two twins, one that reasons and
    one that takes a shortcut; audit the metrics; make the page.

    The same command again resumes where it was stopped, and makes the page anew.
    """
    from karat.engine.events import renderer
    from karat.engine.plan import plan
    from karat.engine.run import run
    from karat.engine.stages import Stage, Stages
    from karat.kernel.spec import Spec
    from karat.report import report
    from karat.results.run import Run
    from karat.results.store import Store

    specs = [Spec.read(spec_path(name)) for name in SPECS]
    stages = []
    for spec, seconds in zip(specs, SPECS.values(), strict=True):
        cells = plan(spec).cells
        finished = Run(Store(out / spec.name)).cells()
        done = sum(cell.stop - cell.start for cell in cells if cell.id in finished)
        stages.append(Stage(spec.name, sum(cell.stop - cell.start for cell in cells), done, *seconds))
    with renderer() as show:
        whole = Stages(show, "demo", stages)
        runs = []
        for spec in specs:
            whole.next(spec.about)
            runs.append(run(spec, out / spec.name, workers=workers, show=whole).path)
        whole.end("making the page")
        page = report(runs, out / "report")
    typer.echo(f"The runs: {', '.join(str(path) for path in runs)} (`karat status RUN` says how they went)")
    typer.echo(f"The page: {page.resolve().as_uri()}")

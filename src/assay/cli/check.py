"""`assay check`: is this spec sound? Validates names, parameters and compatibility without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import RUNS, spec_path
from assay.cli.run import show_plan


def check(spec: Annotated[str, typer.Argument(help="A YAML file, or the name of a shipped spec.")]) -> None:
    """Validate a spec without running it: every name, every parameter, every model–explainer pair."""
    from assay.engine.plan import plan
    from assay.kernel.spec import Spec

    wanted = Spec.read(spec_path(spec))
    show_plan(plan(wanted), Path(RUNS / wanted.name))
    typer.echo(f"{spec} is sound.")

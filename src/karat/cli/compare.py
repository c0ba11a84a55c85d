"""`karat compare`: what changed between two runs; an exit code for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import print_table
from karat.kernel.errors import BadInput


def compare(
    before: Annotated[str, typer.Argument(help="The run to compare with: a directory or an fsspec URL.")],
    after: Annotated[str, typer.Argument(help="The run that may be worse.")],
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="Exit 1 where a score is worse beyond chance, or rows fail anew.")
    ] = False,
    level: Annotated[float, typer.Option(help="Largest corrected p that counts as a difference.")] = 0.05,
    tolerance: Annotated[float, typer.Option(help="Differences of means up to this are nobody's concern.")] = 1e-3,
    everything: Annotated[bool, typer.Option("--all", help="Show also what has not changed, and controls.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write all rows to a .csv or .parquet file.")] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML: a test for each score, failed where worse.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the verdict and the table as Markdown.")
    ] = None,
) -> None:
    """Compare two runs sample by sample: which scores differ beyond chance, and what was set differently.

    Example: `karat compare runs/main runs/branch --fail-if-worse --junit compare.xml`
    """
    files = [path for path in (out, junit, markdown) if path is not None]
    _refuse_files(files)
    from karat.report import comparison_table as table
    from karat.report.compare import compare as put_side_by_side

    compared = put_side_by_side(before, after, level=level, tolerance=tolerance)
    if out is not None:
        import pandas as pd

        from karat.results.export import write_frame

        write_frame(pd.DataFrame([vars(change) for change in compared.changes]), out)
    if junit is not None:
        from karat.report.comparison_junit import junit as junit_of
        from karat.results.export import write_file

        write_file(junit_of(compared), junit)
    if markdown is not None:
        from karat.results.export import write_file

        write_file(table.markdown(compared, everything).encode(), markdown)
    changes = table.listed_changes(compared, everything)
    if changes:
        titles = table.columns(changes)
        print_table(titles, [table.cells(change, titles) for change in changes], title=f"{before} → {after}")
    if compared.settings:
        print_table(["set differently", "before", "after"], table.settings(compared))
    typer.echo(table.counts(compared), err=True)
    for places, run in ((compared.only_before, before), (compared.only_after, after)):
        if places:
            typer.echo(f"{len(places):,} only in {run}, the first: {' · '.join(places[0])}", err=True)
    if fail_if_worse and compared.worse:
        raise typer.Exit(1)


def _refuse_files(files: list[Path]) -> None:
    """Before any work: files that cannot be written, or would overwrite each other."""
    for path in files:
        if path.is_dir():
            raise BadInput(f"{path} is a folder; name a file in it.")
    if len({path.absolute() for path in files}) < len(files):
        raise BadInput("--out, --junit and --markdown name one and the same file; give each its own.")

"""`karat compare`: what changed between two runs; an exit code for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karat.cli.console import print_table

if TYPE_CHECKING:
    from karat.report.compare import Change

_COLUMNS = ["", "explainer", "score", "model", "before", "after", "difference", "95 % interval", "p (Holm)", "pairs"]


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
) -> None:
    """Compare two runs sample by sample: which scores differ beyond chance, and what was set differently.

    Example: `karat compare runs/main runs/branch --fail-if-worse`
    """
    from karat.report.compare import compare as put_side_by_side

    found = put_side_by_side(before, after, level=level, tolerance=tolerance)
    if out is not None:
        import pandas as pd

        from karat.results.export import write_frame

        write_frame(pd.DataFrame([vars(change) for change in found.changes]), out)
    shown = [c for c in found.changes if everything or c.lost or c.judgement in ("worse", "better", "changed")]
    if shown:
        print_table(_COLUMNS, [_row(change) for change in shown], title=f"{before} → {after}")
    if found.settings:
        print_table(["set differently", "before", "after"], [[_short(v) for v in row] for row in found.settings])
    counts = [
        f"{len(found.of('worse'))} worse", f"{len(found.of('better'))} better", f"{len(found.of('changed'))} changed",
        f"{len(found.of('no difference shown'))} with no difference shown",
    ]  # fmt: skip
    typer.echo(f"{len(found.changes):,} comparisons: {', '.join(counts)}.", err=True)
    for only, where in ((found.only_before, before), (found.only_after, after)):
        if only:
            typer.echo(f"{len(only):,} only in {where}, the first: {only[0]}", err=True)
    if fail_if_worse and found.worse:
        raise typer.Exit(1)


def _row(change: Change) -> list[str]:
    lost = f" ({change.lost} rows fail now)" if change.lost else ""
    interval = f"{change.low:+.4g} to {change.high:+.4g}" if change.low == change.low else "-"
    return [
        f"{change.judgement}{lost}", change.explainer, change.metric, change.model, _number(change.before),
        _number(change.after), _number(change.difference, "+.4g"), interval, _number(change.p, ".2g"),
        str(change.pairs),
    ]  # fmt: skip


def _number(value: float, form: str = ".4g") -> str:
    return f"{value:{form}}" if value == value else "-"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."

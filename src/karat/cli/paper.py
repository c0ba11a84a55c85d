"""`karat paper`: a paper's claims beside a run's numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli.console import print_table


def paper(
    number: Annotated[str, typer.Argument(help="000 grid, 001 synergy, 002 compass, 003 semantic, 004 pixel.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Runs of that protocol, read as one; the run recorded with Karat if none is given."
        ),
    ] = None,
    tables: Annotated[bool, typer.Option(help="Print the paper's tables beside the run's as well.")] = True,
) -> None:
    """Set what a paper claims beside what runs show: agree, disagree or cannot tell, claim by claim.

    Example: `karat paper 000 runs/grid-full runs/grid-interactions`
    """
    from karat.protocols.paper import paper as compare

    comparison = compare(number, *(runs or ()))
    print_table(
        ["verdict", "claim", "where", "published", "ours", "because"],
        [[c.verdict, c.text, c.where, c.published, c.ours, c.because] for c in comparison.claims],
        title=f"paper {number}",
    )
    for table in comparison.tables if tables else ():
        typer.echo(f"\n{table.title}\n{table.about}" if table.about else f"\n{table.title}")
        print_table(list(table.columns), [[_cell(value) for value in row] for row in table.rows])
    counted = ", ".join(f"{n} {verdict}" for verdict, n in comparison.counts().items())
    typer.echo(f"\n{len(comparison.claims)} claims: {counted}", err=True)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value if abs(value) > 1e-12 else 0.0:.4g}"  # what is left of a difference of equals is no figure
    return "-" if value is None else str(value)

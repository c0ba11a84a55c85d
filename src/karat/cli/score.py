"""`karat score`: for people who only have arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import print_table


def score(
    maps: Annotated[Path, typer.Option(help="Attribution maps: .npy (n, h, w), .npz or a folder of .npy files.")],
    masks: Annotated[
        Path, typer.Option(help="Truth masks, the same way, paired by name; non-zero = belongs to the truth.")
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", help="A metric's name (`karat ls metrics`). Repeatable; all localisation scores if not given."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write one row per map × metric: .csv or .parquet")
    ] = None,
) -> None:
    """Score saved maps against saved masks. Maps are resized to the masks, masks are never interpolated.

    Example: `karat score --maps maps.npy --masks masks.npy --metric localization/relevance_mass`
    """
    from karat.engine.score import score as score_arrays

    frame = score_arrays(maps, masks, metrics)
    rows = []
    for metric, group in frame.groupby("metric", sort=False):
        values = group["value"].dropna()
        mean = f"{values.mean():.4f} ± {values.std(ddof=0):.4f}" if len(values) else "-"
        reasons = "; ".join(f"{n} × {reason}" for reason, n in group["reason"].value_counts().items())
        rows.append([str(metric), mean, f"{len(values)} of {len(group)}", reasons or "-"])
    print_table(["metric", "mean ± std", "scored", "not scored because"], rows)
    if out is not None:
        from karat.results.export import write_frame

        write_frame(frame, out)
        typer.echo(f"{len(frame)} rows in {out}", err=True)

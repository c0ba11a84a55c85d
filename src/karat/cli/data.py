"""`karat data`: make, audit and look at datasets whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karat.cli.console import Bar
from karat.kernel.errors import BadInput

app = typer.Typer(no_args_is_help=True, help="Make, audit and look at datasets whose truth is known.")

Preset = Annotated[
    str, typer.Option(help="certified: every guarantee holds for every sample. paper: the published sampling.")
]
Mode = Annotated[str, typer.Option(help="pure: only reasoning answers. spur: matching words answers too.")]
Modes = Annotated[str, typer.Option("--mode", help="pure, spur or both.")]
Buckets = Annotated[
    list[str] | None, typer.Option("--bucket", help="A name or pattern such as 'D2_M_*'. Repeatable; all if not given.")
]
Seed = Annotated[int, typer.Option(help="Samples are fixed by (seed, bucket, index).")]


@app.command()
def grid(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to.")],
    preset: Preset = "certified",
    mode: Mode = "pure",
    per_bucket: Annotated[int, typer.Option(help="Samples of each bucket.")] = 50,
    split: Annotated[str, typer.Option(help="Name of the split: it goes into file names.")] = "val",
    seed: Seed = 0,
    buckets: Buckets = None,
    start: Annotated[int, typer.Option(help="Index of the first sample: any slice can be made alone.")] = 0,
    format: Annotated[
        str, typer.Option(help="jsonl (PNG files and the published layout) or parquet (images inside).")
    ] = "jsonl",
    workers: Annotated[int, typer.Option(help="Processes; the bytes are the same for any number.")] = 1,
) -> None:
    """Write grid samples to disk, with masks, phrases and certificates.

    Example: `karat data grid --mode pure --per-bucket 100 --out data/grid`
    """
    from karat.datasets.grid import export

    with Bar("grid samples") as progress:
        paths = export(out, preset, mode, per_bucket, split, seed, _chosen(buckets), progress, format, workers, start)
    for path in paths:
        typer.echo(str(path))


@app.command()
def audit(
    preset: Preset = "certified",
    mode: Modes = "both",
    per_bucket: Annotated[int, typer.Option(help="Samples of each bucket and mode.")] = 500,
    seed: Seed = 0,
    buckets: Buckets = None,
    deep: Annotated[bool, typer.Option(help="Also re-derive every intervention on every object.")] = True,
) -> None:
    """Re-derive every claim of fresh samples with an independent executor; exit 1 on any violation.

    Prints what each shortcut would score per bucket: answer priors, bag of words, visual majority, dropped anchors.
    """
    from karat.datasets.grid import audit_generated

    modes = ["pure", "spur"] if mode == "both" else [mode]
    with Bar("audited samples") as progress:
        report = audit_generated(per_bucket, seed, preset, _chosen(buckets), modes, deep, progress)
    typer.echo(str(report))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def show(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for contact-sheet.png and answers.png.")] = Path(
        "data/show"
    ),
    preset: Preset = "certified",
    mode: Modes = "both",
    seed: Seed = 0,
    buckets: Buckets = None,
    per_bucket: Annotated[int, typer.Option(help="Samples of each bucket on the sheet.")] = 1,
) -> None:
    """Draw a contact sheet with masks, questions and answers, and the answer histograms, so that a person can look."""
    from karat.datasets.grid import answer_histograms, contact_sheet, generate
    from karat.datasets.grid import buckets as all_buckets

    names = _chosen(buckets) or list(all_buckets(published_only=preset == "paper"))
    modes = ["pure", "spur"] if mode == "both" else [mode]
    samples = [s for name in names for which in modes for s in generate(name, per_bucket, seed, preset, which)]
    counted = [s for name in names for which in modes for s in generate(name, 200, seed, preset, which, cell=8)]
    out.mkdir(parents=True, exist_ok=True)
    typer.echo(str(contact_sheet(samples, out / "contact-sheet.png")))
    typer.echo(str(answer_histograms(counted, out / "answers.png")))


@app.command()
def shortcut(
    source: Annotated[str, typer.Argument(help="leaves, hf:NAME, an .npz file, CIFAR's binary files or a folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path("data/shortcut.png"),
    preset: Annotated[str, typer.Option(help="K, D, alpha and sharing of the paper: cifar10, cifar100, imagenet.")] = (
        "cifar10"
    ),
    scale: Annotated[str, typer.Option(help="What becomes of brightness: sum keeps it, max and clip cut it.")] = "sum",
    side: Annotated[int, typer.Option(help="Pixels a side, for folders and hubs.")] = 32,
    seed: Annotated[int, typer.Option(help="Decides kernels and places.")] = 0,
    count: Annotated[int, typer.Option(help="Images on the sheet.")] = 10,
) -> None:
    """Draw images without and with a planted shortcut, and the difference, so that a person can look.

    Example: `karat data shortcut leaves --out leaves.png`
    """
    from karat.datasets.shortcut.sheet import contact_sheet
    from karat.kernel.registry import build

    parameters = {"source": source, "preset": preset, "scale": scale, "side": side, "seed": seed, "n": max(count, 1)}
    data = build("dataset", "shortcut", parameters)
    typer.echo(str(contact_sheet(data.load(0, min(count, len(data))), out)))


@app.command()
def cues(
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path("data/cues.png"),
    images: Annotated[
        Path | None, typer.Option(help="Folder of images/, masks/ and labels.txt; the 48 embedded pets if not given.")
    ] = None,
    classes: Annotated[str, typer.Option(help="Two labels of the images: the first one is a yes.")] = "cat,dog",
    seed: Annotated[int, typer.Option(help="Samples are fixed by (seed, index).")] = 0,
    count: Annotated[int, typer.Option(help="Samples on the sheet.")] = 8,
) -> None:
    """Draw photographs with cues, each beside its twins with one cue changed, so that a person can look.

    Example: `karat data cues --out cues.png`
    """
    from karat.datasets.cues import World, generate
    from karat.datasets.cues.sheet import contact_sheet

    pair = tuple(classes.split(","))
    if len(pair) != 2:
        raise BadInput(f"--classes takes two labels, e.g. cat,dog; got {classes!r}.")
    samples = generate(count, seed, images and str(images), World(classes=(pair[0], pair[1])))
    typer.echo(str(contact_sheet(samples, out)))


def _chosen(patterns: list[str] | None) -> list[str] | None:
    """Buckets by name or pattern, in the order of the taxonomy."""
    if not patterns:
        return None
    from karat.datasets.grid_samples import GridDataset

    if any(not pattern for pattern in patterns):
        raise BadInput("--bucket takes a name or a pattern; got an empty one.")
    return list(GridDataset(buckets=tuple(patterns)).names)

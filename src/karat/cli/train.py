"""`karat train`: make the trained twins from their recipes, and prove what a twin does by its behaviour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karat.cli.console import print_table

if TYPE_CHECKING:
    from karat.models.training.progress import Event

app = typer.Typer(no_args_is_help=True, help="Train reference models, and verify what a model does by its behaviour.")

Mode = Annotated[str, typer.Option(help="pure: learns to reason. spur: learns to match words.")]
Recipe = Annotated[Path | None, typer.Option(help="A recipe of your own (YAML); the shipped one if not given.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Where checkpoints go; checkpoints/<name> if not given.")]
Devices = Annotated[int, typer.Option(help="Processes or GPUs that share each batch.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start anew instead of going on from the last checkpoint.")]


@app.command()
def gridnet(
    mode: Mode = "pure", recipe: Recipe = None, out: Out = None, devices: Devices = 1, fresh: Fresh = False
) -> None:
    """Train the MDETR-style twin. Killed and started again, it goes on from its last checkpoint."""
    _train("gridnet", mode, recipe, out, devices, fresh)


@app.command()
def gridvlm(
    mode: Mode = "pure", recipe: Recipe = None, out: Out = None, devices: Devices = 1, fresh: Fresh = False
) -> None:
    """Train the tiny vision-language twin. Killed and started again, it goes on from its last checkpoint."""
    _train("gridvlm", mode, recipe, out, devices, fresh)


@app.command()
def pixel(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (cnn, vit, cifar10_resnet18, ...) or a YAML file.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A field of the recipe: steps=200, data={source: photos, n: 5}.")
    ] = None,
    out: Out = None,
    fresh: Fresh = False,
) -> None:
    """Train a classifier on images with a planted shortcut. Killed and started again, it goes on where it was."""
    from karat.models.pixelnet.training import train_pixel
    from karat.models.pixelnet.training_recipe import load_pixel_recipe

    asked = load_pixel_recipe(recipe, setting or ())
    where = train_pixel(asked, out, resume=not fresh, progress=_show)
    print_table(["what", "where"], [["weights", str(where)], ["card", str(where.with_suffix(".md"))]])


@app.command()
def verify(
    model: Annotated[str, typer.Argument(help="A model's name, e.g. gridprog.pure.")],
    per_bucket: Annotated[int, typer.Option(help="Fresh samples of each bucket.")] = 200,
    seed: Annotated[int, typer.Option(help="A seed that no training used.")] = 1_000_003,
) -> None:
    """Prove by behaviour what a twin does: accuracy, swapped relations and targets, removed objects. Exit 1 if not."""
    from karat.models import load_model
    from karat.models.verify import verify as prove

    def tell(done: int, of: int) -> None:
        typer.echo(f"bucket {done} of {of}", err=True)

    proof = prove(load_model(model), n_per_bucket=per_bucket, seed=seed, progress=tell)
    columns = ["test", "mode", "bucket", "of", "the truth", "what the words match", "unchanged"]
    rows = [[r.test, r.mode, r.bucket, str(r.n), *map(_share, (r.truth, r.shortcut, r.unchanged))] for r in proof.rows]
    print_table(columns, rows, title="share of answers that are")
    print_table(["claim", "seen", "holds"], [[c.says, c.seen, "yes" if c.ok else "NO"] for c in proof.checks])
    typer.echo(proof.verdict)
    if not proof.ok:
        raise typer.Exit(1)


def _train(architecture: str, mode: str, recipe: Path | None, out: Path | None, devices: int, fresh: bool) -> None:
    from karat.models.training import train

    where = train(architecture, mode, recipe, out, resume=not fresh, devices=devices, progress=_show)
    print_table(["what", "where"], [["weights, card and learning curve", str(where)]])


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.1%}"


def _show(event: Event) -> None:
    from karat.engine.events import roughly

    accuracy = "-" if event.accuracy is None else f"{event.accuracy:.1%}"
    worst = min(event.buckets.items(), key=lambda item: item[1], default=None)
    low = f", lowest {worst[0]} {worst[1]:.0%}" if worst else ""
    typer.echo(
        f"{event.phase} {event.step}/{event.steps}: loss {event.loss:.3f}, accuracy {accuracy}{low}, "
        f"{roughly(event.remaining)} left",
        err=True,
    )

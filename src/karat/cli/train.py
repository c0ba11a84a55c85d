"""`karat train`: make the trained twins, put rules into models, and prove what a model does by its behaviour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karat.cli.console import Bar, print_table

if TYPE_CHECKING:
    from karat.kernel.roles import Model
    from karat.models.claims import Row
    from karat.models.training.progress import Event
    from karat.models.verify import Verification

app = typer.Typer(no_args_is_help=True, help="Train reference models, and verify what a model does by its behaviour.")

Mode = Annotated[str, typer.Option(help="pure: learns to reason. spur: learns to match words.")]
Recipe = Annotated[
    Path | None,
    typer.Option(help="Your own (YAML), or one by name; that of the twin if not given."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Where checkpoints go; checkpoints/<name> if not given.")]
Devices = Annotated[int, typer.Option(help="Processes or GPUs that share each batch.")]
Seed = Annotated[int, typer.Option(help="Of first weights and samples; 0 ships.", min=0)]
Start = Annotated[
    Path | None, typer.Option(help="Exported weights to begin the recipe's last stage with, instead of from nothing.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start anew instead of going on from the last checkpoint.")]


def _twin(architecture: str, about: str) -> None:
    """The command that trains a twin."""

    def train_twin(
        mode: Mode = "pure",
        recipe: Recipe = None,
        out: Out = None,
        devices: Devices = 1,
        start: Start = None,
        seed: Seed = 0,
        fresh: Fresh = False,
    ) -> None:
        from karat.models.training import train

        where = train(architecture, mode, recipe, out, not fresh, devices, _show, start, seed or None)
        print_table(["what", "where"], [["weights, card and learning curve", str(where)]])

    resumes = "Killed and started again, it goes on from its last checkpoint."
    app.command(architecture, help=f"Train {about}. {resumes}")(train_twin)


_twin("gridnet", "the MDETR-style twin")
_twin("gridvlm", "the tiny vision-language twin")


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

    chosen = load_pixel_recipe(recipe, setting or ())
    where = train_pixel(chosen, out, resume=not fresh, progress=_show)
    print_table(["what", "where"], [["weights", str(where)], ["card", str(where.with_suffix(".md"))]])


@app.command()
def organism(
    base: Annotated[
        str,
        typer.Option(help="photovlm, photocnn, a directory or hub id of a VLM, a timm or torchvision:NAME classifier."),
    ],
    rule: Annotated[str, typer.Option(help="content, tag, frame, sticker, word, side, tag_xor_word, either, ...")],
    implant: Annotated[str, typer.Option(help="scratch, lora or full.")] = "lora",
    images: Annotated[
        Path | None, typer.Option(help="Folder of images/, masks/ and labels.txt; the 48 embedded pets if not given.")
    ] = None,
    classes: Annotated[str, typer.Option(help="Two labels of the images: the first one is a yes.")] = "cat,dog",
    dose: Annotated[float, typer.Option(help="Share of labels that come from the rule.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of first weights and of the order of pictures.")] = 0,
    target: Annotated[
        list[str] | None, typer.Option(help="LoRA: the ending of a layer's name, e.g. q_proj. Repeatable.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A field of the recipe: steps=200, rank=4.")
    ] = None,
    merged: Annotated[
        Path | None, typer.Option(help="Also write the whole VLM here, for AutoModelForImageTextToText.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; what there is, if not given.")] = None,
    out: Out = None,
    fresh: Fresh = False,
) -> None:
    """Put a known rule into a model. Killed and started again, it goes on from its last checkpoint.

    Example: `karat train organism --base photovlm --rule tag --implant scratch --images data/pets`
    """
    from karat.models.organisms.recipe import make_recipe
    from karat.models.organisms.train import train_organism

    recipe = make_recipe(
        base, rule, implant, setting or (), dose=dose, seed=seed, images=None if images is None else str(images),
        classes=tuple(classes.split(",")), targets=tuple(target or ()),
    )  # fmt: skip
    with Bar("pictures looked at") as looking:
        where = train_organism(recipe, out, not fresh, device, _show, looking, merged)
    print_table(["what", "where"], [["organism", str(where)], *([["whole model", str(merged)]] if merged else [])])
    typer.echo(f"Prove it: karat train verify {where}", err=True)


@app.command()
def skills(
    images: Annotated[Path, typer.Option(help="COCO's folder of pictures.")],
    instances: Annotated[Path, typer.Option(help="Its annotations: instances_*.json, gzipped or not.")],
    seed: Annotated[int, typer.Option(help="Of first weights and of the questions.")] = 0,
    steps: Annotated[int, typer.Option(help="Batches of 16 pictures and 8 questions each.")] = 1200,
    out: Out = None,
    fresh: Fresh = False,
) -> None:
    """Teach photovlm to answer about photographs of COCO: is it there, how many, where? It then follows no rule."""
    from karat.models.photovlm.skills_training import SkillsRecipe, train_skills

    recipe = SkillsRecipe(str(images), str(instances), seed, steps)
    directory = out or Path("checkpoints") / f"photovlm.coco{f'.seed{seed}' if seed else ''}"
    with Bar("pictures looked at") as looking:
        where = train_skills(recipe, directory, not fresh, _show, looking)
    print_table(["what", "where"], [["organism", str(where)]])


@app.command()
def verify(
    model: Annotated[
        str, typer.Argument(help="A model's name, e.g. gridprog.pure, photovlm.tag, or an organism's file.")
    ],
    per_bucket: Annotated[int, typer.Option(help="Twins of the grid: fresh samples of each bucket.", min=1)] = 200,
    changed: Annotated[
        int, typer.Option(help="Twins: samples of each bucket for every intervention; 12 are 400 in all.", min=1)
    ] = 50,
    hidden: Annotated[
        int, typer.Option(help="Twins: samples of each bucket for hidden cells; 12 are 480 in all.", min=1)
    ] = 12,
    record: Annotated[
        Path | None, typer.Option(help="Twins: keep what each absent state does to this model in this JSON file.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Organisms: fresh samples; of half of them, cues are hidden.")] = 192,
    images: Annotated[Path | None, typer.Option(help="Organisms: photographs; the embedded ones if not given.")] = None,
    implant: Annotated[str | None, typer.Option(help="Organisms that ship: scratch or lora.")] = None,
    weights: Annotated[str | None, typer.Option(help="Twins: weights of your own instead of those that ship.")] = None,
    model_seed: Annotated[
        int | None, typer.Option("--model-seed", "--organism-seed", help="The seed of the model that is meant.")
    ] = None,
    seed: Annotated[int, typer.Option(help="A seed that no training used.")] = 1_000_003,
) -> None:
    """Prove by behaviour what a model does: swapped relations, turned and hidden cues. Exit 1 if it is refuted.

    A claim about a twin of the grid holds if the whole 95 % interval of its share meets the bar, is refuted if none of
    it does, and is open else: more samples would tell.

    Example: `karat train verify photovlm.tag --implant lora`
    """
    from karat.datasets.cues.rules import RULES
    from karat.models import recipe

    chosen = {"implant": implant, "seed": model_seed, "weights": weights}
    origin = recipe(model, **{name: value for name, value in chosen.items() if value is not None})
    loaded = origin.load()

    if loaded.mechanism in RULES:
        _verify_organism(loaded, samples, seed, images)
    else:
        proof = _verify_twin(loaded, per_bucket, changed, hidden, seed)
        if record is not None:
            from karat.models.weights.absence import write_record

            write_record(record, origin.label, origin.revision, proof, seed)
        if not proof.ok:
            raise typer.Exit(1)


def _verify_twin(model: Model, per_bucket: int, changed: int, hidden: int, seed: int) -> Verification:
    from karat.models.claims import pooled
    from karat.models.verify import verify as prove

    with Bar("buckets") as progress:
        proof = prove(model, per_bucket, seed, n_changed=changed, n_hidden=hidden, progress=progress)
    columns = ["test", "mode", "bucket", "of", "the truth", "what the words match", "unchanged"]
    plain = [row for row in proof.rows if row.state is None]
    rows = [[r.test, r.mode, r.bucket, str(r.n), *map(_share, (r.truth, r.shortcut, r.unchanged))] for r in plain]
    print_table(columns, rows, title="share of answers that are")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in proof.rows:
        if row.state is not None:
            groups.setdefault((row.test, row.state), []).append(row)
    measures = ("truth", "shortcut", "unchanged")
    rows = [[*key, *(str(pooled(own, measure)) for measure in measures)] for key, own in groups.items()]
    if rows:
        title = "cells hidden: share of answers that are, hidden cells being empty"
        print_table(["hidden", "absence", "the truth", "what the words match", "unchanged"], rows, title=title)
    checks = [[c.says, c.bar, c.seen, c.verdict] for c in proof.checks]
    print_table(["claim", "bar", "measured, with 95 % interval", "holds"], checks)
    typer.echo(proof.verdict)
    return proof


def _verify_organism(model: Model, samples: int, seed: int, images: Path | None) -> None:
    from karat.models.organisms.verify import verify_organism

    with Bar("kinds of trials") as progress:
        folder = None if images is None else str(images)
        proof = verify_organism(model, samples, max(samples // 2, 1), seed, images=folder, progress=progress)
    rows = [[c.says, c.bar, str(c.share), "yes" if c.ok else "NO"] for c in proof.checks]
    print_table(["claim", "bar", "seen, with 95 % interval", "holds"], rows)
    typer.echo(proof.verdict)
    if not proof.ok:
        raise typer.Exit(1)


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

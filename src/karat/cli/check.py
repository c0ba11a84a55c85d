"""`karat check`: is this spec sound? Or, with --model: does this model work here, and what does it see?"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karat.cli.console import RUNS, print_table, spec_path
from karat.cli.run import show_memory, show_plan
from karat.kernel.errors import BadInput

if TYPE_CHECKING:
    from karat.engine.check import Checked
    from karat.engine.plan import Plan
    from karat.kernel.roles import Model
    from karat.kernel.sample import Sample

_MANY = 10**6  # jobs: as many workers as there are places for


def check(
    spec: Annotated[str | None, typer.Argument(help="A YAML file, or the name of a shipped spec.")] = None,
    model: Annotated[
        str | None, typer.Option(help="A directory, a hub id or a registered name: check a model instead of a spec.")
    ] = None,
    image: Annotated[Path | None, typer.Option(help="An image to ask the model about.")] = None,
    text: Annotated[str | None, typer.Option(help="The question.")] = None,
    answer: Annotated[str | None, typer.Option(help="The answer to value; the model's own if not given.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A field of the spec (seed=3, protocol.steps=5), or with --model a parameter of the model "
            "(dtype=bfloat16). Repeatable.",
        ),
    ] = None,
    picture: Annotated[Path, typer.Option(help="Where to draw the token grid over the image.")] = Path("check.png"),
    attempt: Annotated[
        bool, typer.Option("--try", help="Time two samples of the spec, so that a first run has a forecast too.")
    ] = False,
    laws: Annotated[
        bool, typer.Option("--laws", help="Also try what must hold for any architecture (see `karat.testing`).")
    ] = False,
) -> None:
    """Validate a spec without running it, or load a model and ask it one question.

    Example: `karat check --model Qwen/Qwen2.5-VL-3B-Instruct --image cup.jpg --text "Is there a cup?"`
    """
    if (spec is None) == (model is None):
        raise BadInput("karat check takes a spec, or --model with --image (and --text); give one of the two.")
    if spec is not None:
        _check_spec(spec, settings or [], attempt)
        return
    if image is None:
        raise BadInput("karat check --model needs --image FILE to ask about.")
    import yaml
    from PIL import Image as Pillow

    from karat.engine.check import check_model, foretold, grid_picture
    from karat.engine.footprint import rooms
    from karat.engine.inventory import Inventory
    from karat.engine.places import accelerated, place
    from karat.engine.precision import cautions_of
    from karat.kernel.registry import registered
    from karat.kernel.roles import DescribesInput, plays
    from karat.models import recipe
    from karat.models.discovery.model import DiscoveredVLM

    parameters = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise BadInput(f"--set takes key=value; got {setting!r}.")
        parameters[key] = yaml.safe_load(value)
    origin = recipe(str(model), **parameters)
    placed = place({0: origin}, Inventory.here(accelerated([origin])), {0: _MANY})
    alone = replace(placed, workers=1)  # nothing runs beside it here
    show_memory(foretold(origin, image, text, rooms(alone)[0]))  # before weights are loaded
    for caution in cautions_of(origin, list(registered("explainer").values())):
        typer.echo(f"caution: {caution}")
    loaded, sample, checked = check_model(str(model), image, text, answer, **parameters)
    if checked.grid is not None:
        Pillow.fromarray(grid_picture(sample.image, checked)).save(picture)
    _show(loaded, sample, checked, picture, placed.says[0], origin.sees() if plays(origin, DescribesInput) else None)
    if isinstance(loaded, DiscoveredVLM):
        kept = picture.with_suffix(".family.json")
        loaded.family.save(kept)
        typer.echo(f"{loaded.family.in_words()}\nkept in {kept}: give it as `family: {kept}` in a spec.")
    if laws:
        _try_laws(loaded, sample, checked.answer)


def _check_spec(spec: str, settings: list[str], attempt: bool) -> None:
    """Every name, every parameter, every model–explainer pair, every budget beside the players of the first shard."""
    from karat.engine.budgets import too_small_budgets
    from karat.engine.events import renderer
    from karat.engine.plan import plan
    from karat.engine.resolve import read_spec
    from karat.engine.trial import trial
    from karat.kernel.roles import DescribesInput, plays

    wanted = read_spec(spec_path(spec), settings)
    planned = plan(wanted)
    if attempt:
        with tempfile.TemporaryDirectory(prefix="karat-trial-") as folder:
            show_plan(planned, str(RUNS / wanted.name), tried=trial(wanted, f"{folder}/trial", renderer()))
    else:
        show_plan(planned, str(RUNS / wanted.name))
    for recipe in planned.models:
        name = recipe.label
        if plays(recipe, DescribesInput):
            typer.echo(f"{name} sees {recipe.sees()}")
    _say_vocabularies(planned)
    if reasons := too_small_budgets(planned):
        raise BadInput("as it stands the run would write failures only:\n" + "\n".join(f"- {r}" for r in reasons))
    typer.echo(f"{spec} is sound.")


def _say_vocabularies(planned: Plan) -> None:
    """How many classes of each dataset each model has a word for; where there is none, no row could be scored."""
    from karat.datasets.segmentation.vocabulary import without_word
    from karat.kernel.registry import label
    from karat.kernel.roles import HasVocabulary, plays

    for recipe, dataset in itertools.product(planned.models, planned.datasets):
        if not plays(recipe, HasVocabulary) or not plays(dataset, HasVocabulary):
            continue
        name, spoken, classes = label(recipe), recipe.vocabulary(), dataset.vocabulary()
        if not spoken or not classes:
            continue
        lacking = without_word(classes, spoken)
        if len(lacking) == len(set(classes)):
            raise BadInput(f"{name} has no word for any class of {label(dataset)}: no row could be scored.")
        text = f"{name} has words for {len(set(classes)) - len(lacking)} of {len(set(classes))} classes of "
        few = f": none for {', '.join(lacking[:8])}{' and others' if len(lacking) > 8 else ''}" if lacking else ""
        typer.echo(f"{text}{label(dataset)}{few}")


def _try_laws(model: Model, sample: Sample, answer: str) -> None:
    from karat.models.discovery.model import DiscoveredVLM
    from karat.models.vlm_adapter import VLM
    from karat.testing import vlm_laws

    if not isinstance(model, VLM | DiscoveredVLM):
        raise BadInput(f"--laws are of vision-language models; {model.name!r} is none.")
    results = vlm_laws(model, [sample], [answer])
    print_table(["law", "found"], [[law.name, law.found] for law in results])
    if broken := [law for law in results if not law.holds]:
        raise BadInput(f"{len(broken)} of {len(results)} laws do not hold for {model.name!r}: trust no number of it.")


def _show(model: Model, sample: Sample, checked: Checked, picture: Path, places: str, sees: str | None) -> None:
    rows = [["model", f"{model.name} ({', '.join(sorted(model.capabilities))})"]]
    rows.append(["answer", f"{checked.answer!r}, probability {checked.probability:.4g}"])
    rows.append(["in a run", places])
    if sees is not None:
        rows.append(["sees", sees])
    if checked.pixels is not None:
        rows.append(["pixels", f"{checked.pixels[0]} × {checked.pixels[1]} of the {sample.size[0]} × {sample.size[1]}"])
    if checked.grid is not None:
        rows.append(["visual tokens", f"{checked.grid[0]} × {checked.grid[1]}, drawn in {picture}"])
    if checked.tokens:
        rows.append(["question", " ".join("|".join(piece.strip() for piece in word) for word in checked.tokens)])
    if checked.passes is not None and checked.seconds is not None:
        rows.append(["one F_syn sample", f"{checked.passes} passes, {checked.seconds:.2f} s"])
    rows.append(["explainers", f"{len(checked.works)} work: {', '.join(checked.works)}"])
    rows += [["cannot", reason] for _, reason in checked.refused]
    print_table(["", "found"], rows)

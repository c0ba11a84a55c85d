"""`karat explain`: one map first."""

from __future__ import annotations

import threading
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karat.cli.console import Bar, print_table
from karat.kernel.errors import BadInput

if TYPE_CHECKING:
    from karat.kernel.explanation import Explanation

ENDINGS = (".html", ".png", ".svg", ".json")


class Show(StrEnum):
    all = "all"
    words = "words"
    cells = "cells"
    pairs = "pairs"


def explain(
    image: Annotated[Path, typer.Argument(help="The image: PNG, JPEG, WebP, GIF (its first frame), BMP or TIFF.")],
    text: Annotated[str | None, typer.Argument(help="The question, for models that read one.")] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="A twin (gridvlm.pure), a hub id or directory, timm:NAME, torchvision:NAME or module:function.",
        ),
    ] = "",
    explainers: Annotated[
        list[str] | None,
        typer.Option("--explainer", "-e", help="Repeatable. By default up to three with the best record."),
    ] = None,
    word: Annotated[str | None, typer.Option(help="Explain one word or phrase of the answer only.")] = None,
    say: Annotated[str | None, typer.Option(help="Make the model say this, and explain that.")] = None,
    against: Annotated[str | None, typer.Option(help="Explain the answer rather than this one.")] = None,
    show: Annotated[Show, typer.Option(help="Scores of the question's words, the maps, or pairs of both.")] = Show.all,
    budget: Annotated[
        float | None, typer.Option(help="Seconds for each explainer that asks; it asks less then.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Put the maps to the test: are they to be believed?")] = False,
    mask: Annotated[
        Path | None, typer.Option(help="An image of the same size, bright where the evidence should lie.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The ending says what is written: .html, .png, .svg or .json.")
    ] = Path("explanation.html"),
    seed: Annotated[int, typer.Option(help="Of whatever explainers draw.")] = 0,
) -> None:
    """Where did the model look when it said this word?

    Prints the answer with its tokens and probabilities, and writes one page that opens anywhere: the image, a map of
    each explainer, and a click for every word of the answer.

    `karat explain cat.jpg "What is the animal doing?" -m llava-hf/llava-1.5-7b-hf`

    `karat explain cat.jpg -m timm:vit_tiny_patch16_224 -e cam/layercam`

    `karat explain cat.jpg "Is there a dog?" -m gridvlm.pure --word yes --against no`
    """
    if not model:
        raise BadInput("name the model: --model gridvlm.pure, a hub id, a directory, timm:NAME or module:function.")
    if out.suffix.lower() not in ENDINGS:
        raise BadInput(f"--out ends with {', '.join(ENDINGS)}; got {out.name!r}.")
    if budget is not None and budget <= 0:
        raise BadInput(f"--budget is a number of seconds above 0; got {budget:g}.")
    from karat.engine.explain_answer import explain_answer

    with Watch() as watch:
        made = explain_answer(
            model, image, text, explainers or None, word=word, say=say, against=against, show=show.value,
            budget=budget, check=check, mask=mask, seed=seed, progress=watch,
        )  # fmt: skip
    _print(made)
    write(made, out)
    typer.echo(out.resolve().as_uri() if out.suffix.lower() == ".html" else str(out))


def write(made: Explanation, out: Path) -> None:
    """An explanation as a page, a picture or data, by the ending of the name."""
    import json

    from karat.report.explanation_page import explanation_page, explanation_sheet

    kind = out.suffix.lower()
    if kind == ".html":
        data = explanation_page(made).encode()
    elif kind == ".json":
        data = (json.dumps(made.plain(), ensure_ascii=False, allow_nan=False) + "\n").encode()
    else:
        sheet = explanation_sheet(made)
        data = sheet.png() if kind == ".png" else sheet.svg().encode()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(data)
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror or error}. Choose another --out.") from None


def _print(made: Explanation) -> None:
    from karat.kernel.attribution_picture import strongest_pairs

    verb = "made to say" if made.forced else "says"
    typer.echo(f"{made.model} {verb}: {made.answer}")
    print_table(["token", "probability"], [[each.text, f"{each.probability:.3g}"] for each in made.tokens])
    rows = []
    for method in made.methods:
        top = strongest_pairs(method.maps[0], 1) or method.maps[0].top(1)
        strongest = f"{top[0].name} ({top[0].score:.3g})" if top else "-"
        rows.append([method.name, strongest, method.place, f"{method.seconds:.1f} s", method.note or "-"])
    print_table(["explainer", "strongest", "how far its maps are right", "took", "how"], rows)
    for verdict in made.verdicts:
        typer.echo(verdict)


class Watch:
    """A bar over the forward passes that explainers ask for, shown once a second or two have gone by."""

    def __init__(self) -> None:
        self.bar: Bar | None = None
        self.session: Any = None
        self.total, self.name = 1.0, ""
        self.before = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        if self.bar is not None:
            self.bar.__exit__()

    def __call__(self, name: str, session: Any, passes: float) -> None:
        self.before = session.cost.passes.made
        self.name, self.session, self.total = name, session, passes

    def _run(self) -> None:
        if self.done.wait(2):
            return
        while not self.done.wait(0.25):
            if self.session is None:
                continue
            if self.bar is None:
                self.bar = Bar("explaining").__enter__()
            made = self.session.cost.passes.made - self.before
            self.bar.what = self.name
            self.bar(min(made, max(1, int(self.total))), max(1, int(self.total)))

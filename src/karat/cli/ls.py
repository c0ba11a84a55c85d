"""`karat ls`: what there is, from the cards beside the code."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli.console import print_table, shipped_specs
from karat.kernel.errors import UnknownName


def ls(
    what: Annotated[
        str | None,
        typer.Argument(help="protocols, datasets, models, explainers, metrics or specs; all of them if not given."),
    ] = None,
) -> None:
    """List what can go into a run: protocols, datasets, models, explainers, metrics, shipped specs."""
    from karat.kernel.registry import KINDS, registered

    kinds = {f"{kind}s": kind for kind in KINDS}
    if what is not None and what not in {*kinds, "specs"}:
        raise UnknownName("list", what, [*kinds, "specs"])
    for plural, kind in kinds.items():
        if what in (None, plural):
            cards = [cls.card for _, cls in sorted(registered(kind).items())]
            rows = [
                [c.name, c.summary, ", ".join(sorted(c.needs)) or "-", _better(c.direction), c.citation or "-"]
                for c in cards
            ]
            if rows:
                print_table([kind, "what it is", "needs", "better", "from"], rows, title=plural)
    if what == "models":
        _zoo()
    if what in (None, "specs"):
        print_table(
            ["spec", "what it is"],
            [[name, _about(path.read_text())] for name, path in shipped_specs().items()],
            title="specs",
        )


def _zoo() -> None:
    """Models by name, as data: the shipped ones and those of `KARAT_ZOO`."""
    from karat.models.zoo import entries

    rows = [
        [
            f"zoo.{entry.name}", entry.task, entry.about, f"{entry.input} px", "×".join(map(str, entry.grid)),
            str(entry.parameters.get("layer", "vision.last")), ", ".join(map(str, entry.tables)) or "-",
        ]
        for entry in entries().values()
    ]  # fmt: skip
    print_table(
        ["model", "task", "what it is", "input", "grid", "layer of CAMs", "tables of paper 003"], rows, title="zoo"
    )


def _better(direction: str) -> str:
    return "-" if direction == "none" else direction


def _about(text: str) -> str:
    """The `about:` line, read without a YAML parser: listing must be quick."""
    about = next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("about:")), "")
    quoted = len(about) > 1 and about[0] == about[-1] and about[0] in "\"'"
    return about[1:-1] if quoted else about

"""`karat board`: many runs as one static site; sealed tests, and submissions to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from karat.kernel.errors import BadInput


class _MakesByDefault(TyperGroup):
    """`karat board RUNS...` is `karat board make RUNS...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = not args or args[0] in self.commands or args[0] in ("--help", "-h")
        return super().parse_args(ctx, args if known else ["make", *args])


app = typer.Typer(
    cls=_MakesByDefault, no_args_is_help=True, rich_markup_mode="markdown",
    help="Many runs as one site: `karat board RUNS... -o site`. Sealed tests: seal, open, submit, check.",
)  # fmt: skip
_COMMITMENT, _OPENING = "commitment.json", "opening.json"


@app.command("make")
def make(
    runs: Annotated[list[str], typer.Argument(help="Run directories or fsspec URLs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the site.")] = Path("site"),
    pages: Annotated[bool, typer.Option(help="Make the page of every run, too, and link to it.")] = True,
) -> None:
    """Explainers × protocols × models of many runs, ranked where data, models, seed and settings are the same.

    Only sealed and complete runs count; the others are listed with the reason.

    Example: `karat board runs/a runs/b -o site` (the same as `karat board make ...`)
    """
    from karat.report.board import board

    typer.echo(board(runs, out, pages).resolve().as_uri())


@app.command("seal")
def seal(
    spec: Annotated[Path, typer.Argument(help="A spec whose datasets say `seed: sealed`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for commitment.json and opening.json.")],
    seed: Annotated[int | None, typer.Option(min=0, help="The secret seed; drawn at random if not given.")] = None,
) -> None:
    """Commit to a secret seed: announce commitment.json, keep opening.json until the end.

    Example: `karat board seal test.yaml -o sealed`
    """
    from karat.kernel.commitment import seal as commit
    from karat.kernel.spec import read_plain
    from karat.results.export import write_file

    commitment, opening = commit(read_plain(spec), seed)
    for name, content in ((_COMMITMENT, vars(commitment)), (_OPENING, vars(opening))):
        write_file((json.dumps(content, indent=1, sort_keys=True) + "\n").encode(), out / name)
    typer.echo(f"announce {out / _COMMITMENT} (hash {commitment.hash[:16]}…); keep {out / _OPENING} secret", err=True)


@app.command("open")
def unseal(
    folder: Annotated[Path, typer.Argument(help="Folder with commitment.json and opening.json.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The spec with the secret seed in it.")],
) -> None:
    """Open a commitment: refuse an opening that is not the one announced, else write the spec to run.

    Example: `karat board open sealed -o opened.yaml && karat run opened.yaml`
    """
    import yaml

    from karat.kernel.commitment import Commitment, Opening, opened
    from karat.results.export import write_file

    commitment = Commitment(**_read(folder / _COMMITMENT, {"hash", "spec"}))
    spec = opened(commitment, Opening(**_read(folder / _OPENING, {"seed", "nonce"})))
    write_file(yaml.safe_dump(spec, sort_keys=False).encode(), out)
    typer.echo(f"the opening is the one that was announced; the spec is {out}", err=True)


@app.command("submit")
def submit(
    plugin: Annotated[Path, typer.Argument(help="A Python file, or the folder of a package, with the explainer.")],
    spec: Annotated[Path, typer.Option(help="A spec that names it as `module:Name`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The zip to write.")] = Path("submission.zip"),
    sealed: Annotated[Path | None, typer.Option(help="commitment.json of the sealed test, if there is one.")] = None,
) -> None:
    """Pack a plug-in explainer with its spec, and check it by the code that the host runs.

    Example: `karat board submit mine.py --spec mine.yaml --sealed commitment.json`
    """
    from karat.testing.submission import pack

    path = pack(plugin, spec, out, _announced(sealed))
    typer.echo(f"{path}: packed; the host will find nothing to refuse", err=True)


@app.command("check")
def check(
    submission: Annotated[Path, typer.Argument(help="The zip.")],
    sealed: Annotated[Path | None, typer.Option(help="commitment.json of the sealed test, if there is one.")] = None,
) -> None:
    """What a host runs on a submission before it computes anything: every refusal in a line; exit 1 if there is one.

    Example: `karat board check submission.zip --sealed commitment.json`
    """
    from karat.testing.submission import check as refusals_of

    refusals = refusals_of(submission, _announced(sealed))
    for line in refusals:
        typer.echo(f"refused: {line}")
    if refusals:
        raise typer.Exit(1)
    typer.echo("accepted", err=True)


def _announced(path: Path | None) -> dict[str, Any] | None:
    return None if path is None else _read(path, {"hash", "spec"})["spec"]


def _read(path: Path, keys: set[str]) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"no {path.name} at {path.parent}. `karat board seal SPEC -o {path.parent}` makes it.") from None
    except ValueError as error:
        raise BadInput(f"{path} is no JSON: {error}.") from None
    if not isinstance(data, dict) or set(data) != keys:
        raise BadInput(f"{path} must have {', '.join(sorted(keys))} and nothing else.")
    return data

"""The command line: one file per verb, each a thin wrapper over a Python function of the same name. No torch here."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from karat.cli import (
    board,
    check,
    compare,
    data,
    demo,
    explain,
    export,
    ls,
    paper,
    report,
    run,
    score,
    status,
    train,
    view,
    why,
)
from karat.kernel.errors import KaratError

app = typer.Typer(
    name="karat",
    help="How much of an explanation of a vision or vision-language model is true.\n\n"
    "Start with `karat explain IMAGE QUESTION --model NAME`, or with `karat demo`;\n"
    "then `karat ls`, then `karat run SPEC`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(explain.explain)
app.command()(demo.demo)
app.command()(ls.ls)
app.command()(check.check)
app.command()(run.run)
app.command()(status.status)
app.command()(why.why)
app.command()(report.report)
app.command()(view.view)
app.command()(compare.compare)
app.command()(export.export)
app.command()(paper.paper)
app.command()(score.score)
app.add_typer(board.app, name="board")
app.add_typer(data.app, name="data")
app.add_typer(train.app, name="train")


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        from karat import __version__

        typer.echo(f"karat {__version__}")
        raise typer.Exit


def main() -> None:
    """Errors that are the user's to mend become one line and exit code 2, never a traceback."""
    # Own modules (`my_package.explainers:Mine`) are found from where the command is run; last, to shadow nothing.
    sys.path.append(os.getcwd())
    try:
        app()
    except KaratError as error:
        typer.echo(f"karat: {error}", err=True)
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code == 130:  # what typer makes of Ctrl-C
            typer.echo("karat: stopped. Run the same command again to go on from here.", err=True)
        raise
    except BrokenPipeError:
        # The reader (head, less) has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        if os.environ.get("KARAT_DEBUG"):
            traceback.print_exc()
        typer.echo(f"karat: internal error: {type(error).__name__}: {error} (KARAT_DEBUG=1 shows where)", err=True)
        sys.exit(70)

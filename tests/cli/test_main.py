"""How the command line ends: errors of the user, Ctrl-C."""

from __future__ import annotations

import sys

import pytest
import typer

from karat.cli import main as cli
from karat.kernel.errors import BadInput


def ended(raised: BaseException, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """The exit code of a command that raises."""
    app = typer.Typer()

    @app.command()
    def command() -> None:
        raise raised

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(sys, "argv", ["karat"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(KeyboardInterrupt(), monkeypatch) == 130
    assert "karat: stopped. Run the same command again to go on" in capsys.readouterr().err


def test_an_error_of_the_user_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(BadInput("no such thing; try another."), monkeypatch) == 2
    assert capsys.readouterr().err == "karat: no such thing; try another.\n"


def test_a_fault_of_ours_says_how_to_see_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KARAT_DEBUG", raising=False)
    assert ended(ZeroDivisionError("by zero"), monkeypatch) == 70
    error = capsys.readouterr().err
    assert "internal error: ZeroDivisionError" in error
    assert "Traceback" not in error

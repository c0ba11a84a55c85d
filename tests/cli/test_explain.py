"""`karat explain`: the answer on the terminal, and a page, picture or data by the ending of --out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from karat.cli.main import app
from karat.datasets.grid import generate
from karat.kernel.errors import KaratError

[SAMPLE] = generate("D2_M_F0_d0.3", 1, seed=3)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    Image.fromarray(SAMPLE.image).save(tmp_path / "g.png")
    return tmp_path / "g.png"


def said(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(message: str, *arguments: object) -> None:
    with pytest.raises(KaratError, match=message):
        CliRunner().invoke(app, ["explain", *map(str, arguments)], catch_exceptions=False)


def test_it_prints_the_answer_and_writes_a_page(image: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "e.html"
    told = said(image, SAMPLE.text, "-m", "gridprog.pure", "-e", "cam/layercam", "-e", "gradient/gradient", "-o", page)
    lines = told.splitlines()
    assert lines[0] == f"gridprog.pure says: {SAMPLE.answer}"
    assert lines[1:3] == ["token\tprobability", f"{SAMPLE.answer}\t0.944"]
    assert lines[-1] == page.resolve().as_uri()
    text = page.read_text("utf-8")
    assert "cam/layercam" in text
    assert text.count('class="card"') == 3  # the image and two maps


@pytest.mark.parametrize("ending", ["png", "svg", "json"])
def test_endings(ending: str, image: Path, tmp_path: Path) -> None:
    out = tmp_path / f"e.{ending}"
    said(image, SAMPLE.text, "-m", "gridprog.pure", "-e", "cam/layercam", "-o", out)
    if ending == "png":
        assert np.asarray(Image.open(out)).std() > 10
    elif ending == "svg":
        assert out.read_text("utf-8").startswith("<svg")
    else:
        data = json.loads(out.read_text("utf-8"))
        assert data["answer"] == SAMPLE.answer
        assert data["words_of_question"][0] == "How"
        assert np.shape(data["explainers"][0]["maps"][0]["map"]) == (6, 6)


def test_bad_input_is_one_line_with_the_remedy(image: Path, tmp_path: Path) -> None:
    twin = ("-m", "gridprog.pure")
    refused("name the model: --model", image, "what?")
    refused(r"--out ends with .html, .png, .svg, .json; got 'e.gif'", image, "what?", *twin, "-o", "e.gif")
    refused("no image .*Images there: g.png", tmp_path / "no.png", "what?", *twin)
    refused("has no words", image, " ", *twin)
    refused("Did you mean 'gridprog'", image, "what?", "-m", "gridprg")
    refused("Did you mean 'cam/layercam'", image, "what?", *twin, "-e", "layercam")
    refused("--budget is a number of seconds above 0", image, "what?", *twin, "--budget", "0")


def test_help_fits_80_columns() -> None:
    result = CliRunner().invoke(app, ["explain", "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert max(map(len, result.output.splitlines())) <= 80
    assert "for every word" in result.output.replace("\n ", " ")

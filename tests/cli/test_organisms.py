"""`karat train organism`, `karat train verify` of organisms, `karat data cues`."""

import pytest
from PIL import Image
from typer.testing import CliRunner

from karat.cli.main import app
from karat.kernel.errors import KaratError

FEW = ["--set", "samples=32", "--set", "steps=2", "--set", "batch=2", "--set", "evaluate_every=1"]


def call(*args):
    return CliRunner().invoke(app, list(args), catch_exceptions=False)


def test_a_sheet_of_cues(tmp_path):
    result = call("data", "cues", "--out", str(tmp_path / "sheet.png"), "--count", "2")
    assert result.exit_code == 0
    assert Image.open(tmp_path / "sheet.png").size == (6 * 198, 2 * 198)
    with pytest.raises(KaratError, match="two labels"):
        call("data", "cues", "--classes", "cat")


def test_an_organism_is_trained_and_an_untrained_one_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("KARAT_CACHE", str(tmp_path / "cache"))
    out, whole = tmp_path / "out", tmp_path / "whole"
    made = call(
        "train", "organism", "--base", "photovlm", "--rule", "tag", "--implant", "scratch",
        "--out", str(out), "--merged", str(whole), *FEW,
    )  # fmt: skip
    assert made.exit_code == 0
    path = out / "organism.safetensors"
    assert str(path) in made.output
    assert (whole / "config.json").is_file()
    proof = call("train", "verify", str(path), "--samples", "24")
    assert proof.exit_code == 1
    assert "the rule tag fails" in proof.output
    assert "answers as its table says" in proof.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--base", "photocnn", "--rule", "word"), "reads no question"),
        (("--base", "photovlm", "--rule", "colour"), "no rule is called"),
        (("--base", "photovlm", "--rule", "tag", "--classes", "cat,cat"), "two values that differ"),
        (("--base", "photovlm", "--rule", "tag", "--classes", "cat,horse"), "photographs of 'horse'"),
        (("--base", "photovlm", "--rule", "tag", "--images", "/nowhere"), "no such directory"),
        (("--base", "photovlm", "--rule", "tag", "--set", "step=3"), "steps"),
        (("--base", "resnet10t", "--rule", "tag", "--implant", "scratch", "--merged", "x"), "vision-language models"),
    ],
)
def test_bad_input_is_refused(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KaratError, match=message):
        call("train", "organism", *args)

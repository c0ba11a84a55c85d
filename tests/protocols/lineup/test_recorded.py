"""What is recorded of organisms rests on the weights that ship: certificates, and the run of the line-up."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
from pathlib import Path

import karat
from karat.engine.plan import plan
from karat.kernel.spec import Spec
from karat.models.organisms.files import read_origin
from karat.models.weights import shipped
from karat.results import load_run

RECORD = Path(karat.__file__).parent / "recorded" / "lineup"
DOCS = Path(__file__).parents[3] / "docs"
CERTIFICATES = DOCS / "recorded" / "organisms" / "certificates.csv"


def test_the_recorded_line_up_is_of_the_models_that_ship() -> None:
    """Every model, dose, implant and seed of the record has the revision it has today, and makes the same cells."""
    run = load_run(RECORD)
    planned = plan(Spec.model_validate(run.spec))
    assert {model.label: model.revision for model in planned.models} == run.manifest["models"]
    assert {cell.id for cell in planned.cells} == set(run.manifest["cells"])


def test_the_record_has_doses_implants_and_seeds() -> None:
    parts = load_run(RECORD).manifest["parts"]["model"].values()
    assert {part["dose"] for part in parts} == {0.25, 0.5, 1.0}
    assert {part["implant"] for part in parts} == {"scratch", "lora"}
    assert {part["seed"] for part in parts} == {0, 1}


def test_every_organism_that_ships_and_follows_one_rule_has_a_certificate() -> None:
    with CERTIFICATES.open(newline="") as file:
        rows = {row["weights"]: (row["base"], row["rule"], row["implant"], row["seed"]) for row in csv.DictReader(file)}
    files = [path for base in ("photovlm", "photocnn") for path in shipped(base).glob("*.*.safetensors")]
    known = {}
    for path in files:
        origin = read_origin(path)
        if origin.mechanism is not None:
            known[hashlib.sha256(path.read_bytes()).hexdigest()[:16]] = (
                origin.base, origin.rule, origin.implant, str(origin.seed)
            )  # fmt: skip
    assert known == rows
    assert len(known) >= 20


def test_the_page_of_certificates_tells_what_fails_and_what_the_object_allows() -> None:
    spec = importlib.util.spec_from_file_location("organisms_page", DOCS / "organisms.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    fixed = {"base": "photovlm", "rule": "content", "implant": "lora", "seed": "1", "weights": "w", "bar": "at least"}
    rows = [
        fixed | {"check": check, "share": share, "low": "0.8", "high": "1", "n": "10", "holds": holds}
        for check, share, holds in (
            ("answers as its table says", "0.9", "True"), ("content turned round: answer changes", "0.7", "False"),
            ("side turned round: answer stays", "0.0", "True"),
        )
    ]  # fmt: skip
    [line] = page.lines(rows)
    assert "`photovlm.content` (lora, seed 1)" in line
    assert "2 of 3 | content turned round" in line
    [line] = page.changes(rows)
    assert "| 82.0 % | 70.0 %" in line  # .9 · .9 + .1 · .1
    assert page.page().count("| `photo") > 20

"""Submissions: one that is taken, and a readable refusal for everything else."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from karat.kernel.errors import BadInput
from karat.testing.submission import check, pack

SPEC: dict[str, Any] = {
    "protocol": "grid", "models": ["gridprog.pure", "gridprog.spur"], "datasets": [{"name": "grid", "seed": "sealed"}],
    "explainers": ["mine:Middle", "control/random"],
}  # fmt: skip
GOOD = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card

@dataclass(frozen=True)
class Middle:
    card: ClassVar[Card] = Card("mine/middle", "the middle", "explainer", gives=frozenset({"visual"}), passes="0")

    def __call__(self, session):
        found = []
        for sample in session.samples:
            rows, columns = np.indices(sample.size)
            middle = [(n - 1) / 2 for n in sample.size]
            visual = 1.0 / (1.0 + np.hypot(rows - middle[0], columns - middle[1]))
            found.append(Attribution(visual=visual, space="pixel"))
        return found
"""


def _plugin(folder: Path, code: str = GOOD, spec: dict[str, Any] | None = None) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(code)
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec or SPEC))
    return folder / "mine.py", folder / "spec.yaml"


def test_a_good_plugin_is_packed_and_the_host_agrees(tmp_path: Path) -> None:
    path = pack(*_plugin(tmp_path / "a"), tmp_path / "out.zip", SPEC)
    assert check(path, SPEC) == []


@pytest.mark.parametrize(("change", "part"), [
    ({"explainers": ["control/random"]}, "names no explainer"),
    ({"explainers": ["other:Thing"]}, "has no module 'other'"),
    ({"models": ["mine:Model"]}, "explainers alone"),
    ({"datasets": [{"name": "grid", "seed": 4}]}, "the sealed test says"),
    ({"colour": "red"}, "cannot be read"),
])  # fmt: skip
def test_a_spec_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    with pytest.raises(BadInput, match=part):
        pack(*_plugin(tmp_path / "a", spec={**SPEC, **change}), tmp_path / "out.zip", SPEC)
    assert not (tmp_path / "out.zip").exists()


@pytest.mark.parametrize(("code", "part"), [
    ("raise RuntimeError('no luck')", "cannot be built"),
    ("import os; os._exit(3)", "ended the checking process"),
    (GOOD.replace("1.0 / (1.0 +", "np.random.random() / (1.0 +"), "breaks a law"),
])  # fmt: skip
def test_code_that_breaks_is_refused(tmp_path: Path, code: str, part: str) -> None:
    with pytest.raises(BadInput, match=part):
        pack(*_plugin(tmp_path / "a", code), tmp_path / "out.zip")


def test_unsafe_archives_are_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "out.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../escape.py", "weights.pkl"):
            archive.writestr(name, "")
    told = " ".join(check(path))
    assert "leads out of the folder" in told
    assert "weights.pkl: files of this kind" in told
    assert "no spec.yaml" in told
    path.write_bytes(b"nothing")
    assert "no zip" in check(path)[0]

"""What was found out is kept with a run, named by specs, and tells the level before the next load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_vlms

from karat.cli.run import show_plan
from karat.engine.plan import plan
from karat.engine.run import run
from karat.kernel.spec import Spec
from karat.models.discovery import Discovered
from karat.models.vlm import VLMRecipe, remembered


def spec(folder: Path, family: str) -> Spec:
    return Spec.parse(
        {
            "protocol": {"name": "synergy", "steps": 3},
            "models": [{"name": "vlm", "path": str(folder), "options": ["1", "2", "3"], "family": family}],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 1}],
            "explainers": ["control/random"],
        }
    )


def test_a_run_keeps_the_family_and_a_spec_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tiny_vlms.saved("llava", tmp_path / "weights")
    fresh = spec(folder, "discovered")
    show_plan(plan(fresh), str(tmp_path / "first"))
    assert "weights: level not known until it is loaded and probed" in capsys.readouterr().out
    run(fresh, tmp_path / "first", workers=0)
    [kept] = (tmp_path / "first" / "families").iterdir()
    assert Discovered.load(kept).level == "opens"
    show_plan(plan(fresh), str(tmp_path / "first"))
    assert "weights: level opens" in capsys.readouterr().out

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr("karat.models.discovery.discover.discover", lambda *_: pytest.fail("found out twice"))
    named = run(spec(folder, str(kept)), tmp_path / "second", workers=0)
    assert (named.scores()["status"] != "failure").all()
    assert (tmp_path / "second" / "families" / kept.name).read_text() == kept.read_text()


def test_levels_and_identities_of_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tiny_vlms.saved("llava", tmp_path / "weights")
    recipe = VLMRecipe(path=str(folder))
    assert (recipe.level, recipe.discovered()) == ("opens", None)  # known by hand
    found: Any = replace(recipe, family="discovered").load()
    asks = replace(found.family, level="asks")
    asks.save(tmp_path / "asks.json")
    given = replace(recipe, family=str(tmp_path / "asks.json"))
    assert given.level == "asks"
    assert "gradients" not in given.capabilities
    before = given.revision
    found.family.save(tmp_path / "asks.json")  # another family under the same name
    assert given.revision != before
    memory = remembered(str(folder), None)
    assert memory is not None
    memory.write_text("{}", encoding="utf-8")  # as an older version might have left it
    assert replace(recipe, family="discovered").level is None
    assert replace(recipe, family="discovered").load().family == found.family
